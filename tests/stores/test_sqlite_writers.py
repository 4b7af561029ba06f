"""SQLite with many writers in several processes, and with calls that are cut off while they have the write lock."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stores import open_stores
from stores.options import StoreOptions
from stores.ports import Change, Stores
from stores.records import Version
from tests.conformance.examples import BAG, KEY, SNAPSHOT, batch, finished, fresh, record, reservation
from tests.stores.cycles import WRITES, require_cycles
from tests.stores.sqlite_writer import SHARED, WRITERS, key_of

PROCESSES = ("one", "two", "three")
WRITES_MIN = 2_000
CYCLES = -(-WRITES_MIN // (WRITES * WRITERS * len(PROCESSES)))
ROWS = 500
ROOT = Path(__file__).parents[2]


@pytest.fixture
def url(sqlite_template: Path, tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{shutil.copy(sqlite_template, tmp_path / 'stores.db')}"


async def test_48_writers_in_3_processes_never_hear_of_a_lock_and_lose_nothing(url: str) -> None:
    writer = (sys.executable, "-m", "tests.stores.sqlite_writer", url)
    writing = [
        await asyncio.create_subprocess_exec(*writer, process, str(CYCLES), cwd=ROOT, stderr=asyncio.subprocess.PIPE)
        for process in PROCESSES
    ]
    errors = [(await process.communicate())[1].decode() for process in writing]
    assert errors == ["", "", ""]
    assert [process.returncode for process in writing] == [0, 0, 0]

    async with open_stores(StoreOptions("sql", database_url=url)) as stores:
        for process in PROCESSES:
            for n in range(WRITERS):
                await require_cycles(stores, key_of(process, n), CYCLES)
        shared = (await stores.threads.load(SHARED)).record.version
        assert shared.generation == WRITERS * len(PROCESSES)


async def test_a_call_that_was_cut_off_has_let_go_of_the_write_lock_although_its_end_is_still_looked_at(
    url: str,
) -> None:
    impatient = StoreOptions("sql", database_url=url, timeout_seconds=10.0)
    async with open_stores(StoreOptions("sql", database_url=url)) as stores, open_stores(impatient) as others:
        await stores.check()
        # In the traceback is the cursor, with rows unread, as in the hands of everyone who keeps the exception. While
        # it lives SQLite keeps the transaction of its connection, be that closed or not.
        kept: list[asyncio.CancelledError] = []
        turns = 0
        while (error := await cut_off(saving(stores), turns)) is not None:
            kept.append(error)
            await others.check()
            # One by one where a call begins, then further apart: its transaction takes some thousand.
            turns = turns + 1 if turns < 16 else round(turns * 1.1)
        assert turns > 16


async def saving(stores: Stores) -> None:
    """Save a new thread with a large batch: most of the time goes into one statement that returns many rows."""
    key = replace(KEY, thread_id=fresh("thread"))
    wanted = await batch(stores, "attempt-1", *(reservation(f"interrupt-{n}") for n in range(ROWS)))
    change = Change(Version(), fresh(), record("interrupt-1"), SNAPSHOT, BAG, [finished("run-1")], batch=wanted)
    await stores.threads.save(key, change=change)


async def cut_off(call: Coroutine[Any, Any, None], turns: int) -> asyncio.CancelledError | None:
    """Cancel a call after some turns of the event loop; None if it was done before."""
    task = asyncio.create_task(call)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError as error:
        return error
    return None
