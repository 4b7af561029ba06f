"""When a Redis is fit to serve."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis

from stores import open_stores
from stores.errors import StoreUnavailable
from stores.options import RedisOptions, StoreOptions
from stores.ports import Stores
from tests.servers import RedisServer, redis

pytestmark = pytest.mark.external_service

POLICIES_THAT_EVICT = (
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
)


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis() as server:
        yield server


@asynccontextmanager
async def stores_at(url: str) -> AsyncIterator[Stores]:
    async with open_stores(StoreOptions("redis", redis=RedisOptions(url=url), timeout_seconds=2.0)) as stores:
        yield stores


@pytest.mark.parametrize("policy", POLICIES_THAT_EVICT)
async def test_a_server_that_may_drop_what_it_was_given_is_refused_and_told_why(
    server: RedisServer, policy: str
) -> None:
    async with Redis.from_url(server.url) as admin, stores_at(server.url) as stores:
        await admin.config_set("maxmemory-policy", policy)
        # Without a limit it never comes to that.
        await admin.config_set("maxmemory", "0")
        await stores.check()
        await admin.config_set("maxmemory", "100mb")
        with pytest.raises(StoreUnavailable, match="maxmemory-policy must be noeviction"):
            await stores.check()
        await admin.config_set("maxmemory-policy", "noeviction")
        await stores.check()


async def test_a_server_that_does_not_tell_its_policy_is_believed() -> None:
    with redis(user="default on nopass ~* +@all -info") as server:
        async with stores_at(server.url) as stores:
            await stores.check()


async def test_a_full_server_is_not_fit_though_it_answers_reads() -> None:
    with redis(maxmemory="1kb", maxmemory_policy="noeviction") as server:
        async with stores_at(server.url) as stores:
            assert await stores.replicas.seen() == {}
            with pytest.raises(StoreUnavailable, match="OOM"):
                await stores.check()


async def test_a_server_that_can_not_keep_its_data_is_not_fit() -> None:
    # A server that is told to end saves first, and does not end if it can not.
    with redis(save="3600 1", shutdown_on_sigint="nosave") as server:
        async with Redis.from_url(server.url) as admin, stores_at(server.url) as stores:
            await stores.check()
            shutil.rmtree(server.folder)
            await admin.bgsave()
            while (await admin.info("persistence"))["rdb_last_bgsave_status"] != "err":
                await asyncio.sleep(0.01)
            with pytest.raises(StoreUnavailable, match="MISCONF"):
                await stores.check()


async def test_a_check_leaves_the_same_two_keys_however_often_it_is_made(server: RedisServer) -> None:
    async with Redis.from_url(server.url) as admin, stores_at(server.url) as stores:
        await admin.flushdb()
        for _ in range(3):
            await stores.check()
        assert await admin.dbsize() == 2


async def test_stores_open_without_their_server_and_are_fit_once_it_is_there() -> None:
    with redis() as server:
        server.stop()
        async with stores_at(server.url) as stores:
            with pytest.raises(StoreUnavailable, match="Redis"):
                await stores.check()
            server.start()
            await stores.check()


async def test_redis_says_of_itself_that_it_may_lose_what_it_acknowledged(server: RedisServer) -> None:
    async with stores_at(server.url) as stores:
        assert (stores.shared, stores.transactional, stores.durable) == (True, False, False)
