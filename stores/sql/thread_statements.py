"""The statements of ThreadStore, written once for both databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Table,
    and_,
    delete,
    exists,
    false,
    func,
    literal,
    literal_column,
    not_,
    null,
    or_,
    select,
    true,
    union_all,
    update,
)

from stores.records import FORMAT
from stores.sql.effect_statements import FREE
from stores.sql.expressions import (
    Now,
    at_key,
    columns_of,
    count_parameter,
    current_time,
    field_in,
    flag_parameter,
    insert_into,
    is_among,
    key_parameters,
    number_parameter,
    rows_of,
    text_parameter,
)
from stores.sql.statements import Follow
from stores.sql.tables import KEY, occurrences, outcomes, runs, threads

_TEXTS = ("record", "snapshot", "bag")
_CLAIM = ("claim_attempt", "claim_holder", "claim_run_id", "claim_until")
_CONTENT = ("generation", "write_id", *_CLAIM, *_TEXTS)


def _is_readable(name: str) -> ColumnElement[bool]:
    """Leave what a later version wrote to a host of that version: this one could claim it, but not go on."""
    start = f'{{"format":{FORMAT},'
    return func.coalesce(threads.c[name], start).startswith(start)


# The thread's condition is on the row that is updated, so it holds for the latest version of it. The run's is on what
# the statement saw when it began: where another transaction was faster, the primary key of the runs refuses the step.
_claimed = insert_into(threads).from_select(
    [*KEY, "generation", "write_id", "has_open", *_CLAIM, "record"],
    select(
        *key_parameters(),
        literal(1),
        text_parameter("new_write_id"),
        false(),
        text_parameter("new_attempt"),
        text_parameter("new_holder"),
        text_parameter("new_run_id"),
        Now() + number_parameter("claim_seconds"),
        text_parameter("empty_record"),
    ).where(not_(exists().where(at_key(runs), runs.c.run_id == text_parameter("new_run_id")))),
)
OPEN = _claimed.on_conflict_do_update(
    index_elements=KEY,
    set_={
        "generation": threads.c.generation + 1,
        **{name: _claimed.excluded[name] for name in ("write_id", *_CLAIM)},
    },
    where=and_(threads.c.claim_attempt.is_(None), not_(threads.c.has_open), *map(_is_readable, _TEXTS)),
).returning(*columns_of(threads, *_CONTENT), Now().label("now"), null().label("known"))


def follow_open(won: FromClause) -> Sequence[Follow]:
    """Insert the run."""
    run = (text_parameter("new_run_id"), text_parameter("new_run_state"), text_parameter("new_run"))
    return [Follow(insert_into(runs).from_select([*KEY, "run_id", "state", "body"], select(*columns_of(won), *run)))]


_new: Mapping[str, ColumnElement[Any]] = {
    "write_id": text_parameter("new_write_id"),
    "has_open": flag_parameter("new_has_open"),
    "claim_attempt": text_parameter("new_attempt"),
    "claim_holder": text_parameter("new_holder"),
    "claim_run_id": text_parameter("new_run_id"),
    "claim_until": number_parameter("new_until"),
    "due_at": number_parameter("new_due_at"),
    "record": text_parameter("new_record"),
}
_new_if_given: Mapping[str, ColumnElement[Any]] = {
    "snapshot": text_parameter("new_snapshot"),
    "bag": text_parameter("new_bag"),
}

CREATE = (
    insert_into(threads)
    .from_select(
        [*KEY, "generation", *_new, *_new_if_given],
        select(*key_parameters(), literal(1), *_new.values(), *_new_if_given.values()).where(true()),
    )
    .on_conflict_do_nothing()
    .returning(*columns_of(threads, "generation"))
)
REPLACE = (
    update(threads)
    .values(
        generation=threads.c.generation + 1,
        **_new,
        **{name: func.coalesce(value, threads.c[name]) for name, value in _new_if_given.items()},
    )
    .where(
        at_key(threads),
        threads.c.generation == count_parameter("expected_generation"),
        threads.c.write_id == text_parameter("expected_write_id"),
    )
    .returning(*columns_of(threads, "generation"))
)


def follow_save(won: FromClause) -> Sequence[Follow]:
    """Keep the runs, the index of what they ended, the list of what is open and the ledger's holds in step."""
    is_won = exists(select(won.c.scope))
    is_ended = not_(is_among(occurrences.c.interrupt_id, "open_names"))
    return [
        _put(runs, "new_runs", won),
        _put(outcomes, "new_outcomes", won),
        Follow(delete(occurrences).where(at_key(occurrences), is_ended, is_won)),
        _put(occurrences, "new_occurrences", won),
        Follow(FREE.where(is_won), "freed_attempt"),
    ]


def _put(table: Table, parameter: str, won: FromClause) -> Follow:
    """Insert or replace a row for each object of a JSON parameter; its fields are named like the columns."""
    given = rows_of(parameter)
    columns = [column for column in table.columns if column.name not in KEY]
    put = insert_into(table).from_select(
        [*KEY, *(column.name for column in columns)],
        select(*columns_of(won), *(field_in(given, column) for column in columns))
        .select_from(won, given)
        .where(true()),
    )
    replaced = {column.name: put.excluded[column.name] for column in columns if not column.primary_key}
    return Follow(put.on_conflict_do_update(index_elements=table.primary_key.columns, set_=replaced), parameter)


VERSION = select(threads.c.generation, threads.c.write_id).where(at_key(threads))

# The run that a duplicate is answered from: one that ended a name, by interrupt id before alias; else the one named.
_ended_by = (
    select(outcomes.c.run_id)
    .where(at_key(outcomes), is_among(outcomes.c.name, "names"))
    .order_by(outcomes.c.is_alias, outcomes.c.name)
    .limit(1)
    .scalar_subquery()
)
_KNOWN = and_(at_key(runs), runs.c.run_id == func.coalesce(_ended_by, text_parameter("run_id")))

KNOWN = select(runs.c.body).where(_KNOWN)

# One row, also for a thread that was never written: it has the time in it.
_always = select(literal_column("1").label("one")).subquery("always")
LOAD = (
    select(*(threads.c[name] for name in _CONTENT), Now().label("now"), runs.c.body.label("known"))
    .select_from(_always)
    .outerjoin(threads, at_key(threads))
    .outerjoin(runs, _KNOWN)
)

LIST = (
    select(*columns_of(occurrences, "interrupt_id", "state", "tool", "created_at", "expires_at"))
    .where(
        occurrences.c.scope == text_parameter("key_scope"),
        occurrences.c.interrupt_id > func.coalesce(text_parameter("after"), ""),
    )
    .order_by(occurrences.c.interrupt_id, occurrences.c.agent, occurrences.c.thread_id)
    .limit(count_parameter("limit"))
)

# Each half searches its own partial index, in the order of it.
_abandoned = (
    select(*columns_of(threads), threads.c.claim_until.label("since"))
    .where(
        threads.c.claim_attempt.is_not(None),
        or_(threads.c.claim_until < current_time(), not_(is_among(threads.c.claim_holder, "alive"))),
    )
    .order_by(threads.c.claim_until)
    .limit(count_parameter("limit"))
    .subquery("abandoned")
)
_waiting = (
    select(*columns_of(threads), threads.c.due_at.label("since"))
    .where(threads.c.claim_attempt.is_(None), threads.c.due_at < current_time())
    .order_by(threads.c.due_at)
    .limit(count_parameter("limit"))
    .subquery("waiting")
)
_either = union_all(select(_abandoned), select(_waiting)).subquery("either")
DUE = select(*columns_of(_either)).order_by(_either.c.since, *columns_of(_either)).limit(count_parameter("limit"))

DELETE = (
    delete(threads)
    .where(
        at_key(threads),
        threads.c.generation == count_parameter("expected_generation"),
        threads.c.write_id == text_parameter("expected_write_id"),
        threads.c.claim_attempt.is_(None),
    )
    .returning(*columns_of(threads, "generation"))
)
