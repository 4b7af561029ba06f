"""The ledger as claims and upkeep use it: rows reserved and closed, where the hold of a dead process binds nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import uuid4

from app.again import again_if_in_doubt
from app.replicas import Replica
from stores.ports import Batch, EffectLedger, Held, ReserveAnswer
from stores.records import ThreadKey


class Ledger:
    """Reserves and closes, all or nothing; repeated unchanged when an answer was lost."""

    def __init__(self, effects: EffectLedger, replica: Replica) -> None:
        self._effects = effects
        self._replica = replica

    async def reserve(self, key: ThreadKey, batch: Batch) -> Mapping[str, ReserveAnswer]:
        """Reserve and close a batch.

        A record names the holder of its claim only, and one that lost its claim, or whose holder died between ledger
        and record, names none. So where a row is held, it is the row that is asked by whom.
        """
        answers = await again_if_in_doubt(lambda: self._effects.reserve(key, batch=batch))
        held = [name for name, answer in answers.items() if isinstance(answer, Held)]
        if not held:
            return answers
        rows = await self._effects.read(key, interrupts=held)
        dead = await self._replica.dead({row.holder for row in rows.values() if row.holder is not None})
        if dead <= set(batch.dead):
            return answers
        widened = replace(batch, dead=(*batch.dead, *dead))
        return await again_if_in_doubt(lambda: self._effects.reserve(key, batch=widened))

    async def close(self, key: ThreadKey, interrupts: Mapping[str, str]) -> Mapping[str, ReserveAnswer]:
        """End occurrences without an effect; the answers say why each was closed, or what stands in the way."""
        return await self.reserve(key, Batch(uuid4().hex, self._replica.holder, 0.0, close=interrupts))
