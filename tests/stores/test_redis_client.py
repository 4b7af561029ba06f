"""What a call of Redis says when the server forgets, refuses, is gone, or does not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence

import pytest
from redis.asyncio import Redis

from stores.errors import NotSupported, StoreUnavailable, WriteInDoubt
from stores.redis.client import RedisClient
from tests.proxy import proxy
from tests.servers import RedisServer, redis
from tests.stores.redis_clients import COUNT, GET, POOL_SIZE, SET, client_of, frozen, in_use, lua, opened, until

pytestmark = pytest.mark.external_service

SECONDS = 1.0
"""How long a call may take where it gets no answer."""
BUSY_SECONDS = 10.0
"""How much longer on a machine that has other work."""
KEY = ["key"]
REMOVE = lua("return redis.call('DEL', KEYS[1])")

Call = Callable[[RedisClient], Awaitable[object]]
CALLS: Sequence[tuple[Call, type[StoreUnavailable]]] = [
    (lambda client: client.read(GET, KEY), StoreUnavailable),
    (lambda client: client.write(SET, KEY, "other"), WriteInDoubt),
    (lambda client: client.read_every(GET, [(KEY, ()), (KEY, ())]), StoreUnavailable),
]
"""Every kind of call, and what it raises if it gets no answer."""


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis() as server:
        yield server


async def test_replies_are_raw_and_arguments_exact(server: RedisServer) -> None:
    echo = lua("redis.call('SET', KEYS[1], ARGV[2]) return {ARGV, 7, false, redis.status_reply('fine')}")
    async with client_of(server.url) as client:
        reply = await client.write(echo, ["k\0\u00e9"], "\u00e9\0", b"\xff\x00", 1_764_524_567.123_456_7, -3)
        assert reply == [["\u00e9\0".encode(), b"\xff\x00", b"1764524567.1234567", b"-3"], 7, None, b"fine"]
        assert await client.read(GET, ["k\0\u00e9"]) == b"\xff\x00"


async def test_a_server_that_forgot_its_scripts_is_given_them_again(server: RedisServer) -> None:
    async with client_of(server.url) as client, Redis.from_url(server.url) as admin:
        await client.write(SET, KEY, "value")
        await admin.script_flush()
        assert await client.read(GET, KEY) == b"value"
        await admin.script_flush()
        assert await client.read_every(GET, [(KEY, ()), (["none"], ())]) == [b"value", None]
        assert await admin.script_exists(GET.digest) == [True]


async def test_a_restarted_server_is_found_again_with_all_that_it_had_acknowledged(server: RedisServer) -> None:
    async with client_of(server.url) as client:
        await client.write(SET, KEY, "kept")
        server.kill()
        server.start()
        assert await client.read_every(GET, [(KEY, ())]) == [b"kept"]
        assert await client.read(GET, KEY) == b"kept"


async def test_many_reads_take_one_round_trip(server: RedisServer) -> None:
    async with proxy(server.port) as road, client_of(f"redis://127.0.0.1:{road.port}") as client:
        calls = [([f"none-{n}"], ()) for n in range(64)]
        await client.read_every(GET, calls)
        road.delay(0.2)
        since = time.monotonic()
        assert await client.read_every(GET, calls) == [None] * 64
        assert time.monotonic() - since < 64 * 0.2
        assert await client.read_every(GET, []) == []


async def test_half_a_character_is_not_supported_and_costs_no_connection(server: RedisServer) -> None:
    async with client_of(server.url) as client:
        for _ in range(POOL_SIZE + 1):
            with pytest.raises(NotSupported, match="Redis"):
                await client.write(SET, KEY, "\ud800")
            with pytest.raises(NotSupported, match="Redis"):
                await client.read_every(GET, [(["a\udfffb"], ())])
        assert await client.read(lua("return 'fine'"), []) == b"fine"


@pytest.mark.parametrize(("call", "failure"), CALLS)
async def test_a_server_that_is_not_there_is_named_without_its_address(
    call: Call, failure: type[StoreUnavailable]
) -> None:
    with redis() as server:
        port = server.port
    async with client_of(f"redis://person:sesame@127.0.0.1:{port}/0", seconds=SECONDS) as client:
        with pytest.raises(failure, match="Redis") as raised:
            await call(client)
    assert type(raised.value) is failure
    assert not any(secret in str(raised.value) for secret in ("sesame", "person", str(port), "127.0.0.1", "localhost"))


@pytest.mark.parametrize(("call", "failure"), CALLS)
async def test_a_frozen_server_costs_a_call_its_time_and_no_more(
    server: RedisServer, call: Call, failure: type[StoreUnavailable]
) -> None:
    async with client_of(server.url, seconds=SECONDS) as client:
        await client.write(SET, KEY, "value")
        with frozen(server):
            since = time.monotonic()
            with pytest.raises(failure, match="Redis") as raised:
                await call(client)
            assert time.monotonic() - since < SECONDS + BUSY_SECONDS
            assert type(raised.value) is failure
        await client.write(SET, KEY, "value")
        assert await client.read(GET, KEY) == b"value"


async def test_waiting_for_a_connection_is_part_of_the_call(server: RedisServer) -> None:
    async with client_of(server.url, seconds=SECONDS, pool_size=1) as client:
        with frozen(server):
            since = time.monotonic()
            # One after another they would take a second each.
            answers = await asyncio.gather(*(client.read(GET, KEY) for _ in range(32)), return_exceptions=True)
            assert {type(answer) for answer in answers} == {StoreUnavailable}
            assert time.monotonic() - since < SECONDS + BUSY_SECONDS
            answers = await asyncio.gather(*(client.write(SET, KEY, "new") for _ in range(8)), return_exceptions=True)
            # What waited for the connection was never sent.
            assert {type(answer) for answer in answers} == {WriteInDoubt, StoreUnavailable}


async def test_no_more_connections_are_made_than_stated(server: RedisServer) -> None:
    async with opened(server.url) as (client, connections), Redis.from_url(server.url) as admin:
        before = {each["id"] for each in await admin.client_list()}
        await asyncio.gather(*(client.write(COUNT, ["count"]) for _ in range(50)))
        assert len({each["id"] for each in await admin.client_list()} - before) == POOL_SIZE
        assert in_use(connections) == 0


async def test_a_write_whose_reply_was_lost_is_repeated(server: RedisServer) -> None:
    async with proxy(server.port) as road, client_of(f"redis://127.0.0.1:{road.port}") as client:
        before = await client.write(COUNT, ["count"])
        road.drop_next_reply()
        assert await client.write(COUNT, ["count"]) == before + 2
        assert road.replies_dropped == 1


async def test_a_connection_that_is_dead_without_a_word_leaves_a_call_time_for_another(server: RedisServer) -> None:
    async with proxy(server.port) as road, client_of(f"redis://127.0.0.1:{road.port}", seconds=3.0) as client:
        await client.write(SET, KEY, "value")
        road.swallow()
        asking = asyncio.create_task(client.read(GET, KEY))
        await until(lambda: road.bytes_swallowed > 0)
        await road.pass_on()
        assert await asking == b"value"


async def test_50_resets_cost_no_connection(server: RedisServer) -> None:
    async with (
        proxy(server.port) as road,
        opened(f"redis://127.0.0.1:{road.port}") as (client, connections),
    ):
        await client.write(REMOVE, ["count"])
        for number in range(50):
            counting = [asyncio.create_task(client.write(COUNT, ["count"])) for _ in range(POOL_SIZE)]
            for _ in range(number):
                await asyncio.sleep(0)
            road.reset()
            await asyncio.gather(*counting)
        assert int(await client.read(GET, ["count"])) >= 100
        assert in_use(connections) == 0


async def test_a_refusal_is_certain_unless_an_attempt_before_it_got_no_answer() -> None:
    with redis() as server:
        async with (
            Redis.from_url(server.url) as admin,
            proxy(server.port) as road,
            client_of(f"redis://127.0.0.1:{road.port}") as client,
        ):
            await client.write(COUNT, ["count"])
            road.drop_next_reply(then_refuse=True)
            counting = asyncio.create_task(client.write(COUNT, ["count"]))
            await until(lambda: road.replies_dropped == 1)
            await admin.replicaof("127.0.0.1", 1)
            await road.pass_on()
            with pytest.raises(WriteInDoubt, match="Redis"):
                await counting
            assert await admin.get("count") == b"2"

            with pytest.raises(StoreUnavailable, match="READONLY") as raised:
                await client.write(COUNT, ["count"])
            assert type(raised.value) is StoreUnavailable
            assert await admin.get("count") == b"2"


async def test_a_server_whose_memory_is_full_refuses_writes_and_answers_reads() -> None:
    with redis(maxmemory="5mb", maxmemory_policy="noeviction") as server:
        async with client_of(server.url) as client:
            await client.write(SET, KEY, "value")
            calls = [client.write(SET, [f"key-{number}"], "x" * 1_000_000) for number in range(10)]
            with pytest.raises(StoreUnavailable, match="OOM") as raised:
                await asyncio.gather(*calls)
            assert type(raised.value) is StoreUnavailable
            assert await client.read(GET, KEY) == b"value"
