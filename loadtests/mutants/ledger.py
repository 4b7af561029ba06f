"""Bugs of the ledger, and of what the host does with it: the ones that make an effect happen twice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from loadtests.mutants.mutant import IN_THE_EFFECT, Around, Mutant, Replacement, around_stores
from stores.ports import (
    AlreadySettled,
    Batch,
    Began,
    Change,
    Closed,
    Fenced,
    Lost,
    NotReserved,
    ReserveAnswer,
    Reserved,
    Saved,
    SecondEffect,
    Settled,
    Stores,
)
from stores.records import Effect, EffectKind, EffectState, ThreadKey, ToolResult

_KEY_LIFETIME_SECONDS = 86_400.0

SettleAnswer = Settled | AlreadySettled | SecondEffect | Fenced


def _effects(around: Callable[[Any], Any]) -> Callable[[], tuple[Replacement, ...]]:
    return around_stores(lambda stores: replace(stores, effects=around(stores.effects)))


class _BeginsAfter(Around):
    async def begin(self, key: ThreadKey, **asked: Any) -> Began | Fenced:
        return Began()

    async def settle(self, key: ThreadKey, *, interrupt_id: str, attempt: str, result: ToolResult) -> SettleAnswer:
        await self.inner.begin(key, interrupt_id=interrupt_id, attempt=attempt)
        settled: SettleAnswer = await self.inner.settle(key, interrupt_id=interrupt_id, attempt=attempt, result=result)
        return settled


class _DropsSettle(Around):
    async def settle(self, key: ThreadKey, *, result: ToolResult, **asked: Any) -> SettleAnswer:
        return Settled(result)


class _AnyAttempt(Around):
    """Whoever asks is taken for whoever has the row."""

    async def begin(self, key: ThreadKey, *, interrupt_id: str, attempt: str) -> Began | Fenced:
        row = await self._row(key, interrupt_id)
        began: Began | Fenced = await self.inner.begin(
            key, interrupt_id=interrupt_id, attempt=row.attempt if row else attempt
        )
        return Began() if row else began

    async def settle(self, key: ThreadKey, *, interrupt_id: str, attempt: str, result: ToolResult) -> SettleAnswer:
        row = await self._row(key, interrupt_id)
        settled: SettleAnswer = await self.inner.settle(
            key, interrupt_id=interrupt_id, attempt=row.attempt if row else attempt, result=result
        )
        return settled

    async def _row(self, key: ThreadKey, interrupt_id: str) -> Any:
        return (await self.inner.read(key, interrupts=[interrupt_id])).get(interrupt_id)


class _Off(Around):
    """Says yes to everything and keeps nothing, but for transactional calls: their rows are written with the effect.

    Asked for a row that it does not keep, it makes one up: of a missing one a host knows that something is wrong.
    """

    async def reserve(self, key: ThreadKey, *, batch: Batch) -> Mapping[str, ReserveAnswer]:
        return _granted(batch) | dict(await self.inner.reserve(key, batch=_transactional(batch)))

    async def begin(self, key: ThreadKey, **asked: Any) -> Began | Fenced:
        return Began()

    async def settle(self, key: ThreadKey, *, result: ToolResult, **asked: Any) -> SettleAnswer:
        return Settled(result)

    async def read(self, key: ThreadKey, *, interrupts: Collection[str]) -> Mapping[str, Effect]:
        kept: Mapping[str, Effect] = await self.inner.read(key, interrupts=interrupts)
        return {name: kept.get(name) or _made_up(name) for name in interrupts}


class _WithoutBatch(Around):
    """The threads beside a ledger that is off: a claim takes few rows along."""

    async def save(self, key: ThreadKey, *, change: Change) -> Saved | Lost | NotReserved:
        batch = change.batch
        kept = replace(change, batch=_transactional(batch)) if batch else change
        saved: Saved | Lost | NotReserved = await self.inner.save(key, change=kept)
        if batch is None or not isinstance(saved, Saved):
            return saved
        return replace(saved, answers=_granted(batch) | dict(saved.answers))


class _Repeatable(Around):
    """Keeps unsafe calls as if the far side knew their keys: whoever takes over makes them again."""

    async def reserve(self, key: ThreadKey, *, batch: Batch) -> Mapping[str, ReserveAnswer]:
        answers: Mapping[str, ReserveAnswer] = await self.inner.reserve(key, batch=_repeatable(batch))
        return answers


class _RepeatableClaims(Around):
    async def save(self, key: ThreadKey, *, change: Change) -> Saved | Lost | NotReserved:
        batch = _repeatable(change.batch) if change.batch else None
        saved: Saved | Lost | NotReserved = await self.inner.save(key, change=replace(change, batch=batch))
        return saved


def _granted(batch: Batch) -> dict[str, ReserveAnswer]:
    approved: dict[str, ReserveAnswer] = {each.interrupt_id: Reserved() for each in batch.approve}
    return approved | {name: Closed(why) for name, why in batch.close.items()}


def _transactional(batch: Batch) -> Batch:
    rows = tuple(each for each in batch.approve if each.kind is EffectKind.TRANSACTIONAL)
    return replace(batch, approve=rows, close={})


def _made_up(interrupt_id: str) -> Effect:
    return Effect(interrupt_id, EffectState.RESERVED, EffectKind.UNSAFE, "", attempt=None, holder=None, until=0.0)


def _repeatable(batch: Batch) -> Batch:
    rows = [
        replace(each, kind=EffectKind.IDEMPOTENT, key_lifetime_seconds=_KEY_LIFETIME_SECONDS)
        if each.kind is EffectKind.UNSAFE
        else each
        for each in batch.approve
    ]
    return replace(batch, approve=tuple(rows))


def _off(stores: Stores) -> Stores:
    return replace(stores, effects=_Off(stores.effects), threads=_WithoutBatch(stores.threads))


def _all_repeatable(stores: Stores) -> Stores:
    return replace(stores, effects=_Repeatable(stores.effects), threads=_RepeatableClaims(stores.threads))


_TWICE = "at most one effect per approval"

LEDGER_MUTANTS = (
    Mutant(
        "begin-after-the-effect",
        "That a call begins is written down when it is over.",
        (_TWICE,),
        _effects(_BeginsAfter),
        steps=IN_THE_EFFECT,
    ),
    Mutant(
        "settle-dropped",
        "That a call has its result is acknowledged, and not written down.",
        ("a doubt has a cause",),
        _effects(_DropsSettle),
        steps=("before-model", "after-model", "before-finish"),
    ),
    Mutant(
        "attempt-ignored",
        "Who was taken over may begin and settle all the same.",
        (_TWICE,),
        _effects(_AnyAttempt),
        plan="freeze",
        # What has begun already is not called again by who takes over: two calls need a first that is late to begin.
        steps=("after-claim", "before-begin"),
    ),
    Mutant(
        "ledger-off",
        "The ledger says yes to everything, and keeps nothing but what is written with an effect.",
        (_TWICE,),
        around_stores(_off),
        steps=IN_THE_EFFECT,
    ),
    Mutant(
        "unsafe-call-repeated",
        "A take-over makes an unsafe call again that had begun.",
        (_TWICE, "an unsafe call never runs again after a doubt"),
        around_stores(_all_repeatable),
        steps=IN_THE_EFFECT,
    ),
)
