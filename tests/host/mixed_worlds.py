"""Worlds whose threads are in one technology and whose ledger is in another, and whose threads can be set back."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from typing import Any

from redis.asyncio import Redis
from sqlalchemy import Connection, MetaData
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from stores.memory import MemoryWorld, memory_stores
from stores.ports import Stores
from stores.sql.tables import VERSION_TABLE
from tests.host.worlds import World

SetBack = Callable[[], Awaitable[None]]
Remember = Callable[[], Awaitable[SetBack]]
"""Copies all threads as they are; what it answers puts them back, as a store does that lost its last writes."""


@dataclass(frozen=True, slots=True)
class MixedWorld:
    """`world` is what hosts are started over, `remember` is for its threads alone."""

    world: World
    remember: Remember


@asynccontextmanager
async def mixed_world(
    first: AbstractAsyncContextManager[World], second: AbstractAsyncContextManager[World], remember: Remember
) -> AsyncIterator[MixedWorld]:
    """Open the world of both: threads and checkpoints of the first, ledger and replicas of the second."""
    async with first as threads, second as effects:

        @asynccontextmanager
        async def open_another() -> AsyncIterator[Stores]:
            async with threads.open_another() as ones, effects.open_another() as others:
                yield mixed(ones, others)

        async def dump() -> str:
            return "\n".join([await threads.dump(), await effects.dump()])

        yield MixedWorld(World(open_another, dump, effects.is_transactional), remember)


def mixed(threads: Stores, effects: Stores) -> Stores:
    """Return the threads of one store with the ledger of another."""

    async def check() -> None:
        await threads.check()
        await effects.check()

    return replace(
        threads,
        effects=effects.effects,
        replicas=effects.replicas,
        check=check,
        shared=False,
        transactional=effects.transactional,
        durable=effects.durable,
    )


def memory_threads() -> tuple[World, Remember]:
    """Return a world in this process for its threads alone, and how to set those back."""
    world = MemoryWorld(time.time)
    parts = [field.name for field in fields(world) if field.name not in {"clock", "effects", "replicas", "checkpoints"}]

    @asynccontextmanager
    async def open_another() -> AsyncIterator[Stores]:
        yield memory_stores(world)

    async def dump() -> str:
        return "\n".join(f"{name}: {getattr(world, name)!r}" for name in parts)

    async def remember() -> SetBack:
        copied = {name: deepcopy(getattr(world, name)) for name in parts}

        async def set_back() -> None:
            for name in parts:
                setattr(world, name, deepcopy(copied[name]))

        return set_back

    return World(open_another, dump, is_transactional=False), remember


def sql_threads(database_url: str) -> Remember:
    """Set back the threads of a database."""

    async def remember() -> SetBack:
        engine = create_async_engine(database_url, poolclass=NullPool)
        tables = MetaData()
        async with engine.begin() as connection:
            rows = await connection.run_sync(_rows, tables)

        async def set_back() -> None:
            async with engine.begin() as connection:
                await connection.run_sync(_put_back, tables, rows)

        return set_back

    return remember


def redis_threads(url: str) -> Remember:
    """Set back a database of a Redis server that keeps nothing but threads."""

    async def remember() -> SetBack:
        async with Redis.from_url(url) as redis:
            dumped = {key: await redis.dump(key) async for key in redis.scan_iter(count=1000)}

        async def set_back() -> None:
            async with Redis.from_url(url) as redis:
                await redis.flushdb()
                for key, value in dumped.items():
                    await redis.restore(key, 0, value)

        return set_back

    return remember


def _rows(connection: Connection, tables: MetaData) -> dict[str, list[dict[str, Any]]]:
    tables.reflect(connection)
    tables.remove(tables.tables[VERSION_TABLE])
    return {
        name: [dict(row) for row in connection.execute(table.select()).mappings()]
        for name, table in tables.tables.items()
    }


def _put_back(connection: Connection, tables: MetaData, rows: dict[str, list[dict[str, Any]]]) -> None:
    for table in reversed(tables.sorted_tables):
        connection.execute(table.delete())
    for table in tables.sorted_tables:
        if rows[table.name]:
            connection.execute(table.insert(), rows[table.name])
