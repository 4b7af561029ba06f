"""Fixtures of more than one folder: the stores, on every adapter."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from stores.ports import Stores
from stores.sql.migrate import upgrade
from tests.conformance.adapters import Adapter, memory_adapter, postgres_adapter, redis_adapter, sqlite_adapter
from tests.servers import postgres, redis


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server to create databases in: the one AGUI_TEST_POSTGRES_URL names, else one of our own."""
    url = os.environ.get("AGUI_TEST_POSTGRES_URL")
    if url:
        yield url
        return
    # Without fsync: these tests do not pull the plug, and making a database is cheap then.
    with postgres(fsync="off") as server:
        yield server.url


@pytest.fixture(scope="session")
def postgres_template(postgres_url: str) -> Iterator[str]:
    """The name of a database that was migrated once, to copy from."""
    name = f"agui_template_{uuid4().hex}"
    asyncio.run(_execute(postgres_url, f"create database {name}"))
    upgrade(_url_of(postgres_url, name))
    yield name
    asyncio.run(_execute(postgres_url, f"drop database {name}"))


@pytest.fixture(scope="module")
def postgres_database(postgres_url: str, postgres_template: str) -> Iterator[str]:
    """The URL of a migrated database for the tests of one file; it can not be dropped if one left a connection open."""
    name = f"agui_test_{uuid4().hex}"
    asyncio.run(_execute(postgres_url, f"create database {name} template {postgres_template}"))
    yield _url_of(postgres_url, name)
    asyncio.run(_execute(postgres_url, f"drop database {name}"))


@pytest.fixture
def fresh_postgres(postgres_url: str) -> Iterator[str]:
    """The URL of a database that was never migrated."""
    name = f"agui_fresh_{uuid4().hex}"
    asyncio.run(_execute(postgres_url, f"create database {name}"))
    yield _url_of(postgres_url, name)
    asyncio.run(_execute(postgres_url, f"drop database {name}"))


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file that was migrated once, to copy from."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    upgrade(f"sqlite+aiosqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A database of a Redis to empty at will: of the server AGUI_TEST_REDIS_URL names, else of one of our own."""
    url = os.environ.get("AGUI_TEST_REDIS_URL")
    if url:
        # One for each process of the tests, and never the first, where other things are.
        worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        yield urlsplit(url)._replace(path=f"/{worker + 1}").geturl()
        return
    with redis() as server:
        yield server.url


@pytest.fixture(
    params=[
        "memory",
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.external_service),
        pytest.param("redis", marks=pytest.mark.external_service),
    ]
)
def _fresh_adapter(request: pytest.FixtureRequest, tmp_path: Path) -> AbstractAsyncContextManager[Adapter]:
    if request.param == "memory":
        return memory_adapter()
    if request.param == "sqlite":
        return sqlite_adapter(request.getfixturevalue("sqlite_template"), tmp_path)
    if request.param == "redis":
        return redis_adapter(request.getfixturevalue("redis_url"))
    return postgres_adapter(request.getfixturevalue("postgres_database"))


@pytest.fixture
async def adapter(_fresh_adapter: AbstractAsyncContextManager[Adapter]) -> AsyncIterator[Adapter]:
    """Every adapter in turn, each over a fresh world."""
    async with _fresh_adapter as adapter:
        yield adapter


@pytest.fixture
async def stores(adapter: Adapter) -> Stores:
    """One opening of the adapter."""
    return await adapter.open_another()


def _url_of(server_url: str, database: str) -> str:
    return make_url(server_url).set(database=database).render_as_string(hide_password=False)


async def _execute(url: str, statement: str) -> None:
    engine = create_async_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    async with engine.connect() as connection:
        await connection.execute(text(statement))
