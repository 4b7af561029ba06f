"""One world of every kind for all crashes of a file: each crash has a thread and an invoice of its own in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from tests.crash_points.crashes import LEASE_SECONDS, MIXED_WORLD, Crash, new_crash
from tests.host.bank import Bank, open_bank
from tests.host.hosts import Hosts
from tests.host.mixed_worlds import mixed_world, redis_threads
from tests.host.worlds import World, memory_world, postgres_world, redis_world, sqlite_world


@asynccontextmanager
async def _redis_and_postgres(redis_url: str, database_url: str) -> AsyncIterator[World]:
    async with mixed_world(redis_world(redis_url), postgres_world(database_url), redis_threads(redis_url)) as mixed:
        yield mixed.world


@pytest.fixture(scope="module")
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AbstractAsyncContextManager[World]:
    """A fresh world of the kind that the test names."""
    match request.param:
        case "memory":
            return memory_world()
        case "sqlite":
            return sqlite_world(request.getfixturevalue("sqlite_template"), tmp_path_factory.mktemp("crashes"))
        case "postgres":
            return postgres_world(request.getfixturevalue("postgres_database"))
        case "redis":
            return redis_world(request.getfixturevalue("redis_url"))
        case other:
            assert other == MIXED_WORLD
            urls = [request.getfixturevalue(name) for name in ("redis_url", "postgres_database")]
            return _redis_and_postgres(*urls)


@pytest.fixture(scope="module")
def _no_certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """All is plain HTTP here; reading every certificate authority there is takes 40 ms per client."""
    nowhere: Path = tmp_path_factory.mktemp("certificates")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        monkeypatch.setenv("SSL_CERT_DIR", str(nowhere))
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def left(world: AbstractAsyncContextManager[World], _no_certificates: None) -> AsyncIterator[tuple[Hosts, Bank]]:
    """The hosts that live on, A the survivor and B the witness, and the bank."""
    async with open_bank() as bank, world as opened, AsyncExitStack() as stack:
        hosts = Hosts(opened, bank.url, stack)
        # A thread whose run failed twice is stuck to it: what it may do then is tried without failing often.
        hosts.a = await hosts.start(lease_seconds=LEASE_SECONDS, reconcile_retries_max=1)
        hosts.b = await hosts.start(like=hosts.a)
        yield hosts, bank


@pytest.fixture
def crash(left: tuple[Hosts, Bank]) -> Crash:
    """A thread in which a replica will die."""
    return new_crash(*left)
