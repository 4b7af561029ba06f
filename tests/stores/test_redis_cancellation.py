"""Calls of Redis that are cancelled at every await: none uses a connection up, and none gets another's reply."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import NoneType

import pytest

from stores.ports import Change, Saved
from stores.records import Scope, ThreadKey, Version
from stores.redis.checkpoints import RedisCheckpointStore
from stores.redis.client import RedisClient
from stores.redis.connection import Connections
from stores.redis.threads import RedisThreadStore
from tests.conformance.examples import record
from tests.proxy import proxy
from tests.servers import redis
from tests.servers.redis_groups import cluster
from tests.stores.redis_clients import POOL_SIZE, in_use, opened, until

pytestmark = [pytest.mark.external_service, pytest.mark.slow]

CANCELLATIONS = 2_000
SEED = 20_261_130
KEYS = [ThreadKey(Scope(f"tenant-{n}"), "payments", "thread") for n in range(POOL_SIZE)]
Opening = tuple[RedisClient, Connections]


@asynccontextmanager
async def behind_a_slow_network() -> AsyncIterator[Opening]:
    with redis(requirepass="sesame") as server:
        async with proxy(server.port) as road, opened(f"redis://:sesame@127.0.0.1:{road.port}/1") as opening:
            road.delay(0.0002)
            yield opening


@asynccontextmanager
async def of_a_cluster() -> AsyncIterator[Opening]:
    with cluster() as nodes:
        async with opened(nodes[0].url, is_cluster=True) as opening:
            yield opening


@pytest.mark.parametrize("opening", [behind_a_slow_network, of_a_cluster])
async def test_2000_cancelled_calls_use_no_connection_up_and_each_tenant_reads_its_own(
    opening: Callable[[], AbstractAsyncContextManager[Opening]],
) -> None:
    chance = random.Random(SEED)
    async with opening() as (client, connections):
        tenants = [Tenant(key, RedisThreadStore(client), RedisCheckpointStore(client)) for key in KEYS]
        calls = [call for tenant in tenants for call in tenant.calls]
        for call in calls:
            await call()
        turns = {call: await _turns_of(call()) for call in calls}
        cancelled = 0
        while cancelled < CANCELLATIONS:
            chosen = [chance.choice(tenant.calls) for tenant in tenants * 2]
            tasks = [asyncio.create_task(call()) for call in chosen]
            # Longer than a call takes alone: it also waits for a connection.
            after = [chance.randrange(2 * turns[call] + 8) for call in chosen]
            cut = await asyncio.gather(
                *(_cut(task, wait, chance.randrange(6)) for task, wait in zip(tasks, after, strict=True))
            )
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            # A call that was faster has seen what is its own; none goes on as if nobody had cancelled it.
            assert [type(end) for end in ends] == [asyncio.CancelledError if was_cut else NoneType for was_cut in cut]
            cancelled += sum(cut)

        # A Cluster's client closes connections in the background.
        await until(lambda: in_use(connections) == 0)
        for _ in range(3):
            await asyncio.gather(*(call() for call in calls))


class Tenant:
    """A scope with a thread, and every kind of call; each asserts that the reply is its own."""

    def __init__(self, key: ThreadKey, threads: RedisThreadStore, checkpoints: RedisCheckpointStore) -> None:
        self._key, self._threads, self._checkpoints = key, threads, checkpoints
        self._interrupt_id = f"interrupt of {key.scope}"
        self.calls: Sequence[Callable[[], Coroutine[None, None, None]]] = [
            self._save,
            self._load,
            self._list,
            self._keep,
            self._find,
        ]

    async def _save(self) -> None:
        change = Change(Version(), "write-1", record(self._interrupt_id, pause_id=self._key.scope))
        assert isinstance(await self._threads.save(self._key, change=change), Saved)

    async def _load(self) -> None:
        assert (await self._threads.load(self._key)).record.pause_id == self._key.scope

    async def _list(self) -> None:
        listed = await self._threads.list(self._key.scope, limit=9)
        assert {each.interrupt_id for each in listed} == {self._interrupt_id}

    async def _keep(self) -> None:
        blob = self._key.scope.encode()
        await self._checkpoints.save(self._key, checkpoint_id="c", workflow="w", blob=blob, created_at=1.0)

    async def _find(self) -> None:
        assert await self._checkpoints.load(self._key, checkpoint_id="c") == self._key.scope.encode()


async def _turns_of(call: Coroutine[None, None, None]) -> int:
    """Return how many turns of the event loop a call takes that nobody disturbs."""
    task, turns = asyncio.create_task(call), 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    await task
    return turns


async def _cut(task: asyncio.Task[None], turns: int, turns_until_again: int) -> bool:
    """Cancel after some turns, and again while it may still be tidying up; answers whether it came before the end."""
    was_cut = []
    for wait in (turns, turns_until_again):
        for _ in range(wait):
            await asyncio.sleep(0)
        was_cut.append(task.cancel())
    return was_cut[0]
