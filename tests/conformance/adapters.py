"""Every adapter under test, each as a fresh world with as many separate openings as a test wants."""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from stores import open_stores
from stores.memory import MemoryWorld, memory_stores
from stores.options import RedisOptions, StoreOptions
from stores.ports import Stores
from stores.sql.tables import VERSION_TABLE
from tests.conformance.back_doors.memory import MemoryBackDoor
from tests.conformance.back_doors.port import BackDoor
from tests.conformance.back_doors.redis import RedisBackDoor
from tests.conformance.back_doors.sql import CREATE_TOOL_WRITES, SqlBackDoor

__all__ = ["Adapter", "BackDoor", "memory_adapter", "postgres_adapter", "redis_adapter", "sqlite_adapter"]

STORE_TIMEOUT_SECONDS = 30.0
"""Far above what any step takes, so that a busy machine fails no test."""
POOL_SIZE = 2
"""As small as it can be and still be shared."""
TRUNCATE_ALL = f"""
do $$ begin execute (
    select 'truncate ' || string_agg(quote_ident(tablename), ', ') from pg_tables
    where schemaname = current_schema() and tablename <> '{VERSION_TABLE}'
); end $$
"""


@dataclass(frozen=True, slots=True)
class Adapter:
    """One adapter over one fresh world. Each opening has connections of its own to it."""

    open_another: Callable[[], Awaitable[Stores]]
    back_door: BackDoor


@asynccontextmanager
async def memory_adapter() -> AsyncIterator[Adapter]:
    """A world in this process; openings are separate objects over it."""
    world = MemoryWorld(clock=time.time)

    async def open_another() -> Stores:
        return memory_stores(world)

    yield Adapter(open_another, MemoryBackDoor(world))


@asynccontextmanager
async def sqlite_adapter(template: Path, folder: Path) -> AsyncIterator[Adapter]:
    """A database file of its own, copied from one that was migrated once."""
    database = shutil.copy(template, folder / "stores.db")
    async with _sql_adapter(f"sqlite+aiosqlite:///{database}", CREATE_TOOL_WRITES) as adapter:
        yield adapter


@asynccontextmanager
async def postgres_adapter(database_url: str) -> AsyncIterator[Adapter]:
    """A migrated database, emptied: many times faster than a new one for every test."""
    async with _sql_adapter(database_url, CREATE_TOOL_WRITES, TRUNCATE_ALL) as adapter:
        yield adapter


@asynccontextmanager
async def redis_adapter(url: str) -> AsyncIterator[Adapter]:
    """A database of a Redis server, emptied."""
    options = StoreOptions(
        "redis", redis=RedisOptions(url=url), timeout_seconds=STORE_TIMEOUT_SECONDS, pool_size=POOL_SIZE
    )
    async with AsyncExitStack() as openings, Redis.from_url(url) as redis:
        await redis.flushdb()

        async def open_another() -> Stores:
            return await openings.enter_async_context(open_stores(options))

        yield Adapter(open_another, RedisBackDoor(redis))


@asynccontextmanager
async def _sql_adapter(database_url: str, *prepare: str) -> AsyncIterator[Adapter]:
    options = StoreOptions("sql", database_url=database_url, timeout_seconds=STORE_TIMEOUT_SECONDS, pool_size=POOL_SIZE)
    engine = create_async_engine(database_url, poolclass=NullPool)
    async with engine.begin() as connection:
        for statement in prepare:
            await connection.execute(text(statement))
    async with AsyncExitStack() as openings:

        async def open_another() -> Stores:
            return await openings.enter_async_context(open_stores(options))

        yield Adapter(open_another, SqlBackDoor(engine))
