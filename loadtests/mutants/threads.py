"""Bugs of the store that keeps threads: what it says that it wrote, and from whom it keeps what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

from loadtests.mutants.mutant import Around, Mutant, Replacement, around_stores
from stores.ports import Change, Loaded, Lost, NotReserved, Saved, Stores
from stores.records import OccurrenceState, Record, Scope, ThreadKey

_TRIES_MAX = 3
LATE_SECONDS = 3.0
"""So much later a pause is written that is said to be stored."""
_HOUR = 3600.0


def _threads(around: Callable[[Any], Any]) -> Callable[[], tuple[Replacement, ...]]:
    return around_stores(lambda stores: replace(stores, threads=around(stores.threads)))


class _WithoutCompare(Around):
    async def save(self, key: ThreadKey, *, change: Change) -> Saved | Lost | NotReserved:
        saved: Saved | Lost | NotReserved = await self.inner.save(key, change=change)
        for _ in range(_TRIES_MAX):
            if not isinstance(saved, Lost):
                break
            there = await self.inner.load(key)
            forced = replace(change, expected=there.record.version, write_id=uuid4().hex)
            saved = await self.inner.save(key, change=forced)
        return saved


class _WipedWhenRead(Around):
    async def load(self, key: ThreadKey, **asked: Any) -> Loaded:
        loaded: Loaded = await self.inner.load(key, **asked)
        if not asked and _is_pending(loaded.record):
            record = replace(loaded.record, occurrences=(), pause_id=None)
            await self.inner.save(key, change=Change(loaded.record.version, uuid4().hex, record))
        return loaded


class _Spent(Around):
    """A claim keeps no decision: only its own run has it."""

    async def save(self, key: ThreadKey, *, change: Change) -> Saved | Lost | NotReserved:
        if change.record.claim is not None and change.record.occurrences:
            change = replace(change, record=replace(change.record, occurrences=()))
        saved: Saved | Lost | NotReserved = await self.inner.save(key, change=change)
        return saved


class _WrittenLater(Around):
    """What pauses is said to be stored when it will be, a little later."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self._writing: set[asyncio.Task[Any]] = set()

    async def save(self, key: ThreadKey, *, change: Change) -> Saved | Lost | NotReserved:
        if not _is_pending(change.record) or change.record.claim is not None:
            saved: Saved | Lost | NotReserved = await self.inner.save(key, change=change)
            return saved
        task = asyncio.create_task(self._save_later(key, change))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        return Saved(replace(change.expected, generation=change.expected.generation + 1, write_id=change.write_id))

    async def _save_later(self, key: ThreadKey, change: Change) -> None:
        await asyncio.sleep(LATE_SECONDS)
        await self.inner.save(key, change=change)


class _NeverExpires(Around):
    async def load(self, key: ThreadKey, **asked: Any) -> Loaded:
        loaded: Loaded = await self.inner.load(key, **asked)
        return replace(loaded, now=loaded.now - _HOUR) if _is_pending(loaded.record) else loaded

    async def due(self, **asked: Any) -> tuple[ThreadKey, ...]:
        # Nor is anything expired by the way.
        return ()


class _OneScope(Around):
    """Every key is everybody's, whatever port it is given to."""

    def __getattr__(self, name: str) -> Any:
        honest = getattr(self.inner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            return honest(*(_everybodys(each) for each in arguments), **named)

        return call


def _everybodys(argument: Any) -> Any:
    return replace(argument, scope=Scope("everybody")) if isinstance(argument, ThreadKey) else argument


def _for_everybody(stores: Stores) -> Stores:
    return replace(stores, threads=_OneScope(stores.threads), effects=_OneScope(stores.effects))


def _is_pending(record: Record) -> bool:
    return any(each.state is OccurrenceState.PENDING for each in record.occurrences)


_LOST = "nothing acknowledged is lost"
_NO_END = "every answer comes to its end in time"

THREAD_MUTANTS = (
    Mutant(
        "claim-without-compare",
        "A claim, and every other write of a thread, overwrites what another one wrote meanwhile.",
        ("a duplicate replays the one answer", "a conflicting repeat is refused"),
        _threads(_WithoutCompare),
    ),
    Mutant(
        "interrupt-wiped-on-hydrate",
        "Loading the page takes the pause out of the record.",
        (_LOST, _NO_END),
        _threads(_WipedWhenRead),
    ),
    Mutant(
        "decision-spent-by-the-claim",
        "The claim takes the decisions out of the record: a run that dies has used its answer up.",
        (_LOST, _NO_END),
        _threads(_Spent),
        steps=("after-claim", "before-model", "before-finish"),
    ),
    Mutant(
        "card-shown-before-it-is-stored",
        "A pause is acknowledged, and written three seconds later.",
        (_LOST,),
        _threads(_WrittenLater),
    ),
    Mutant(
        "expired-approval-taken",
        "An answer is taken at any time.",
        ("what was rejected, cancelled or expired has no effect",),
        _threads(_NeverExpires),
    ),
    Mutant(
        "scope-missing-in-a-key",
        "Threads and effects are found by agent and thread id alone.",
        ("other scopes and threads see nothing",),
        around_stores(_for_everybody),
    ),
)
