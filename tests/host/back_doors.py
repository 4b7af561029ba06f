"""Behind the hosts' back: a store that loses its last writes, the part a thread lost, and replies that are held up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine

from stores.memory import MemoryThreadStore, MemoryWorld
from stores.ports import Stores
from stores.redis.threads import RedisThreadStore
from stores.sql.tables import effects, metadata
from stores.sql.threads import SqlThreadStore
from tests.conformance.adapters import BackDoor
from tests.conformance.back_doors.memory import MemoryBackDoor
from tests.conformance.back_doors.redis import RedisBackDoor
from tests.conformance.back_doors.sql import SqlBackDoor
from tests.host.hosts import WAIT_SECONDS_MAX

Undo = Callable[[], Awaitable[None]]
"""Takes every write back that came after it was made."""

_THREADS = [table for table in metadata.sorted_tables if table.name.removeprefix("agui_") in {
    "threads", "history", "runs", "outcomes", "occurrences"
}]  # fmt: skip
_MEMORY_THREADS = ("threads", "claimed", "with_open", "appointments", "runs")
_REDIS_LEDGER = (b"held", b"effects")


def back_door_to(stores: Stores) -> BackDoor:
    """Return the back door of the world that these stores are opened on."""
    match stores.threads:
        case MemoryThreadStore():
            return MemoryBackDoor(stores.threads._world)
        case SqlThreadStore():
            return SqlBackDoor(stores.threads._database._backend.whole)
        case RedisThreadStore():
            return RedisBackDoor(_driver(stores.threads))
        case other:
            raise AssertionError(f"no back door to {other}")


async def keep(stores: Stores, *, effects_too: bool = False) -> Undo:
    """Note what the thread store holds now; the ledger keeps what it acknowledges, unless it forgets too."""
    match stores.threads:
        case MemoryThreadStore():
            return _keep_memory(stores.threads._world, effects_too)
        case SqlThreadStore():
            return await _keep_sql(stores.threads._database._backend.whole, effects_too)
        case RedisThreadStore():
            return await _keep_redis(_driver(stores.threads), effects_too)
        case other:
            raise AssertionError(f"no back door to {other}")


def apart(stores: Stores) -> Stores:
    """Use the ledger as one of another technology: written before the record, never in one step with it."""
    return replace(stores, shared=False)


@dataclass
class HeldUp:
    """A decorator of any port: the chosen call reaches the store, or not yet, and its reply waits to be let go."""

    inner: Any
    call: str
    is_sent: bool = True
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    answers: list[Any] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.inner, name)
        if name != self.call:
            return call

        async def held_up(*arguments: Any, **named: Any) -> Any:
            if not self.is_sent:
                await self._wait()
            self.answers.append(await call(*arguments, **named))
            if self.is_sent:
                await self._wait()
            return self.answers[-1]

        return held_up

    async def is_reached(self) -> None:
        """Wait until the call was made."""
        await asyncio.wait_for(self.reached.wait(), WAIT_SECONDS_MAX)

    async def _wait(self) -> None:
        self.reached.set()
        await asyncio.wait_for(self.go.wait(), WAIT_SECONDS_MAX)


def _keep_memory(world: MemoryWorld, effects_too: bool) -> Undo:
    names = (*_MEMORY_THREADS, *(("effects", "unsettled") if effects_too else ()))
    kept = {name: deepcopy(getattr(world, name)) for name in names}

    async def undo() -> None:
        for name, part in kept.items():
            setattr(world, name, deepcopy(part))

    return undo


async def _keep_sql(engine: AsyncEngine, effects_too: bool) -> Undo:
    tables = [*_THREADS, *([effects] if effects_too else [])]
    async with engine.connect() as connection:
        kept = {table: (await connection.execute(select(table))).mappings().all() for table in tables}

    async def undo() -> None:
        async with engine.begin() as connection:
            for table in reversed(tables):
                await connection.execute(delete(table))
            for table, rows in kept.items():
                if rows:
                    await connection.execute(insert(table), [dict(row) for row in rows])

    return undo


async def _keep_redis(redis: Any, effects_too: bool) -> Undo:
    async def keys() -> list[bytes]:
        found = [key async for key in redis.scan_iter(match="agui:{[0-9]*}:*", count=1000)]
        return [key for key in found if effects_too or key.split(b":")[2] not in _REDIS_LEDGER]

    kept = {key: await redis.dump(key) for key in await keys()}

    async def undo() -> None:
        for key in await keys():
            await redis.delete(key)
        for key, stored in kept.items():
            await redis.restore(key, 0, stored)

    return undo


def _driver(threads: RedisThreadStore) -> Any:
    return threads._client._connections.driver
