"""EffectLedger on Redis: one script per step, over the rows of one thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from stores.errors import NotSupported
from stores.ports import (
    AlreadySettled,
    Batch,
    Began,
    Begun,
    CannotClose,
    Closed,
    Fenced,
    Held,
    ReserveAnswer,
    Reserved,
    SecondEffect,
    Settled,
)
from stores.records import Effect, ThreadKey, ToolResult, result_from_json, to_json
from stores.redis.arguments import counted, optional, reserved
from stores.redis.client import RedisClient, script
from stores.redis.keys import keys_of
from stores.redis.replies import answers_from, effect_from


class RedisEffectLedger:
    """EffectLedger over one Redis, Sentinel or Cluster. It has no transactions to offer to tools."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._reserve = script("arguments", "ledger", "effect_reserve")
        self._begin = script("arguments", "ledger", "effect_begin")
        self._settle = script("arguments", "ledger", "effect_settle")
        self._free = script("arguments", "ledger", "effect_free")
        self._read = script("arguments", "ledger", "effect_read")
        self._forget = script("arguments", "effect_forget")
        self._resolve = script("arguments", "ledger", "effect_resolve")

    async def reserve(self, key: ThreadKey, *, batch: Batch) -> Mapping[str, ReserveAnswer]:
        answers, _ = await self._client.write(self._reserve, keys_of(key).ledger, *reserved(batch))
        return answers_from(batch, answers)

    async def begin(self, key: ThreadKey, *, interrupt_id: str, attempt: str) -> Began | Fenced:
        has_begun = await self._client.write(self._begin, keys_of(key).ledger, interrupt_id, attempt)
        return Began() if has_begun == 1 else Fenced()

    async def settle(
        self, key: ThreadKey, *, interrupt_id: str, attempt: str, result: ToolResult
    ) -> Settled | AlreadySettled | SecondEffect | Fenced:
        reply = await self._client.write(self._settle, keys_of(key).ledger, interrupt_id, attempt, to_json(result))
        match reply:
            case [b"settled"]:
                return Settled(result)
            case [b"already", first]:
                return AlreadySettled(result_from_json(first))
            case [b"second"]:
                return SecondEffect()
            case _:
                return Fenced()

    async def close(self, key: ThreadKey, *, interrupts: Mapping[str, str]) -> Closed | CannotClose:
        # A batch of nobody: no holder counts as dead, and nothing is reserved.
        answers = await self.reserve(key, batch=Batch("", "", 0.0, close=interrupts))
        refused = {name: each for name, each in answers.items() if isinstance(each, Held | Begun | Settled)}
        return CannotClose(refused) if refused else Closed(", ".join(sorted(set(interrupts.values()))))

    async def free(self, key: ThreadKey, *, attempt: str) -> None:
        await self._client.write(self._free, keys_of(key).ledger, attempt)

    async def read(self, key: ThreadKey, *, interrupts: Collection[str]) -> Mapping[str, Effect]:
        names = list(interrupts)
        replies = await self._client.read(self._read, keys_of(key).ledger, *counted(names))
        return {name: effect_from(name, row) for name, row in zip(names, replies, strict=True) if row is not None}

    async def forget(self, key: ThreadKey, *, interrupts: Collection[str]) -> int:
        gone: int = await self._client.write(self._forget, keys_of(key).ledger, *counted(list(interrupts)))
        return gone

    async def resolve(
        self, key: ThreadKey, *, interrupt_id: str, attempt: str, result: ToolResult | None, by: str, evidence: str
    ) -> Settled | Reserved | Fenced:
        stated = optional(None if result is None else to_json(result))
        told = (interrupt_id, attempt, *stated, by, evidence)
        reply = await self._client.write(self._resolve, keys_of(key).ledger, *told)
        match reply:
            case [b"settled", stands]:
                return Settled(result_from_json(stands))
            case [b"reserved"]:
                return Reserved()
            case _:
                return Fenced()

    async def transact(
        self,
        key: ThreadKey,
        *,
        interrupt_id: str,
        attempt: str,
        call: Callable[[Any], Awaitable[ToolResult]],
        seconds: float,
    ) -> ToolResult | Fenced:
        raise NotSupported("The Redis ledger has no transactions; use the sql stores for transactional tools.")
