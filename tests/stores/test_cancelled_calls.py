"""Calls of every operation that are cancelled at every await: nothing of them is left in a pool."""

from __future__ import annotations

import asyncio
import gc
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import psycopg
import pytest
from sqlalchemy import make_url

from stores import open_stores
from stores.options import StoreOptions
from stores.ports import Stores
from stores.records import Record, Scope, ThreadKey
from tests.conformance.examples import KEY, fresh, saved
from tests.conformance.operations import OPERATIONS, Operation, quiet_thread
from tests.stores.cycles import cycle
from tests.stores.pools import checked_out, until

POOL_SIZE = 2
SCOPES = (Scope("tenant-1"), Scope("tenant-2"))
OF_NO_THREAD = (
    Operation("threads.due", quiet_thread, lambda s, k: s.threads.due(alive=[], limit=9)),
    Operation("threads.old", quiet_thread, lambda s, k: s.threads.old(age_seconds=0.0, limit=9)),
    Operation("replicas.heartbeat", quiet_thread, lambda s, k: s.replicas.heartbeat("holder-1", label="one")),
    Operation("replicas.seen", quiet_thread, lambda s, k: s.replicas.seen()),
    Operation("replicas.forget", quiet_thread, lambda s, k: s.replicas.forget("holder-2")),
    Operation("check", quiet_thread, lambda s, k: s.check()),
)
EVERY = (*OPERATIONS, *OF_NO_THREAD)
POINTS = 32
"""Places in a call to cancel it at: before its first turns of the event loop, then evenly up to its end."""
STRIDE = 11
FIRST_TURNS = 8
CUTS_PER_THREAD = 8
"""So often a thread is used before it is prepared anew: what was cut off may have happened to it."""
CUTS_MAX = 400


@dataclass(frozen=True, slots=True)
class Database:
    """One database, and the number of connections that it has."""

    url: str

    def connections(self) -> int:
        """Return how many connections of ours are open to it."""
        url = make_url(self.url)
        if url.get_backend_name() == "sqlite":
            # Each has a thread. Its file is no measure: SQLite closes it when nobody in the process has a lock on it.
            return sum("_connection_worker_thread" in thread.name for thread in threading.enumerate())
        count = "select count(*) from pg_stat_activity where application_name = 'agui' and datname = %s"
        address = url.set(drivername="postgresql", database="postgres").render_as_string(hide_password=False)
        with psycopg.connect(address) as connection:
            [(found,)] = connection.execute(count, [url.database]).fetchall()
        return int(found)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.external_service)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "postgres":
        yield Database(request.getfixturevalue("postgres_database"))
        return
    path = shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "stores.db")
    yield Database(f"sqlite+aiosqlite:///{path}")
    # A cursor of a cancelled call that has rows unread keeps the file open, but no lock, until it is found.
    gc.collect()
    assert [each.path for each in psutil.Process().open_files() if each.path.startswith(str(path))] == []


@pytest.mark.parametrize("cancellations", [200, pytest.param(2_000, marks=pytest.mark.slow)])
async def test_cancelled_calls_leave_the_pool_as_it_was_and_answer_nobody_else(
    database: Database, cancellations: int
) -> None:
    options = StoreOptions("sql", database_url=database.url, timeout_seconds=20.0, pool_size=POOL_SIZE)
    async with open_stores(options) as stores:
        homes = [replace(KEY, scope=scope, thread_id=fresh("home")) for scope in SCOPES]
        for home in homes:
            await saved(stores, Record(pause_id=f"pause of {home.scope}"), key=home)
        for operation in EVERY:
            await cancel(stores, operation, homes, -(-cancellations // len(EVERY)))
        assert checked_out(stores) == 0

        async def is_at_baseline() -> bool:
            # One pool for all steps and one for tools; SQLite has its one writer in a pool of its own.
            return 1 <= await asyncio.to_thread(database.connections) <= 2 * POOL_SIZE

        await until(is_at_baseline, "connections of cancelled calls are left")
        for home in homes:
            await cycle(stores, replace(home, thread_id=fresh("thread")), 0, expected=0)

    async def is_closed() -> bool:
        return not await asyncio.to_thread(database.connections)

    await until(is_closed, "connections are left")


async def cancel(stores: Stores, operation: Operation, homes: list[ThreadKey], count: int) -> None:
    """Cancel calls of an operation, one in each scope at a time; after each, both scopes must read what is theirs.

    A call that was faster than its cancellation does not count.
    """
    keys = await prepared(stores, operation)
    turns_max = max(await asyncio.gather(*(turns_before_cut(operation, stores, key) for key in keys)))
    cancelled = 0
    for cut in range(CUTS_MAX):
        if cancelled >= count:
            return
        if cut % CUTS_PER_THREAD == 0:
            keys = await prepared(stores, operation)
        # In strides, so that a few cuts are spread over the whole call as well as many.
        point = cut * STRIDE % POINTS
        later = max(0, turns_max - FIRST_TURNS) * max(0, point - FIRST_TURNS) // (POINTS - FIRST_TURNS)
        turns = min(point, FIRST_TURNS) + later
        reached = await asyncio.gather(*(turns_before_cut(operation, stores, key, turns) for key in keys))
        cancelled += sum(each == turns for each in reached)
        loaded = await asyncio.gather(*(stores.threads.load(home) for home in homes))
        assert [each.record.pause_id for each in loaded] == [f"pause of {home.scope}" for home in homes]
    raise AssertionError(f"only {cancelled} calls of {operation.name} were slower than their cancellation")


async def prepared(stores: Stores, operation: Operation) -> list[ThreadKey]:
    """Prepare a thread for an operation in each scope."""
    keys = [replace(KEY, scope=scope, thread_id=fresh("thread")) for scope in SCOPES]
    await asyncio.gather(*(operation.prepare(stores, key) for key in keys))
    return keys


async def turns_before_cut(operation: Operation, stores: Stores, key: ThreadKey, turns_max: int | None = None) -> int:
    """Cancel a call after so many turns of the event loop; answers how many it took, fewer if it was done before."""

    async def call() -> None:
        await operation.call(stores, key)

    task = asyncio.create_task(call())
    turns = 0
    while turns != turns_max and not task.done():
        await asyncio.sleep(0)
        turns += 1
    was_cut = task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return turns if was_cut else turns - 1
