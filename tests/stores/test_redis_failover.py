"""Redis when its primary changes: by a swap that closes no socket, and under Sentinels."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis

from stores import open_stores
from stores.errors import StoreUnavailable
from stores.options import RedisOptions, StoreOptions
from stores.ports import Change, Saved, Stores
from stores.records import Record
from tests.conformance.examples import KEY, begin, fresh, record, reservation, reserve, settle, version_of
from tests.proxy import Proxy, proxy
from tests.servers import RedisServer
from tests.servers.redis_groups import SERVICE, Pair, pair, sentinel
from tests.stores.redis_clients import frozen

pytestmark = pytest.mark.external_service

SECONDS = 5.0
"""What a host's call may take by default; a Sentinel of these tests needs 1 to 2 for a failover."""
POOL_SIZE = 2


@asynccontextmanager
async def stores_at(options: RedisOptions, seconds: float = SECONDS) -> AsyncIterator[Stores]:
    wanted = StoreOptions("redis", redis=options, timeout_seconds=seconds, pool_size=POOL_SIZE)
    async with open_stores(wanted) as stores:
        yield stores


async def save(stores: Stores) -> bool:
    """Write a thread; the answer says whether it was taken."""
    expected = await version_of(stores, KEY)
    change = Change(expected, fresh(), record("interrupt-1", pause_id="pause"))
    return isinstance(await stores.threads.save(KEY, change=change), Saved)


async def swap(servers: Pair, road: Proxy) -> None:
    """Make the replica the primary; all connections to the old one stay open, and new ones lead to the new one."""
    async with Redis.from_url(servers.primary.url) as primary, Redis.from_url(servers.replica.url) as replica:
        await primary.wait(1, 5_000)
        await replica.replicaof("NO", "ONE")
        await primary.replicaof("127.0.0.1", servers.replica.port)
    road.target_port = servers.replica.port


async def test_the_first_refusal_of_a_primary_that_is_none_leaves_all_connections_to_it() -> None:
    with pair() as servers:
        async with (
            proxy(servers.primary.port) as road,
            stores_at(RedisOptions(url=f"redis://127.0.0.1:{road.port}")) as stores,
        ):
            assert await save(stores)
            await reserve(stores, "attempt-1", reservation())
            await asyncio.gather(*(stores.threads.load(KEY) for _ in range(POOL_SIZE)))
            assert await _connections_to(servers.primary) == POOL_SIZE
            await swap(servers, road)

            with pytest.raises(StoreUnavailable, match="READONLY") as refused:
                await begin(stores, "attempt-1")
            assert type(refused.value) is StoreUnavailable
            # The very next is taken, over whichever connection.
            await begin(stores, "attempt-1")
            await settle(stores, "attempt-1")
            assert await save(stores)
            await asyncio.gather(*(stores.threads.load(KEY) for _ in range(POOL_SIZE)))
            assert await _connections_to(servers.primary) == 0


async def test_a_check_finds_a_primary_that_is_none_though_it_answers_reads() -> None:
    with pair() as servers:
        async with stores_at(RedisOptions(url=servers.replica.url)) as stores:
            assert (await stores.threads.load(KEY)).record == Record()
            with pytest.raises(StoreUnavailable, match="Redis"):
                await stores.check()


async def test_a_killed_primary_is_followed_to_the_one_the_sentinels_name_within_one_call() -> None:
    with pair() as servers, sentinel(servers.primary) as guard:
        async with stores_at(_by(guard), seconds=20.0) as stores:
            assert await save(stores)
            await stores.check()
            await _in_step(servers)
            servers.primary.kill()

            assert await save(stores)
            await stores.check()
            assert (await stores.threads.load(KEY)).record.pause_id == "pause"
            async with Redis.from_url(servers.replica.url) as new:
                assert (await new.info("replication"))["role"] == "master"


async def test_a_frozen_primary_is_left_for_the_one_the_sentinels_name() -> None:
    with pair() as servers, sentinel(servers.primary) as guard:
        async with stores_at(_by(guard), seconds=8.0) as stores:
            assert await save(stores)
            await _in_step(servers)
            with frozen(servers.primary):
                since = time.monotonic()
                assert await save(stores)
                assert time.monotonic() - since < 8.0 + 10.0
            # It thaws, and does not know yet that it is none.
            assert await save(stores)
            assert (await stores.threads.load(KEY)).record.version.generation == 3


async def test_a_sentinel_that_is_gone_is_passed_over() -> None:
    with pair() as servers, sentinel(servers.primary) as guard:
        gone = guard.port
        with sentinel(servers.primary) as other:
            guard.kill()
            addresses = (f"127.0.0.1:{gone}", f"127.0.0.1:{other.port}")
            async with stores_at(RedisOptions(sentinels=addresses, sentinel_service=SERVICE)) as stores:
                assert await save(stores)


async def test_sentinels_that_know_no_such_service_make_the_store_unavailable_without_naming_them() -> None:
    with pair() as servers, sentinel(servers.primary) as guard:
        options = RedisOptions(sentinels=(f"127.0.0.1:{guard.port}",), sentinel_service="another")
        async with stores_at(options, seconds=1.0) as stores:
            with pytest.raises(StoreUnavailable, match="Redis") as raised:
                await stores.check()
            assert str(guard.port) not in str(raised.value)


async def _connections_to(server: RedisServer) -> int:
    """Count the connections of our stores: they do not say which library they are of, other clients do."""
    async with Redis.from_url(server.url) as admin:
        return sum(not each["lib-name"] for each in await admin.client_list(_type="normal"))


async def _in_step(servers: Pair) -> None:
    async with Redis.from_url(servers.primary.url) as primary:
        assert await primary.wait(1, 5_000) == 1


def _by(guard: RedisServer) -> RedisOptions:
    return RedisOptions(sentinels=(f"127.0.0.1:{guard.port}",), sentinel_service=SERVICE)
