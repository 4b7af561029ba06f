"""The statements over many threads, written once for both databases: each reads an index that holds no more than it."""

from __future__ import annotations

from sqlalchemy import func, not_, or_, select, union_all

from stores.sql.expressions import columns_of, count_parameter, current_time, is_among, text_parameter
from stores.sql.tables import occurrences, threads

LIST = (
    select(*columns_of(occurrences, "interrupt_id", "state", "tool", "created_at", "expires_at"))
    .where(
        occurrences.c.scope == text_parameter("key_scope"),
        occurrences.c.interrupt_id > func.coalesce(text_parameter("after"), ""),
    )
    .order_by(occurrences.c.interrupt_id, occurrences.c.agent, occurrences.c.thread_id)
    .limit(count_parameter("limit"))
)

# In the index's order, so that no plan looks through the rows of other scopes.
_open = (
    select(occurrences.c.interrupt_id)
    .where(occurrences.c.scope == text_parameter("key_scope"))
    .order_by(occurrences.c.interrupt_id)
    .limit(count_parameter("limit"))
    .subquery("open")
)
COUNT_OPEN = select(func.count().label("open")).select_from(_open)

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
