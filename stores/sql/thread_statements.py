"""The statements of ThreadStore, written once for both databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    ScalarSelect,
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
    update,
)

from stores.records import FORMAT, SEALED_FORMAT
from stores.sql.effect_statements import FREE, insert_all
from stores.sql.expressions import (
    Now,
    at_key,
    columns_of,
    count_parameter,
    field_in,
    flag_parameter,
    insert_into,
    is_among,
    key_parameters,
    lines_of,
    number_parameter,
    rows_of,
    text_parameter,
    texts_of,
)
from stores.sql.statements import Follow
from stores.sql.tables import KEY, history, occurrences, outcomes, runs, threads

_TEXTS = ("record", "snapshot", "bag")
_CLAIM = ("claim_attempt", "claim_holder", "claim_run_id", "claim_until")
_CONTENT = ("generation", "write_id", *_CLAIM, *_TEXTS)

IS_AT_REST = and_(threads.c.claim_attempt.is_(None), not_(threads.c.has_open))
"""Whether nobody works on a thread, and nothing is open in it."""


_chunks = lines_of(select(history.c.body).where(at_key(history)).order_by(history.c.first))
"""The sealed messages of a snapshot; for a thread without any, one look into an index."""


def _is_readable(name: str) -> ColumnElement[bool]:
    """Leave what a later version wrote to a host of that version: this one could claim it, but not go on."""
    starts = [f'{{"format":{number},' for number in (FORMAT, SEALED_FORMAT)]
    return or_(threads.c[name].is_(None), *(threads.c[name].startswith(start) for start in starts))


# The thread's condition is on the row that is updated, so it holds for the latest version of it. The run's is on what
# the statement saw when it began: where another transaction was faster, the primary key of the runs refuses the step.
# The sealed messages, too, are those that it saw: they belong to a thread that nobody has written since, and no other.
_seen = threads.alias("seen")
_is_as_seen = threads.c.write_id == select(_seen.c.write_id).where(at_key(_seen)).scalar_subquery()
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
        "due_at": null(),
        **{name: _claimed.excluded[name] for name in ("write_id", *_CLAIM)},
    },
    where=and_(IS_AT_REST, _is_as_seen, *map(_is_readable, _TEXTS)),
).returning(*columns_of(threads, *_CONTENT), Now().label("now"), null().label("known"), _chunks.label("chunks"))


def follow_open(won: FromClause) -> Sequence[Follow]:
    """Insert the run."""
    run = (text_parameter("new_run_id"), text_parameter("new_run_state"), text_parameter("new_run"), Now())
    columns = [*KEY, "run_id", "state", "body", "written_at"]
    return [Follow(insert_into(runs).from_select(columns, select(*columns_of(won), *run)))]


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
    """Keep the sealed messages, the runs, what they ended, what is open and the ledger's holds in step."""
    is_won = exists(select(won.c.scope))
    is_gone = history.c.first != count_parameter("only_first")
    is_ended = not_(is_among(occurrences.c.interrupt_id, "open_names"))
    return [
        Follow(delete(history).where(at_key(history), is_gone, is_won), "only_first"),
        _seal(won),
        _put(runs, "new_runs", won, written_at=Now()),
        _put(outcomes, "new_outcomes", won),
        Follow(delete(occurrences).where(at_key(occurrences), is_ended, is_won)),
        _put(occurrences, "new_occurrences", won),
        Follow(FREE.where(is_won), "freed_attempt"),
    ]


def follow_claim(won: FromClause) -> Sequence[Follow]:
    """Reserve a batch none of whose rows is there; if one is, the database refuses the whole step."""
    return [*follow_save(won), Follow(insert_all(won))]


def _seal(won: FromClause) -> Follow:
    """Add a chunk, or replace the one that begins with the same message: the statement may run before the DELETE."""
    chunk = text_parameter("new_chunk")
    put = insert_into(history).from_select(
        [*KEY, "first", "body"],
        select(*columns_of(won), count_parameter("new_first"), chunk).where(chunk.is_not(None)),
    )
    replaced = put.on_conflict_do_update(index_elements=history.primary_key.columns, set_={"body": put.excluded.body})
    return Follow(replaced, "new_chunk")


def _put(table: Table, parameter: str, won: FromClause, **computed: ColumnElement[Any]) -> Follow:
    """Insert or replace a row for each object of a JSON parameter; its fields are named like the columns."""
    given = rows_of(parameter)
    columns = [column for column in table.columns if column.name not in KEY]
    values = (computed[column.name] if column.name in computed else field_in(given, column) for column in columns)
    put = insert_into(table).from_select(
        [*KEY, *(column.name for column in columns)],
        select(*columns_of(won), *values).select_from(won, given).where(true()),
    )
    replaced = {column.name: put.excluded[column.name] for column in columns if not column.primary_key}
    return Follow(put.on_conflict_do_update(index_elements=table.primary_key.columns, set_=replaced), parameter)


VERSION = select(threads.c.generation, threads.c.write_id).where(at_key(threads))

# The run that a duplicate is answered from: one that ended a name, by interrupt id before alias; else the one named.
# Each name is looked up by itself: where most threads have ended little, a search for several at once is planned as
# one through all that the thread has ended.
_names = texts_of("names")


def _ended_by(is_alias: int) -> ScalarSelect[str]:
    is_named = and_(outcomes.c.name == _names.c.value, outcomes.c.is_alias == literal_column(str(is_alias)))
    run_id = select(outcomes.c.run_id).where(at_key(outcomes), is_named).correlate(_names).scalar_subquery()
    found = select(run_id).select_from(_names).where(run_id.is_not(None))
    # A limit that is a parameter would be taken for a large one, and the statement planned again with every execution.
    return found.order_by(_names.c.value).limit(literal_column("1")).scalar_subquery()


_known_id = func.coalesce(_ended_by(is_alias=0), _ended_by(is_alias=1), text_parameter("run_id"))
_KNOWN = and_(at_key(runs), runs.c.run_id == _known_id)

KNOWN = select(runs.c.body).where(_KNOWN)

# One row, also for a thread that was never written: it has the time in it.
_always = select(literal_column("1").label("one")).subquery("always")
LOAD = (
    select(
        *(threads.c[name] for name in _CONTENT),
        Now().label("now"),
        runs.c.body.label("known"),
        _chunks.label("chunks"),
    )
    .select_from(_always)
    .outerjoin(threads, at_key(threads))
    .outerjoin(runs, _KNOWN)
)

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
