"""May a refusal say that no effect has begun? Only what the ledger was asked about is definite."""

from __future__ import annotations

from collections.abc import Collection

from app.errors import MEANINGS, Refusal
from app.retained import outcome_named
from stores.errors import StoreError
from stores.ports import Stores
from stores.records import Effect, EffectState, OccurrenceState, ThreadKey


async def is_definite(
    stores: Stores, key: ThreadKey, refusal: Refusal, *, run_id: str, names: Collection[str] | None
) -> bool:
    """Say whether no effect of anything the request names has begun; False wherever that is not known.

    `names` are the ids it answers (None: they could not be read). Every call of the thread's open pause counts too:
    a request that answers one of them speaks of the whole batch. A ledger that may forget what it acknowledged is
    never certain.
    """
    if names is None or not MEANINGS[refusal.code].can_be_definite or not stores.durable:
        return False
    try:
        loaded = await stores.threads.load(key, interrupts=names, run_id=run_id)
        open_ones = [each.interrupt_id for each in loaded.record.occurrences]
        rows = await stores.effects.read(key, interrupts=open_ones) if open_ones else {}
    except StoreError:
        return False
    known = loaded.known.outcomes if loaded.known else ()
    if any(each.state is OccurrenceState.FINISHED for each in known):
        return False
    if not all(loaded.record.find(name) or outcome_named(loaded.known, name) for name in names):
        return False
    if any(
        each.state is not OccurrenceState.PENDING and each.interrupt_id not in rows
        for each in loaded.record.occurrences
    ):
        # Its row came with its decision: where it is gone, nobody can tell what it said.
        return False
    return all(row.state is EffectState.CLOSED or _is_free(row, loaded.now) for row in rows.values())


def _is_free(row: Effect, now: float) -> bool:
    """A row that nobody holds (or for later only) and that has not begun: no effect, and none on its way."""
    return row.state is EffectState.RESERVED and (row.holder is None or row.until < now)
