"""What the hosts of one test share: a world of stores, opened once per host and looked at from behind."""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from sqlalchemy import Connection, MetaData, inspect, select, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from stores import open_stores
from stores.memory import MemoryWorld, memory_stores
from stores.options import RedisOptions, StoreOptions
from stores.ports import Stores
from stores.sql.tables import VERSION_TABLE

STORE_TIMEOUT_SECONDS = 30.0
"""Far above what any step takes, so that a busy machine fails no test."""
POOL_SIZE = 10
"""Connections per host: what a host has by default."""


@dataclass(frozen=True, slots=True)
class World:
    """One fresh world. `open_another` gives a host connections of its own; `dump` tells everything that is stored."""

    open_another: Callable[[], AbstractAsyncContextManager[Stores]]
    dump: Callable[[], Awaitable[str]]
    is_transactional: bool


@asynccontextmanager
async def memory_world(clock: Callable[[], float] = time.time) -> AsyncIterator[World]:
    """A world in this process."""
    world = MemoryWorld(clock)

    @asynccontextmanager
    async def open_another() -> AsyncIterator[Stores]:
        yield memory_stores(world)

    async def dump() -> str:
        parts = {field.name: getattr(world, field.name) for field in fields(world) if field.name != "clock"}
        return "\n".join(f"{name}: {_in_order(part)}" for name, part in parts.items())

    yield World(open_another, dump, is_transactional=False)


@asynccontextmanager
async def sqlite_world(template: Path, folder: Path) -> AsyncIterator[World]:
    """A database file of its own, copied from one that was migrated once."""
    database = shutil.copy(template, folder / "hosts.db")
    async with _sql_world(f"sqlite+aiosqlite:///{database}") as world:
        yield world


@asynccontextmanager
async def postgres_world(database_url: str) -> AsyncIterator[World]:
    """A migrated database, emptied."""
    engine = create_async_engine(database_url, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.run_sync(_empty)
    await engine.dispose()
    async with _sql_world(database_url) as world:
        yield world


@asynccontextmanager
async def redis_world(url: str) -> AsyncIterator[World]:
    """A database of a Redis server, emptied."""
    options = StoreOptions(
        "redis", redis=RedisOptions(url=url), timeout_seconds=STORE_TIMEOUT_SECONDS, pool_size=POOL_SIZE
    )
    async with Redis.from_url(url) as redis:
        await redis.flushdb()

        async def dump() -> str:
            lines = [f"{_named(key)}: {await _stored(redis, key)}" async for key in redis.scan_iter(count=1000)]
            return "\n".join(sorted(lines))

        yield World(lambda: open_stores(options), dump, is_transactional=False)


@asynccontextmanager
async def _sql_world(database_url: str) -> AsyncIterator[World]:
    engine = create_async_engine(database_url, poolclass=NullPool)
    tables = MetaData()

    def open_another() -> AbstractAsyncContextManager[Stores]:
        return open_stores(
            StoreOptions("sql", database_url=database_url, timeout_seconds=STORE_TIMEOUT_SECONDS, pool_size=POOL_SIZE)
        )

    async def dump() -> str:
        async with engine.connect() as connection:
            return await connection.run_sync(_read_all, tables)

    yield World(open_another, dump, is_transactional=True)
    await engine.dispose()


def _named(key: bytes) -> str:
    """Return what a key is called, with the name of the others' table for who said that it lives."""
    return "replicas" if key.startswith(b"agui:{replicas}:") else repr(key)


async def _stored(redis: Any, key: bytes) -> str:
    """Read what is under one key, in an order that does not depend on the server."""
    match await redis.type(key):
        case b"hash":
            stored = sorted((await redis.hgetall(key)).items())
        case b"list":
            stored = await redis.lrange(key, 0, -1)
        case b"zset":
            stored = await redis.zrange(key, 0, -1, withscores=True)
        case kind:
            raise AssertionError(f"{key!r} is a {kind!r}, which no adapter writes")
    return repr(stored)


def _read_all(connection: Connection, tables: MetaData) -> str:
    """Read every table there is, as the database describes itself, in an order that does not depend on it."""
    if not tables.tables:
        tables.reflect(connection)
    rows = [f"{table.name}: {row}" for table in tables.tables.values() for row in connection.execute(select(table))]
    return "\n".join(sorted(rows))


def _empty(connection: Connection) -> None:
    names = [name for name in inspect(connection).get_table_names() if name != VERSION_TABLE]
    connection.execute(text(f"truncate {', '.join(names)}"))


def _in_order(part: Any) -> str:
    return str(sorted(map(repr, part.items() if isinstance(part, dict) else part)))
