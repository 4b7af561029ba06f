"""Databases that are new, or were filled at an older revision, are migrated: by one process or by several at once."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

import stores.sql.migrate
from stores import open_stores
from stores.errors import SchemaOutdated
from stores.options import StoreOptions
from stores.ports import Change, OldRun, OldRuns, Purged, Saved, Stores
from stores.records import Record, Scope, Snapshot, ThreadKey, Version
from stores.sql.migrate import current, upgrade
from stores.sql.tables import metadata

PROCESSES = 4
MIGRATE_SECONDS_MAX = 120.0


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.external_service)])
def fresh_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database that was never migrated; SQLite's file is not even there."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path / 'fresh.db'}"
    url: str = request.getfixturevalue("fresh_postgres")
    return url


def test_four_processes_migrate_a_fresh_database_at_once(fresh_database: str) -> None:
    command = [sys.executable, "-m", "stores.sql.migrate", "--database-url", fresh_database]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(PROCESSES)
    ]
    said = [process.communicate(timeout=MIGRATE_SECONDS_MAX) for process in running]

    assert [process.returncode for process in running] == [0] * PROCESSES, said
    heads = frozenset(newest_revisions())
    assert {out for out, _err in said} == {f"The database is at {', '.join(sorted(heads))}.\n"}
    assert asyncio.run(current(fresh_database)) == heads
    asyncio.run(serve(fresh_database))


def newest_revisions() -> list[str]:
    config = Config()
    config.set_main_option("script_location", str(Path(stores.sql.migrate.__file__).parent / "migrations"))
    return ScriptDirectory.from_config(config).get_heads()


async def serve(database_url: str) -> None:
    """Do what a host's readiness does: require the schema and take a write."""
    async with opening(database_url) as opened:
        await opened.check()


# From revision 0001

AS_0001_WRITES = (
    """insert into agui_threads (scope, agent, thread_id, generation, write_id, has_open, record, snapshot)
    values ('tenant-1', 'payments', '{thread}', 1, 'write-1', false, '{record}', '{snapshot}')""",
    """insert into agui_runs (scope, agent, thread_id, run_id, state, body)
    values ('tenant-1', 'payments', '{thread}', 'run-1', 'finished', '{run}')""",
    """insert into agui_outcomes (scope, agent, thread_id, name, is_alias, run_id)
    values ('tenant-1', 'payments', '{thread}', 'interrupt-1', 0, 'run-1')""",
)
"""What a host of revision 0001 writes at the end of a run, but for the values."""
RECORD = (
    '{"format":1,"pause_id":null,"occurrences":[],"resume_run_id":null,"resume_messages":[],"retries":0,'
    '"retry_at":null}'
)
SNAPSHOT = (
    '{"format":1,"messages":[{"id":"m1","content":"pay"}],"state":null,"interrupts":[],"session_state":null,'
    '"pause_id":null}'
)
RUN = (
    '{"format":1,"run_id":"run-1","input_digest":"d","state":"finished","attempt":"a","outcomes":[],"events":[],'
    '"interrupts":[]}'
)
DAY = 86_400.0


async def write_as_0001(database_url: str, thread: str) -> None:
    values = {"{thread}": thread, "{record}": RECORD, "{snapshot}": SNAPSHOT, "{run}": RUN}
    engine = create_async_engine(database_url, poolclass=NullPool)
    async with engine.begin() as connection:
        for statement in AS_0001_WRITES:
            await connection.exec_driver_sql(re.sub(r"{\w+}", lambda name: values[name[0]], statement))


@pytest.fixture
def filled_database(fresh_database: str) -> str:
    """A database at revision 0001 with a finished run in it."""
    upgrade(fresh_database, "0001")
    asyncio.run(write_as_0001(fresh_database, "before"))
    return fresh_database


def opening(database_url: str) -> AbstractAsyncContextManager[Stores]:
    return open_stores(StoreOptions("sql", database_url=database_url, timeout_seconds=30, pool_size=2))


def test_a_host_that_needs_more_refuses_revision_0001_and_names_the_command(filled_database: str) -> None:
    async def look() -> None:
        async with opening(filled_database):
            pass

    with pytest.raises(SchemaOutdated, match=r"at schema 0001.*stores\.sql\.migrate"):
        asyncio.run(look())


def test_what_was_there_before_the_upgrade_is_there_after_it(filled_database: str) -> None:
    upgrade(filled_database)

    async def look() -> None:
        async with opening(filled_database) as stores:
            loaded = await stores.threads.load(key_of("before"), interrupts=["interrupt-1"])
            assert loaded.record.version == Version(1, "write-1")
            assert loaded.snapshot == Snapshot(messages=({"id": "m1", "content": "pay"},))
            assert loaded.snapshot_bytes == len(SNAPSHOT)
            assert loaded.known is not None
            change = Change(loaded.record.version, "write-2", Record(), long_snapshot(), runs=[loaded.known])
            assert isinstance(await stores.threads.save(key_of("before"), change=change), Saved)
            again = await stores.threads.load(key_of("before"))
            assert again.snapshot == long_snapshot()
            assert again.snapshot.sealed > 0

    asyncio.run(look())


def test_runs_of_revision_0001_are_kept_as_long_as_if_they_were_written_at_the_upgrade(filled_database: str) -> None:
    upgrade(filled_database)

    async def look() -> None:
        async with opening(filled_database) as stores:
            assert await stores.threads.old(age_seconds=DAY, limit=10) == OldRuns(())
            found = await stores.threads.old(age_seconds=0.0, limit=10)
            assert found.runs == (OldRun(key_of("before"), "run-1", ("interrupt-1",)),)
            assert await stores.threads.purge(key_of("before"), run_ids=["run-1"]) == Purged(1, is_whole=True)

    asyncio.run(look())


def test_a_host_of_revision_0001_goes_on_writing_and_nothing_that_it_writes_is_old(filled_database: str) -> None:
    upgrade(filled_database)
    asyncio.run(write_as_0001(filled_database, "after"))

    async def look() -> None:
        async with opening(filled_database) as stores:
            loaded = await stores.threads.load(key_of("after"), interrupts=["interrupt-1"])
            assert loaded.known is not None
            found = await stores.threads.old(age_seconds=DAY, limit=10)
            assert found == OldRuns(())

    asyncio.run(look())


def test_a_host_of_revision_0001_that_writes_a_whole_snapshot_is_read_with_no_chunk_left_of_ours(
    filled_database: str,
) -> None:
    upgrade(filled_database)

    async def look() -> None:
        async with opening(filled_database) as stores:
            before = await stores.threads.load(key_of("before"))
            change = Change(before.record.version, "write-2", Record(), long_snapshot())
            await stores.threads.save(key_of("before"), change=change)
            await execute(filled_database, f"update agui_threads set snapshot = '{SNAPSHOT}', write_id = 'write-3'")
            loaded = await stores.threads.load(key_of("before"))
            assert loaded.snapshot == Snapshot(messages=({"id": "m1", "content": "pay"},))
            change = Change(loaded.record.version, "write-4", Record(), loaded.snapshot)
            assert isinstance(await stores.threads.save(key_of("before"), change=change), Saved)
            assert (await stores.threads.load(key_of("before"))).snapshot_bytes < 2 * len(SNAPSHOT)

    asyncio.run(look())


def test_the_tables_that_the_code_names_are_those_that_the_migrations_make(fresh_database: str) -> None:
    upgrade(fresh_database)

    def compare(connection: Connection) -> list[Any]:
        context = MigrationContext.configure(connection, opts={"include_name": is_ours})
        return compare_metadata(context, metadata)

    async def differences() -> list[Any]:
        engine = create_async_engine(fresh_database, poolclass=NullPool)
        async with engine.connect() as connection:
            return await connection.run_sync(compare)

    assert asyncio.run(differences()) == []


def is_ours(name: str | None, kind: str, _parents: object) -> bool:
    return kind != "table" or name in metadata.tables


async def execute(database_url: str, statement: str) -> None:
    engine = create_async_engine(database_url, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.exec_driver_sql(statement)


def key_of(thread: str) -> ThreadKey:
    return ThreadKey(Scope("tenant-1"), "payments", thread)


def long_snapshot() -> Snapshot:
    return Snapshot(messages=tuple({"id": f"m{n}", "content": "x" * 300} for n in range(80)))
