"""EffectLedger in memory, with the two steps of it that a thread's change may carry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from stores.errors import NotSupported
from stores.memory.world import EffectRow, MemoryWorld
from stores.ports import (
    AlreadySettled,
    Batch,
    Began,
    Begun,
    CannotClose,
    Closed,
    DigestMismatch,
    Fenced,
    Held,
    Reservation,
    ReserveAnswer,
    Reserved,
    SecondEffect,
    Settled,
)
from stores.records import Effect, EffectKind, EffectState, ThreadKey, ToolResult, result_from_json, to_json

_OPEN = (EffectState.RESERVED, EffectState.BEGUN)


class MemoryEffectLedger:
    """EffectLedger over the dicts of one MemoryWorld. It has no transactions to offer to tools."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world

    async def reserve(self, key: ThreadKey, *, batch: Batch) -> Mapping[str, ReserveAnswer]:
        answers, written = reserved(self._world.rows(key), batch, self._world.clock())
        self._world.put(key, written or {})
        return answers

    async def begin(self, key: ThreadKey, *, interrupt_id: str, attempt: str) -> Began | Fenced:
        row = self._world.rows(key).get(interrupt_id)
        if row is None or row.attempt != attempt:
            return Fenced()
        if row.state is EffectState.RESERVED and row.holder is not None:
            self._world.put(key, {interrupt_id: _begun(row, attempt, self._world.clock())})
            return Began()
        return Began() if row.state is EffectState.BEGUN else Fenced()

    async def settle(
        self, key: ThreadKey, *, interrupt_id: str, attempt: str, result: ToolResult
    ) -> Settled | AlreadySettled | SecondEffect | Fenced:
        row = self._world.rows(key).get(interrupt_id)
        if row is None or row.state is EffectState.CLOSED or attempt not in row.begun_by | row.refuted:
            return Fenced()
        if attempt in row.refuted and row.begun_by - {attempt}:
            return SecondEffect()
        if row.result is not None:
            return AlreadySettled(result_from_json(row.result))
        self._world.put(key, {interrupt_id: replace(row, state=EffectState.SETTLED, result=to_json(result))})
        return Settled(result)

    async def close(self, key: ThreadKey, *, interrupts: Mapping[str, str]) -> Closed | CannotClose:
        rows, now = self._world.rows(key), self._world.clock()
        answers = {name: _to_close(rows.get(name), why, (), now) for name, why in interrupts.items()}
        refused = {name: answer for name, answer in answers.items() if not isinstance(answer, Closed)}
        if refused:
            return CannotClose(refused)
        self._world.put(key, {name: _closed(rows.get(name), why) for name, why in interrupts.items()})
        return Closed(", ".join(sorted(set(interrupts.values()))))

    async def free(self, key: ThreadKey, *, attempt: str) -> None:
        self._world.put(key, freed(self._world.rows(key), attempt))

    async def read(self, key: ThreadKey, *, interrupts: Collection[str]) -> Mapping[str, Effect]:
        rows, now = self._world.rows(key), self._world.clock()
        return {name: _effect(name, rows[name], now) for name in interrupts if name in rows}

    async def resolve(
        self, key: ThreadKey, *, interrupt_id: str, result: ToolResult | None, by: str, evidence: str
    ) -> Settled | Reserved | Fenced:
        row = self._world.rows(key).get(interrupt_id)
        if row is not None and row.result is not None:
            return Settled(result_from_json(row.result))
        if row is None or row.state is not EffectState.BEGUN:
            return Fenced()
        resolved = replace(row, resolved_by=by, evidence=evidence)
        if result is not None:
            self._world.put(key, {interrupt_id: replace(resolved, state=EffectState.SETTLED, result=to_json(result))})
            return Settled(result)
        self._world.put(key, {interrupt_id: _refuted(resolved)})
        return Reserved()

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


def reserved(
    rows: Mapping[str, EffectRow], batch: Batch, now: float
) -> tuple[Mapping[str, ReserveAnswer], Mapping[str, EffectRow] | None]:
    """Judge a whole batch; answers per interrupt, and the rows to write, or None if the batch is refused."""
    approve = {each.interrupt_id: _to_reserve(rows.get(each.interrupt_id), each, batch, now) for each in batch.approve}
    close = {name: _to_close(rows.get(name), why, batch.dead, now) for name, why in batch.close.items()}
    answers = {**approve, **close}
    if not all(isinstance(answer, Reserved | Settled) for answer in approve.values()):
        return answers, None
    if not all(isinstance(answer, Closed) for answer in close.values()):
        return answers, None
    written = {name: _closed(rows.get(name), why) for name, why in batch.close.items()}
    for each in batch.approve:
        if isinstance(approve[each.interrupt_id], Reserved):
            written[each.interrupt_id] = _reserved(rows.get(each.interrupt_id), each, batch, now)
    return answers, written


def freed(rows: Mapping[str, EffectRow], attempt: str) -> Mapping[str, EffectRow]:
    """Return the rows of an attempt that are not settled, without its hold."""
    mine = {name: row for name, row in rows.items() if row.attempt == attempt}
    return {name: replace(row, holder=None) for name, row in mine.items() if row.state in _OPEN}


def _is_free(row: EffectRow, dead: Collection[str], now: float) -> bool:
    return row.holder is None or row.holder in dead or row.until < now


def _to_reserve(row: EffectRow | None, wanted: Reservation, batch: Batch, now: float) -> ReserveAnswer:
    if row is None:
        return Reserved(begun=wanted.begin)
    if row.state is EffectState.CLOSED:
        return Closed(row.why or "")
    if row.result is not None:
        return Settled(result_from_json(row.result))
    if row.attempt != batch.attempt and not _is_free(row, batch.dead, now):
        return Held(same=row.digest == wanted.digest)
    return Reserved(begun=wanted.begin) if row.begun_at is None else _to_repeat(row, wanted, now - row.begun_at)


def _to_repeat(row: EffectRow, wanted: Reservation, age_seconds: float) -> Reserved | Begun | DigestMismatch:
    if row.digest != wanted.digest:
        return DigestMismatch()
    is_repeatable = row.kind is EffectKind.IDEMPOTENT and age_seconds < (row.key_lifetime_seconds or 0)
    return Reserved(begun=True) if is_repeatable else Begun(age_seconds)


def _to_close(row: EffectRow | None, why: str, dead: Collection[str], now: float) -> Closed | Held | Begun | Settled:
    if row is None:
        return Closed(why)
    if row.state is EffectState.CLOSED:
        return Closed(row.why or "")
    if row.result is not None:
        return Settled(result_from_json(row.result))
    if not _is_free(row, dead, now):
        return Held(same=False)
    return Closed(why) if row.begun_at is None else Begun(now - row.begun_at)


def _reserved(row: EffectRow | None, wanted: Reservation, batch: Batch, now: float) -> EffectRow:
    fresh = EffectRow(EffectState.RESERVED, wanted.kind, wanted.digest, wanted.key_lifetime_seconds)
    held = replace(row or fresh, attempt=batch.attempt, holder=batch.holder, until=batch.until, digest=wanted.digest)
    is_begun = wanted.begin or held.state is EffectState.BEGUN
    return _begun(held, batch.attempt, now) if is_begun else held


def _begun(row: EffectRow, attempt: str, now: float) -> EffectRow:
    first = row.begun_at if row.begun_at is not None else now
    return replace(row, state=EffectState.BEGUN, begun_at=first, begun_by=row.begun_by | {attempt})


def _refuted(row: EffectRow) -> EffectRow:
    return replace(
        row,
        state=EffectState.RESERVED,
        holder=None,
        begun_at=None,
        begun_by=frozenset(),
        refuted=row.refuted | row.begun_by,
    )


def _closed(row: EffectRow | None, why: str) -> EffectRow:
    if row is not None and row.state is EffectState.CLOSED:
        return row
    return replace(row or EffectRow(EffectState.CLOSED), state=EffectState.CLOSED, why=why, holder=None)


def _effect(interrupt_id: str, row: EffectRow, now: float) -> Effect:
    return Effect(
        interrupt_id=interrupt_id,
        state=row.state,
        kind=row.kind,
        digest=row.digest,
        attempt=row.attempt,
        holder=row.holder,
        until=row.until,
        begun_age_seconds=None if row.begun_at is None else now - row.begun_at,
        result=None if row.result is None else result_from_json(row.result),
        why=row.why,
    )
