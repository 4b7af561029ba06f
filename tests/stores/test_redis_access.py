"""Redis behind TLS and access lists: who it is, who we are, and what we may do there."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

from stores import open_stores
from stores.errors import StoreUnavailable
from stores.options import RedisOptions, StoreOptions
from stores.ports import Change, Stores
from stores.records import Record, Snapshot, Version
from tests.conformance.examples import KEY
from tests.conformance.operations import OPERATIONS
from tests.proxy import proxy
from tests.servers import RedisServer, redis

pytestmark = pytest.mark.external_service

USER = "agui"
PASSWORD = "correct-horse"
COMMANDS = (
    *("evalsha", "eval", "info", "time", "exists", "del", "unlink"),
    *("hget", "hset", "hmget", "hgetall", "hkeys", "hdel", "rpush", "lrange"),
    *("zadd", "zrem", "zcard", "zscore", "zlexcount", "zrange", "zrangebylex", "zrangebyscore"),
)
"""All that a user of the stores needs. Besides: `select` for another database than 0; `cluster|slots`, `cluster|shards`
and `command` in a Cluster. At a Sentinel: `sentinel|masters`."""
RULES = f"~agui:* resetchannels -@all {' '.join(f'+{command}' for command in COMMANDS)}"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def files(authority: trustme.CA, tmp_path: Path) -> dict[str, str]:
    """The files of a host: who signed the server's certificate, and our own certificate."""
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    own = authority.issue_cert("host.agui.test")
    own.cert_chain_pems[0].write_to_path(tmp_path / "host.pem")
    own.private_key_pem.write_to_path(tmp_path / "host.key")
    return {
        "ca_file": str(tmp_path / "ca.pem"),
        "certificate_file": str(tmp_path / "host.pem"),
        "key_file": str(tmp_path / "host.key"),
    }


@asynccontextmanager
async def stores_at(url: str, **options: str) -> AsyncIterator[Stores]:
    wanted = StoreOptions("redis", redis=RedisOptions(url=url, **options), timeout_seconds=2.0, pool_size=2)  # type: ignore[arg-type]  # options by name
    async with open_stores(wanted) as stores:
        yield stores


@asynccontextmanager
async def behind_tls(authority: trustme.CA, *names: str, asks_back: bool = False) -> AsyncIterator[int]:
    """Run a server behind TLS, as the wheel's has none of its own; answers the port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED if asks_back else ssl.CERT_NONE
    with redis() as server:
        async with proxy(server.port, context) as road:
            yield road.port


async def test_a_server_with_a_certificate_of_our_authority_is_used(
    authority: trustme.CA, files: dict[str, str]
) -> None:
    async with (
        behind_tls(authority, "127.0.0.1") as port,
        stores_at(f"rediss://127.0.0.1:{port}", ca_file=files["ca_file"]) as stores,
    ):
        await stores.check()
        await stores.replicas.heartbeat("holder-1", label="a")
        assert set(await stores.replicas.seen()) == {"holder-1"}


async def test_a_server_that_asks_back_is_shown_our_certificate(authority: trustme.CA, files: dict[str, str]) -> None:
    async with behind_tls(authority, "127.0.0.1", asks_back=True) as port:
        async with stores_at(f"rediss://127.0.0.1:{port}", **files) as stores:
            await stores.check()
        async with stores_at(f"rediss://127.0.0.1:{port}", ca_file=files["ca_file"]) as stores:
            with pytest.raises(StoreUnavailable, match="Redis"):
                await stores.check()


@pytest.mark.parametrize("names", [("other.agui.test",), ("127.0.0.2",)])
async def test_a_certificate_of_another_server_is_not_taken(
    authority: trustme.CA, files: dict[str, str], names: tuple[str, ...]
) -> None:
    async with (
        behind_tls(authority, *names) as port,
        stores_at(f"rediss://127.0.0.1:{port}", ca_file=files["ca_file"]) as stores,
    ):
        with pytest.raises(StoreUnavailable, match="Redis"):
            await stores.check()


async def test_a_certificate_of_another_authority_is_not_taken(files: dict[str, str]) -> None:
    async with behind_tls(trustme.CA(), "127.0.0.1") as port:
        for options in ({"ca_file": files["ca_file"]}, {}):
            async with stores_at(f"rediss://127.0.0.1:{port}", **options) as stores:
                with pytest.raises(StoreUnavailable, match="Redis"):
                    await stores.check()


async def test_a_server_without_tls_is_not_spoken_to_where_tls_is_meant(files: dict[str, str]) -> None:
    with redis() as server:
        async with stores_at(f"rediss://127.0.0.1:{server.port}", ca_file=files["ca_file"]) as stores:
            with pytest.raises(StoreUnavailable, match="Redis"):
                await stores.check()


@pytest.fixture(scope="module")
def guarded() -> Iterator[RedisServer]:
    """A server on which nobody may do anything but an administrator and a user of the stores."""
    with redis(user=f"{USER} on >{PASSWORD} {RULES}", requirepass="admin") as server:
        yield server


async def test_a_user_with_these_commands_and_keys_can_do_all_that_the_stores_do(guarded: RedisServer) -> None:
    async with Redis(port=guarded.port, password="admin") as admin:
        await admin.config_resetstat()
        async with stores_at(guarded.url, username=USER, password=PASSWORD) as stores:
            for operation in OPERATIONS:
                if operation.needs is None or getattr(stores, operation.needs):
                    key = replace(KEY, thread_id=operation.name)
                    await operation.prepare(stores, key)
                    await operation.call(stores, key)
            await stores.threads.due(alive=(), limit=10)
            await stores.threads.old(age_seconds=0.0, limit=10)
            await _save_a_long_history(stores)
            await stores.replicas.heartbeat("holder-1", label="a")
            await stores.replicas.seen()
            await stores.replicas.forget("holder-1")
            await stores.check()
        used = {name.removeprefix("cmdstat_") for name in await admin.info("commandstats")}
        # Not one too many either.
        assert used.issuperset(COMMANDS)


async def test_a_user_of_the_stores_can_not_reach_anything_else(guarded: RedisServer) -> None:
    async with Redis(port=guarded.port, username=USER, password=PASSWORD) as user:
        for command in (
            ("GET", "other"),
            ("FLUSHALL",),
            ("CONFIG", "GET", "*"),
            ("KEYS", "*"),
            ("HSET", "other", "a", 1),
        ):
            with pytest.raises(NoPermissionError):
                await user.execute_command(*command)


@pytest.mark.parametrize(
    ("credentials", "says"),
    [
        ({}, "NOAUTH"),
        ({"username": USER, "password": "wrong"}, "WRONGPASS"),
        ({"username": "nobody", "password": PASSWORD}, "WRONGPASS"),
    ],
)
async def test_a_user_who_is_not_known_is_told_so_without_the_password(
    guarded: RedisServer, credentials: dict[str, str], says: str
) -> None:
    async with stores_at(guarded.url, **credentials) as stores:
        with pytest.raises(StoreUnavailable, match=says) as raised:
            await stores.check()
        assert PASSWORD not in str(raised.value)
        assert "wrong" not in str(raised.value)


async def test_what_the_user_may_not_do_is_found_by_the_check_before_anything_is_half_done() -> None:
    with redis(user=f"{USER} on >{PASSWORD} {RULES} -zadd", requirepass="admin") as server:
        async with stores_at(server.url, username=USER, password=PASSWORD) as stores:
            with pytest.raises(StoreUnavailable, match="Redis"):
                await stores.check()


async def _save_a_long_history(stores: Stores) -> None:
    said = tuple({"role": "user", "content": "x" * 1_000} for _ in range(40))
    change = Change(Version(), "write-1", Record(), Snapshot(messages=said))
    key = replace(KEY, thread_id="long")
    await stores.threads.save(key, change=change)
    assert (await stores.threads.load(key)).snapshot is not None
