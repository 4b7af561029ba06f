"""How many runs this replica works on at once, in all and for one scope; who is over that is refused at the door.

A place is held by the run, which outlives its client, and given back when it ends. Looking at a thread takes none.
Threads that the reconciler takes over take none either: AGUI_RECONCILE_BATCH bounds those.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from fastapi import Depends, HTTPException, Request, status

from app.roads import has_answers
from stores.records import Json, Scope

RETRY_SECONDS = 1
"""When to send what was refused again: places come and go with runs, which take seconds."""


@dataclass(frozen=True, slots=True)
class ConcurrencyLimits:
    """Runs at once in this process: in all, and of one scope. `resume_share` of either only a resume may take.

    Who answers finishes what waits, so it must not be kept out by those who only begin.
    """

    runs_max: int
    runs_per_scope_max: int
    resume_share: float

    def starts_max(self, limit: int) -> int:
        """Return how many runs that answer nothing may be among `limit`: one at least."""
        return max(1, limit - round(limit * self.resume_share))


@dataclass(slots=True)
class _Count:
    starts: int = 0
    resumes: int = 0

    def add(self, number: int, *, is_resume: bool) -> None:
        if is_resume:
            self.resumes += number
        else:
            self.starts += number

    @property
    def runs(self) -> int:
        return self.starts + self.resumes


class RunSlots:
    """The places of this process; none is waited for. `on_refusal` is told the setting that refused one."""

    def __init__(self, limits: ConcurrencyLimits, *, on_refusal: Callable[[str], None]) -> None:
        self._limits = limits
        self._on_refusal = on_refusal
        self._all = _Count()
        self._by_scope: dict[Scope, _Count] = {}

    @property
    def taken(self) -> int:
        """How many places are taken."""
        return self._all.runs

    def take(self, scope: Scope, *, is_resume: bool) -> Slot:
        """Take a place for one run. Raises HTTPException: 429 if the scope has no place left, 503 if nobody has."""
        of_scope = self._by_scope.get(scope, _Count())
        if not self._has_room(of_scope, self._limits.runs_per_scope_max, is_resume=is_resume):
            raise self._refused(status.HTTP_429_TOO_MANY_REQUESTS, "This scope", "AGUI_RUNS_PER_SCOPE_MAX")
        if not self._has_room(self._all, self._limits.runs_max, is_resume=is_resume):
            raise self._refused(status.HTTP_503_SERVICE_UNAVAILABLE, "This replica", "AGUI_RUNS_MAX")
        self._by_scope[scope] = of_scope
        for count in (of_scope, self._all):
            count.add(1, is_resume=is_resume)
        return Slot(lambda: self._give_back(scope, is_resume=is_resume))

    def _has_room(self, count: _Count, limit: int, *, is_resume: bool) -> bool:
        return count.runs < limit and (is_resume or count.starts < self._limits.starts_max(limit))

    def _refused(self, code: int, who: str, setting: str) -> HTTPException:
        self._on_refusal(setting)
        detail = f"{who} has as many runs here as it may have ({setting}); send the same again."
        return HTTPException(code, detail, {"Retry-After": str(RETRY_SECONDS)})

    def _give_back(self, scope: Scope, *, is_resume: bool) -> None:
        of_scope = self._by_scope[scope]
        for count in (of_scope, self._all):
            count.add(-1, is_resume=is_resume)
        if not of_scope.runs:
            del self._by_scope[scope]


@dataclass(slots=True)
class Slot:
    """The place of one run. Until a run holds it, it is its request's, and goes with it."""

    _give_back: Callable[[], None]
    _is_held: bool = field(default=False, init=False)

    def hold(self, run: asyncio.Task[Any]) -> None:
        """Keep the place until this run has ended."""
        self._is_held = True
        run.add_done_callback(lambda _: self._give_back())

    def leave(self) -> None:
        """Give the place back, unless a run holds it: its request was refused, or its client left before it began."""
        if not self._is_held:
            self._give_back()


_SLOT: ContextVar[Slot | None] = ContextVar("slot", default=None)
"""Carries a request's place past upstream's endpoint to the runner."""


def requests_slot() -> Slot | None:
    """Return the place of the request that is being answered; None if it needs none, or came by another way."""
    return _SLOT.get()


def door(slots: RunSlots, resolver: Callable[..., Awaitable[Scope]]) -> Callable[..., AsyncIterator[None]]:
    """Return a route dependency that takes a place for a request, or refuses it before anything is read or written.

    It comes after the scope is known: who is nobody takes no place and is not told how full it is.
    """

    resolved = Depends(resolver)

    async def enter(request: Request, scope: Scope = resolved) -> AsyncIterator[None]:
        body = await _body(request)
        is_resume = has_answers(body)
        is_look = not is_resume and body.get("messages") == []
        slot = None if is_look else slots.take(scope, is_resume=is_resume)
        _SLOT.set(slot)
        try:
            yield
        finally:
            # What runs in this context next, as clients in this process do, must not find it.
            _SLOT.set(None)
            if slot is not None:
                slot.leave()

    return enter


async def _body(request: Request) -> Json:
    """Return the body; empty if it is none that a run could begin with, which the route's validation then says."""
    try:
        body = await request.json()
    except (ValueError, RecursionError):
        return {}
    is_body = isinstance(body, dict) and isinstance(body.get("messages"), list)
    return body if is_body else {}
