"""This process among its peers: says that it lives, and judges who is dead. Liveness only; safety never rests on it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from uuid import uuid4

from stores.errors import StoreError
from stores.ports import ReplicaRegistry

HEARTBEATS_PER_LEASE = 4
FORGET_LEASES = 100
"""A holder silent for this many leases loses its row: nobody asks about it any more."""

_log = logging.getLogger(__name__)


class Replica:
    """One process: its holder id, its heartbeat, and what it has seen of the others.

    An observer that was itself silent for a lease may have been cut off or frozen: it watches one whole lease before it
    calls anyone dead. A holder without a row is dead only after that holder was missed for one whole lease.
    """

    def __init__(
        self,
        registry: ReplicaRegistry,
        *,
        lease_seconds: float,
        label: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.holder = uuid4().hex
        self.heartbeat_seconds = lease_seconds / HEARTBEATS_PER_LEASE
        self._registry = registry
        self._lease_seconds = lease_seconds
        self._label = label
        self._clock = clock
        self._watching_since = clock()
        self._last_heartbeat = clock()
        self._missed_since: dict[str, float] = {}

    async def run(self) -> None:
        """Send heartbeats until cancelled. Nothing else is done here: what takes long must not make them late."""
        while True:
            try:
                await self.heartbeat()
            except StoreError as error:
                _log.warning("Heartbeat failed: %s", type(error).__name__)
            await asyncio.sleep(self.heartbeat_seconds)

    async def heartbeat(self) -> None:
        """Say that this process lives, once."""
        await self._registry.heartbeat(self.holder, label=self._label)
        if self._clock() - self._last_heartbeat > self._lease_seconds:
            self._watching_since = self._clock()
        self._last_heartbeat = self._clock()

    async def alive(self) -> frozenset[str]:
        """Return the holders that must be presumed alive among those with a row, this one included.

        While this observer has not watched for a whole lease, everybody with a row is.
        """
        seen = await self._registry.seen()
        is_watching = self._is_watching()
        for holder, age in seen.items():
            if is_watching and age > FORGET_LEASES * self._lease_seconds and holder != self.holder:
                await self._registry.forget(holder)
        return frozenset(
            {self.holder, *(holder for holder, age in seen.items() if not is_watching or age <= self._lease_seconds)}
        )

    async def dead(self, holders: Collection[str]) -> frozenset[str]:
        """Return those of `holders` that may be taken for dead."""
        others = set(holders) - {self.holder}
        if not others:
            return frozenset()
        seen = await self._registry.seen()
        return frozenset(holder for holder in others if self._is_dead(holder, seen.get(holder)))

    async def leave(self) -> None:
        """Take this process off the list; it holds nothing any more."""
        await self._registry.forget(self.holder)

    def _is_watching(self) -> bool:
        now = self._clock()
        is_unbroken = now - self._last_heartbeat <= self._lease_seconds
        return is_unbroken and now - self._watching_since >= self._lease_seconds

    def _is_dead(self, holder: str, age_seconds: float | None) -> bool:
        if not self._is_watching():
            return False
        if age_seconds is not None:
            self._missed_since.pop(holder, None)
            return age_seconds > self._lease_seconds
        return self._clock() - self._missed_since.setdefault(holder, self._clock()) >= self._lease_seconds
