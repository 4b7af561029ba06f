"""Redis Cluster: three real nodes, threads on all of them, a script never asked for keys of two."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest
from redis.asyncio import Redis

from stores import open_stores
from stores.errors import StoreUnavailable
from stores.options import RedisOptions, StoreOptions
from stores.ports import Change, Saved, Stores
from stores.records import Record, Scope, ThreadKey, Version
from tests.conformance.adapters import STORE_TIMEOUT_SECONDS
from tests.conformance.examples import RESULT, begin, finished, record, reservation, reserve, settle
from tests.servers import RedisServer
from tests.servers.redis_groups import cluster

pytestmark = pytest.mark.external_service

PAIRS = 300
SEED = 20_261_130
LETTERS = "ab\u00e9{}:%\0 "
"""Braces are how Redis finds what keeps keys together: an id with some of its own must not change that."""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Sequence[RedisServer]]:
    with cluster() as nodes:
        yield nodes


@pytest.fixture
async def stores(nodes: Sequence[RedisServer]) -> AsyncIterator[Stores]:
    for node in nodes:
        async with Redis.from_url(node.url) as admin:
            await admin.flushdb()
    async with open_stores(_options(nodes[1])) as stores:
        yield stores


async def test_300_threads_with_any_ids_are_saved_loaded_listed_and_due_over_all_nodes(
    nodes: Sequence[RedisServer], stores: Stores
) -> None:
    chance = random.Random(SEED)

    def any_id() -> str:
        return "".join(chance.choices(LETTERS, k=chance.randint(1, 12)))

    keys = list({ThreadKey(Scope(any_id()), any_id(), any_id()) for _ in range(PAIRS)})
    await asyncio.gather(*(_live_through(stores, key) for key in keys))

    scopes = {key.scope for key in keys}
    listed = [each.key for scope in scopes for each in await stores.threads.list(scope, limit=PAIRS)]
    assert sorted(map(repr, listed)) == sorted(map(repr, keys))
    assert set(await stores.threads.due(alive=(), limit=2 * PAIRS)) == set(keys)
    for node in nodes:
        async with Redis.from_url(node.url) as admin:
            assert await admin.dbsize() > PAIRS


async def test_a_node_that_forgot_its_scripts_is_given_them_again(nodes: Sequence[RedisServer], stores: Stores) -> None:
    keys = [ThreadKey(Scope("tenant"), "payments", f"thread-{n}") for n in range(20)]
    await asyncio.gather(*(_live_through(stores, key) for key in keys))
    for node in nodes:
        async with Redis.from_url(node.url) as admin:
            await admin.script_flush()
    assert len(await stores.threads.list(Scope("tenant"), limit=99)) == len(keys)
    loaded = await asyncio.gather(*(stores.threads.load(key) for key in keys))
    assert [each.record.pause_id for each in loaded] == [key.thread_id for key in keys]


async def test_a_check_speaks_of_every_node_and_calls_go_on_when_one_is_back(nodes: Sequence[RedisServer]) -> None:
    async with open_stores(_options(nodes[0], seconds=3.0)) as stores:
        await stores.check()
        nodes[2].kill()
        with pytest.raises(StoreUnavailable, match="Redis"):
            await stores.check()
        nodes[2].start()
    async with open_stores(_options(nodes[2])) as stores:
        await stores.check()


async def test_a_node_that_may_evict_is_refused(nodes: Sequence[RedisServer], stores: Stores) -> None:
    await stores.check()
    async with Redis.from_url(nodes[2].url) as admin:
        await admin.config_set("maxmemory-policy", "allkeys-lru")
        await admin.config_set("maxmemory", "100mb")
        with pytest.raises(StoreUnavailable, match="maxmemory-policy"):
            await stores.check()
        await admin.config_set("maxmemory", "0")
    await stores.check()


async def _live_through(stores: Stores, key: ThreadKey) -> None:
    """Take a thread through a step of every script that changes more than one key."""
    first = Change(
        Version(), "write-1", Record(pause_id=key.thread_id), runs=[finished("run-1", "interrupt-0")], due_at=1.0
    )
    saved = await stores.threads.save(key, change=first)
    assert isinstance(saved, Saved)
    occurrences = record("interrupt-1").occurrences
    second = Change(saved.version, "write-2", Record(pause_id=key.thread_id, occurrences=occurrences), due_at=1.0)
    assert isinstance(await stores.threads.save(key, change=second), Saved)
    await reserve(stores, "attempt-1", reservation(), key=key)
    await begin(stores, "attempt-1", key=key)
    await settle(stores, "attempt-1", key=key)
    effect = (await stores.effects.read(key, interrupts=["interrupt-1"]))["interrupt-1"]
    assert effect.result == RESULT
    await stores.checkpoints.save(key, checkpoint_id="c", workflow="w", blob=b"blob", created_at=1.0)
    assert await stores.checkpoints.prune(key, workflow="w", keep=0) == 1
    loaded = await stores.threads.load(key, interrupts=["interrupt-0"])
    assert loaded.known == finished("run-1", "interrupt-0")
    assert loaded.record.pause_id == key.thread_id


def _options(node: RedisServer, seconds: float = STORE_TIMEOUT_SECONDS) -> StoreOptions:
    return StoreOptions(
        "redis", redis=RedisOptions(url=node.url, is_cluster=True), timeout_seconds=seconds, pool_size=4
    )
