"""EffectLedger in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from stores.effect_row import closed_or_refused, judged
from stores.errors import NotSupported
from stores.memory.world import MemoryWorld
from stores.ports import (
    AlreadySettled,
    Batch,
    Began,
    CannotClose,
    Closed,
    Fenced,
    ReserveAnswer,
    Reserved,
    SecondEffect,
    Settled,
)
from stores.records import Effect, EffectState, ThreadKey, ToolResult


class MemoryEffectLedger:
    """EffectLedger over the dicts of one MemoryWorld. It has no transactions to offer to tools."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world

    async def reserve(self, key: ThreadKey, *, batch: Batch) -> Mapping[str, ReserveAnswer]:
        judgement = judged(self._world.rows(key), batch, self._world.clock())
        self._world.put(key, judgement.rows or {})
        return judgement.answers

    async def begin(self, key: ThreadKey, *, interrupt_id: str, attempt: str) -> Began | Fenced:
        row = self._world.rows(key).get(interrupt_id)
        answer = Fenced() if row is None else row.to_begin(attempt)
        if row is not None and isinstance(answer, Began):
            self._world.put(key, {interrupt_id: row.begun(self._world.clock())})
        return answer

    async def settle(
        self, key: ThreadKey, *, interrupt_id: str, attempt: str, result: ToolResult
    ) -> Settled | AlreadySettled | SecondEffect | Fenced:
        row = self._world.rows(key).get(interrupt_id)
        answer = Fenced() if row is None else row.to_settle(attempt, result)
        if row is not None and isinstance(answer, Settled):
            self._world.put(key, {interrupt_id: row.settled(result)})
        return answer

    async def close(self, key: ThreadKey, *, interrupts: Mapping[str, str]) -> Closed | CannotClose:
        refused, rows = closed_or_refused(self._world.rows(key), interrupts, self._world.clock())
        if refused:
            return CannotClose(refused)
        self._world.put(key, rows)
        return Closed(", ".join(sorted(set(interrupts.values()))))

    async def free(self, key: ThreadKey, *, attempt: str) -> None:
        self._world.put(key, self._world.freed(key, attempt))

    async def read(self, key: ThreadKey, *, interrupts: Collection[str]) -> Mapping[str, Effect]:
        rows, now = self._world.rows(key), self._world.clock()
        return {name: rows[name].effect(now) for name in interrupts if name in rows}

    async def forget(self, key: ThreadKey, *, interrupts: Collection[str]) -> int:
        rows = self._world.effects.get(key, {})
        ended = [name for name in set(interrupts) if name in rows and rows[name].state in _ENDED]
        for name in ended:
            del rows[name]
        if not rows:
            self._world.effects.pop(key, None)
            self._world.unsettled.pop(key, None)
        return len(ended)

    async def resolve(
        self, key: ThreadKey, *, interrupt_id: str, attempt: str, result: ToolResult | None, by: str, evidence: str
    ) -> Settled | Reserved | Fenced:
        row = self._world.rows(key).get(interrupt_id)
        if row is not None and row.is_doubted_under(attempt):
            self._world.put(key, {interrupt_id: row.resolved(result, by, evidence)})
        return Fenced() if row is None else row.to_resolve(attempt, result)

    async def transact(
        self,
        key: ThreadKey,
        *,
        interrupt_id: str,
        attempt: str,
        call: Callable[[Any], Awaitable[ToolResult]],
        seconds: float,
    ) -> ToolResult | Fenced:
        raise NotSupported("The memory ledger has no transactions; use the sql stores for transactional tools.")


_ENDED = (EffectState.SETTLED, EffectState.CLOSED)
