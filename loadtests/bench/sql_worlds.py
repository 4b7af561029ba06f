"""SQLite and PostgreSQL, filled by one INSERT ... SELECT per table from the rows of the template."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count as numbers
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Column, Connection, Double, Float, MetaData, Table, Text, make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from loadtests.bench.example import TEMPLATE, key_of
from loadtests.bench.worlds import AGE_SECONDS, SPREAD, TIMEOUT_SECONDS, Written
from stores import open_stores
from stores.options import StoreOptions
from stores.ports import Stores
from stores.records import ThreadKey
from stores.sql.migrate import upgrade
from tests.servers import postgres

NUMBERS = """
WITH RECURSIVE numbers (number) AS (SELECT 0 UNION ALL SELECT number + 1 FROM numbers WHERE number + 1 < {count})
"""
OF_TEMPLATE = "WHERE thread_id = :template"


@dataclass(slots=True)
class SqliteTechnology:
    """Files in one folder, copied from one that was migrated once."""

    folder: Path
    name: str = "SQLite"
    _numbers: Iterator[int] = field(default_factory=numbers)

    @asynccontextmanager
    async def world(self) -> AsyncIterator[SqliteBench]:
        path = self.folder / f"bench-{next(self._numbers)}.db"
        shutil.copy(self.folder / "template.db", path)
        async with _opened(f"sqlite+aiosqlite:///{path}") as (stores, engine):
            yield SqliteBench(stores, engine, path)
        for each in self.folder.glob(f"{path.name}*"):
            each.unlink()


@contextmanager
def sqlite_technology() -> Iterator[SqliteTechnology]:
    """Make the folder and the file to copy from."""
    with TemporaryDirectory(prefix="agui-bench-") as folder:
        upgrade(f"sqlite+aiosqlite:///{folder}/template.db")
        yield SqliteTechnology(Path(folder))


@dataclass(slots=True)
class PostgresTechnology:
    """Databases of one server, copied from one that was migrated once."""

    url: str
    name: str = "PostgreSQL"
    _numbers: Iterator[int] = field(default_factory=numbers)

    @asynccontextmanager
    async def world(self) -> AsyncIterator[PostgresBench]:
        database = f"bench_{next(self._numbers)}"
        await _execute(self.url, f"CREATE DATABASE {database} TEMPLATE bench_template")
        async with _opened(_of(self.url, database)) as (stores, engine):
            yield PostgresBench(stores, engine)
        await _execute(self.url, f"DROP DATABASE {database} WITH (FORCE)")


@contextmanager
def postgres_technology() -> Iterator[PostgresTechnology]:
    """Run a server. It does not wait for the disk: that takes the same time whatever is stored."""
    with postgres(fsync="off", synchronous_commit="off", max_wal_size="8GB", checkpoint_timeout="1h") as server:
        asyncio.run(_execute(server.url, "CREATE DATABASE bench_template"))
        upgrade(_of(server.url, "bench_template"))
        yield PostgresTechnology(server.url)


@dataclass(frozen=True, slots=True)
class SqliteBench:
    """One file. Nobody runs ANALYZE on it, as nobody does in production: the plans must do without."""

    stores: Stores
    engine: AsyncEngine
    path: Path

    async def copy_template(self, count: int) -> None:
        async with self.engine.connect() as connection:
            await connection.execute(text("PRAGMA synchronous=OFF"))
            await connection.run_sync(_copy, count, "printf('%08d', number)")
            await connection.commit()

    async def settle(self) -> None:
        async with self.engine.connect() as connection:
            await connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))

    async def counting(self, key: ThreadKey) -> Written:
        wal = self.path.with_name(f"{self.path.name}-wal")
        async with self.engine.connect() as connection:
            # The log is overwritten from its start once it was copied into the file; emptied, its size tells.
            await connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))

        async def written() -> int:
            return wal.stat().st_size

        return written


@dataclass(frozen=True, slots=True)
class PostgresBench:
    """One database."""

    stores: Stores
    engine: AsyncEngine

    async def copy_template(self, count: int) -> None:
        async with self.engine.connect() as connection:
            # Foreign keys hold by construction; checking each of millions takes longer than all the rest.
            await connection.execute(text("SET session_replication_role = replica"))
            await connection.run_sync(_copy, count, "lpad(number::text, 8, '0')")
            await connection.commit()

    async def settle(self) -> None:
        async with self.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            await connection.execute(text("VACUUM ANALYZE"))
            await connection.execute(text("CHECKPOINT"))

    async def counting(self, key: ThreadKey) -> Written:
        before = await self._position()

        async def written() -> int:
            return await self._position() - before

        return written

    async def _position(self) -> int:
        async with self.engine.connect() as connection:
            return int(await connection.scalar(text("SELECT pg_current_wal_insert_lsn() - '0/0'")) or 0)


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[tuple[Stores, AsyncEngine]]:
    engine = create_async_engine(url, poolclass=NullPool)
    options = StoreOptions("sql", database_url=url, timeout_seconds=TIMEOUT_SECONDS, pool_size=1)
    async with open_stores(options) as stores:
        yield stores, engine
    await engine.dispose()


def _copy(connection: Connection, count: int, name: str) -> None:
    """Copy every row of the template's thread, in every table that has any."""
    metadata = MetaData()
    metadata.reflect(connection)
    key = key_of(TEMPLATE)
    for table in metadata.sorted_tables:
        if "thread_id" in table.columns:
            copying = text(_copying(table, name).format(count=count))
            connection.execute(copying, {"template": key.thread_id, "age": AGE_SECONDS})


def _copying(table: Table, name: str) -> str:
    columns = ", ".join(f'"{column.name}"' for column in table.columns)
    values = ", ".join(_value(column, name) for column in table.columns)
    return f"INSERT INTO {table.name} ({columns}) {NUMBERS} SELECT {values} FROM numbers, {table.name} {OF_TEMPLATE}"


def _value(column: Column[Any], name: str) -> str:
    if column.name == "scope":
        return f"'tenant-' || substr({name}, {len(TEMPLATE) - 1})"
    if isinstance(column.type, Text):
        return f"replace(\"{column.name}\", '{TEMPLATE}', {name})"
    if isinstance(column.type, Double | Float):
        return f'"{column.name}" - :age - number * {SPREAD} % {{count}}'
    return f'"{column.name}"'


def _of(server_url: str, database: str) -> str:
    return make_url(server_url).set(database=database).render_as_string(hide_password=False)


async def _execute(url: str, statement: str) -> None:
    engine = create_async_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    async with engine.connect() as connection:
        await connection.execute(text(statement))
