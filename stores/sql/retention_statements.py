"""The statements that find and remove what is old, written once for both databases."""

from __future__ import annotations

from sqlalchemy import and_, delete, exists, not_, select, tuple_

from stores.sql.expressions import (
    array_of,
    at_key,
    columns_of,
    count_parameter,
    current_time,
    is_among,
    number_parameter,
    text_parameter,
)
from stores.sql.tables import KEY, outcomes, runs, threads
from stores.sql.thread_statements import IS_AT_REST

CURSOR = ("written_at", *KEY, "run_id")
"""What the index of the runs' ages is ordered by, and so what says where a look at them left off."""

_order = [runs.c[name] for name in CURSOR]
_left_off = tuple_(number_parameter("after_written_at"), *(text_parameter(f"after_{name}") for name in CURSOR[1:]))

# The limit is on what is looked at, not on what is found: a pass over many runs that must stay is as cheap as any.
_looked_at = (
    select(*_order)
    .where(runs.c.written_at < current_time(number_parameter("age_seconds")), tuple_(*_order) > _left_off)
    .order_by(*_order)
    .limit(count_parameter("limit"))
    .subquery("looked_at")
)
_of_thread = and_(*(threads.c[name] == _looked_at.c[name] for name in KEY))
_of_run = and_(*(outcomes.c[name] == _looked_at.c[name] for name in (*KEY, "run_id")))
_ended = select(array_of(outcomes.c.name)).where(_of_run, outcomes.c.is_alias == 0).scalar_subquery()
OLD = (
    select(*(_looked_at.c[name] for name in CURSOR), IS_AT_REST.label("is_at_rest"), _ended.label("interrupts"))
    .select_from(_looked_at.join(threads, _of_thread))
    .order_by(*(_looked_at.c[name] for name in CURSOR))
)

# These three are one transaction. Every writer of a thread locks its row first, so from then on nothing is added to it,
# and each statement sees all that was: a run of a claim that came before, too.
LOCK = select(*columns_of(threads)).where(at_key(threads), IS_AT_REST).with_for_update()
_is_old = runs.c.written_at <= current_time(number_parameter("age_seconds"))
REMOVE_RUNS = delete(runs).where(at_key(runs), is_among(runs.c.run_id, "run_ids"), _is_old).returning(runs.c.run_id)
REMOVE_THREAD = (
    delete(threads).where(at_key(threads), not_(exists().where(at_key(runs)))).returning(*columns_of(threads))
)
