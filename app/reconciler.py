"""Hands threads that must go on to the runner: dead holders, expiry, doubt, decisions that nobody sends again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from app.drain import Drain
from app.replicas import Replica
from stores.errors import StoreError
from stores.ports import ThreadStore
from stores.records import ThreadKey

LATER_SECONDS = 5.0
"""How long this process passes over a thread that it could not bring on: others may, and it must not bar the rest."""
LATER_MAX = 10_000
"""More threads than this are not kept apart; the oldest are simply tried again."""

_log = logging.getLogger(__name__)


class TakesOver(Protocol):
    """What a thread is handed to: the runner of its agent."""

    async def take_over(self, key: ThreadKey) -> bool:
        """Bring a due thread on, with no client connected; False if that did not work and may not soon."""
        ...


class Reconciler:
    """`run` repeats `run_once`; several replicas may do so at once, the compare-and-set decides who goes on."""

    def __init__(
        self,
        threads: ThreadStore,
        replica: Replica,
        runners: Mapping[str, TakesOver],
        *,
        drain: Drain,
        batch: int,
        pause_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._threads = threads
        self._replica = replica
        self._runners = runners
        self._drain = drain
        self._batch = batch
        self._pause_seconds = pause_seconds
        self._clock = clock
        self._under_way: set[ThreadKey] = set()
        self._later: dict[ThreadKey, float] = {}

    async def run(self) -> None:
        """Repeat until cancelled; a store that is away is tried again in the next pass."""
        while True:
            try:
                await self.run_once()
            except StoreError as error:
                _log.warning("Reconciling failed: %s", type(error).__name__)
            await asyncio.sleep(self._pause_seconds)

    async def run_once(self) -> int:
        """Hand over the threads that are due, at most one batch at a time; answers how many."""
        room = self._batch - len(self._under_way)
        if room <= 0 or self._drain.is_draining:
            return 0
        now = self._clock()
        self._later = {key: until for key, until in self._later.items() if until > now}
        # Those passed over are still the oldest: asked for in addition, they do not bar younger ones.
        limit = room + len(self._under_way) + len(self._later)
        due = await self._threads.due(alive=await self._replica.alive(), limit=limit)
        keys = [key for key in due if key not in self._under_way and key not in self._later][:room]
        for key in keys:
            self._under_way.add(key)
            self._drain.start(self._hand_over(key))
        return len(keys)

    async def _hand_over(self, key: ThreadKey) -> None:
        runner = self._runners.get(key.agent)
        try:
            if runner is None or not await runner.take_over(key):
                self._pass_over(key)
        finally:
            self._under_way.discard(key)

    def _pass_over(self, key: ThreadKey) -> None:
        if len(self._later) >= LATER_MAX:
            del self._later[next(iter(self._later))]
        self._later[key] = self._clock() + LATER_SECONDS
