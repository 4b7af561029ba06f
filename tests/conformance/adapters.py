"""Every adapter under test, each as a fresh world with as many separate openings as a test wants."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection, MetaData, String, select, text, update
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from stores import open_stores
from stores.memory import MemoryWorld, memory_stores
from stores.memory.world import EffectRow, ThreadRow
from stores.ports import Stores
from stores.sql.tables import VERSION_TABLE

STORE_TIMEOUT_SECONDS = 30.0
"""Far above what any step takes, so that a busy machine fails no test."""
CREATE_TOOL_WRITES = """
create table if not exists tool_writes (
    name varchar(200) primary key,
    needs varchar(200) references tool_writes (name) deferrable initially deferred
)
"""
TRUNCATE_ALL = f"""
do $$ begin execute (
    select 'truncate ' || string_agg(quote_ident(tablename), ', ') from pg_tables
    where schemaname = current_schema() and tablename <> '{VERSION_TABLE}'
); end $$
"""


class BackDoor(Protocol):
    """Reaches the stored data without the adapter, so that what the adapter does can be judged from outside."""

    async def age_format(self, marker: str) -> int:
        """Give every stored value that contains `marker` an unknown format number; answers how many there were."""
        ...

    async def write(self, connection: Any, name: str, needs: str | None = None) -> None:
        """Do what a transactional tool does: write a row of its own through the connection it was given.

        If there is no row that it `needs`, the transaction can not be committed.
        """
        ...

    async def written(self) -> list[str]:
        """Return the committed rows of `write`."""
        ...


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
async def _sql_adapter(database_url: str, *prepare: str) -> AsyncIterator[Adapter]:
    engine = create_async_engine(database_url, poolclass=NullPool)
    async with engine.begin() as connection:
        for statement in prepare:
            await connection.execute(text(statement))
    async with AsyncExitStack() as openings:

        async def open_another() -> Stores:
            opening = open_stores("sql", database_url=database_url, timeout_seconds=STORE_TIMEOUT_SECONDS, pool_size=2)
            return await openings.enter_async_context(opening)

        yield Adapter(open_another, SqlBackDoor(engine))


class MemoryBackDoor:
    """The dicts of the world."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world

    async def age_format(self, marker: str) -> int:
        return sum(map(_age_thread, self._world.threads.values(), repeat(marker))) + sum(
            map(_age_effects, self._world.effects.values(), repeat(marker))
        )

    async def write(self, connection: Any, name: str, needs: str | None = None) -> None:
        raise AssertionError("memory stores give tools no connection")

    async def written(self) -> list[str]:
        raise AssertionError("memory stores give tools no connection")


class SqlBackDoor:
    """The tables as the database itself describes them, and one more table for what a tool writes."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def age_format(self, marker: str) -> int:
        async with self._engine.begin() as connection:
            return await connection.run_sync(_age_format, marker)

    async def write(self, connection: Any, name: str, needs: str | None = None) -> None:
        insert = text("insert into tool_writes (name, needs) values (:name, :needs)")
        await connection.execute(insert, {"name": name, "needs": needs})

    async def written(self) -> list[str]:
        async with self._engine.connect() as connection:
            return list(await connection.scalars(text("select name from tool_writes order by name")))


def _age_thread(row: ThreadRow, marker: str) -> int:
    parts = {name: getattr(row, name) or "" for name in ("record", "snapshot", "bag")}
    aged = {name: _aged(part) for name, part in parts.items() if marker in part}
    for name, part in aged.items():
        setattr(row, name, part)
    runs = {run_id: _aged(stored) for run_id, stored in row.runs.items() if marker in stored}
    row.runs.update(runs)
    return len(aged) + len(runs)


def _age_effects(rows: dict[str, EffectRow], marker: str) -> int:
    stored = {name: row.result for name, row in rows.items() if row.result is not None and marker in row.result}
    rows.update({name: replace(rows[name], result=_aged(result)) for name, result in stored.items()})
    return len(stored)


def _age_format(connection: Connection, marker: str) -> int:
    metadata = MetaData()
    metadata.reflect(connection)
    count = 0
    for table in metadata.sorted_tables:
        for column in table.columns:
            if isinstance(column.type, String):
                for stored in set(connection.scalars(select(column).where(column.contains(marker, autoescape=True)))):
                    changed = update(table).where(column == stored).values({column: _aged(stored)})
                    count += connection.execute(changed).rowcount if _aged(stored) != stored else 0
    return count


def _aged(stored: str) -> str:
    return re.sub(r'"format": ?\d+', '"format":999', stored)
