"""Who may be called dead: judged by the store's clock and an observer that has watched for a whole lease."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from app.replicas import FORGET_LEASES, Replica
from stores.memory import MemoryWorld, memory_stores

LEASE = 10.0


@dataclass
class Clock:
    """A clock that moves when told to."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


class Cluster:
    """Processes over one registry. `time` is the store's clock; each process has its own monotonic one."""

    def __init__(self) -> None:
        self.time = Clock()
        self._stores = memory_stores(MemoryWorld(self.time))
        self._clocks: list[Clock] = []

    def start(self) -> Replica:
        clock = Clock(now=50.0 * len(self._clocks))
        self._clocks.append(clock)
        return Replica(self._stores.replicas, lease_seconds=LEASE, label="", clock=clock)

    def wait(self, seconds: float) -> None:
        """Let time pass everywhere."""
        for clock in (self.time, *self._clocks):
            clock.now += seconds

    async def live(self, seconds: float, *replicas: Replica) -> None:
        """Let time pass while these processes send their heartbeats."""
        for _ in range(round(seconds)):
            self.wait(1.0)
            for replica in replicas:
                await replica.heartbeat()

    async def rows(self) -> set[str]:
        return set(await self._stores.replicas.seen())


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


async def test_a_holder_that_says_it_lives_is_alive(cluster: Cluster) -> None:
    observer, other = cluster.start(), cluster.start()
    await cluster.live(3 * LEASE, observer, other)

    assert await observer.alive() == {observer.holder, other.holder}
    assert await observer.dead({other.holder}) == frozenset()


async def test_a_holder_silent_for_longer_than_its_lease_is_dead(cluster: Cluster) -> None:
    observer, other = cluster.start(), cluster.start()
    await cluster.live(LEASE + 1, observer, other)

    await cluster.live(LEASE, observer)
    assert await observer.dead({other.holder}) == frozenset()
    assert other.holder in await observer.alive()

    await cluster.live(1, observer)
    assert await observer.dead({other.holder}) == {other.holder}
    assert await observer.alive() == {observer.holder}


async def test_a_new_observer_watches_a_whole_lease_before_it_calls_anyone_dead(cluster: Cluster) -> None:
    other = cluster.start()
    await other.heartbeat()
    cluster.wait(5 * LEASE)
    observer = cluster.start()
    await observer.heartbeat()

    await cluster.live(LEASE - 1, observer)
    assert await observer.dead({other.holder}) == frozenset()
    assert other.holder in await observer.alive()

    await cluster.live(1, observer)
    assert await observer.dead({other.holder}) == {other.holder}


async def test_an_observer_that_was_frozen_itself_watches_anew(cluster: Cluster) -> None:
    observer, other = cluster.start(), cluster.start()
    await cluster.live(2 * LEASE, observer, other)

    cluster.wait(5 * LEASE)
    assert await observer.dead({other.holder}) == frozenset()
    await observer.heartbeat()
    assert await observer.dead({other.holder}) == frozenset()

    await cluster.live(LEASE, observer)
    assert await observer.dead({other.holder}) == {other.holder}


async def test_an_observer_that_could_not_reach_the_store_watches_anew(cluster: Cluster) -> None:
    observer, other = cluster.start(), cluster.start()
    await cluster.live(2 * LEASE, observer, other)

    await cluster.live(LEASE + 1, other)
    await observer.heartbeat()
    cluster.wait(1)
    await observer.heartbeat()

    assert await observer.dead({other.holder, "no row"}) == frozenset()


async def test_a_holder_without_a_row_is_dead_when_it_was_missed_for_a_whole_lease(cluster: Cluster) -> None:
    observer = cluster.start()
    await cluster.live(2 * LEASE, observer)

    assert await observer.dead({"gone"}) == frozenset()
    await cluster.live(LEASE - 1, observer)
    assert await observer.dead({"gone"}) == frozenset()
    await cluster.live(1, observer)
    assert await observer.dead({"gone"}) == {"gone"}


async def test_a_holder_that_appears_while_it_is_missed_is_missed_anew(cluster: Cluster) -> None:
    observer, late = cluster.start(), cluster.start()
    await cluster.live(2 * LEASE, observer)
    await observer.dead({late.holder})
    await cluster.live(LEASE - 1, observer)
    await late.heartbeat()
    assert await observer.dead({late.holder}) == frozenset()
    await late.leave()

    await cluster.live(1, observer)

    assert await observer.dead({late.holder}) == frozenset()


async def test_nobody_calls_itself_dead(cluster: Cluster) -> None:
    observer = cluster.start()
    await cluster.live(2 * LEASE, observer)
    cluster.wait(5 * LEASE)

    assert await observer.dead({observer.holder}) == frozenset()
    assert observer.holder in await observer.alive()


async def test_a_process_that_leaves_in_order_leaves_no_row(cluster: Cluster) -> None:
    observer, other = cluster.start(), cluster.start()
    await cluster.live(1, observer, other)

    await other.leave()

    assert await cluster.rows() == {observer.holder}


async def test_rows_of_the_long_dead_are_removed(cluster: Cluster) -> None:
    observer, other = cluster.start(), cluster.start()
    await cluster.live(2 * LEASE, observer, other)
    cluster.wait((FORGET_LEASES - 1) * LEASE)
    await cluster.live(LEASE, observer)
    await observer.alive()
    assert other.holder in await cluster.rows()

    await cluster.live(1, observer)
    await observer.alive()

    assert await cluster.rows() == {observer.holder}


async def test_a_clock_that_is_wrong_on_a_replica_does_not_matter(cluster: Cluster) -> None:
    observer, other = cluster.start(), cluster.start()
    other._clock = Clock(now=-1e9)
    await cluster.live(3 * LEASE, observer, other)

    assert await observer.dead({other.holder}) == frozenset()
