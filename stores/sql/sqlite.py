"""How a SQLite file is connected to, so that several processes of one machine can share it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress

import aiosqlite
from sqlalchemy import URL, Connection, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DataError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from stores.sql.backend import WHOLE, Backend

BUSY_SHARE = 0.8
"""SQLite gives up waiting for another writer at this share of our own limit: its refusal is an answer."""

WAL_TRIES_MAX = 100
WAL_RETRY_SECONDS = 0.05


def connect(url: URL, *, timeout_seconds: float, pool_size: int) -> Backend:
    """Return a SQLite file, not opened yet. Raises ValueError for a database in memory: no two connections share it."""
    if url.database in (None, "", ":memory:") or "mode" in url.query:
        raise ValueError("SQLite needs a file, which all processes share; for memory choose the memory stores.")
    leaving: set[asyncio.Task[None]] = set()
    # One writer per process: SQLite has one at a time anyway, and the pool's queue is fair where SQLite's is polling.
    return Backend(
        technology="SQLite",
        single=_engine(url, timeout_seconds, pool_size, leaving),
        whole=_engine(url, timeout_seconds, 1, leaving).execution_options(**{WHOLE: True}),
        tools=_engine(url, timeout_seconds, 1, leaving).execution_options(**{WHOLE: True}),
        errors=(sqlite3.Error,),
        is_unstorable=lambda error: isinstance(error, DataError),
        has_writing_ctes=False,
        prepare_file=_use_wal,
        leaving=leaving,
    )


def _engine(url: URL, timeout_seconds: float, pool_size: int, leaving: set[asyncio.Task[None]]) -> AsyncEngine:
    engine = create_async_engine(
        url.set(drivername="sqlite+aiosqlite"),
        poolclass=AsyncAdaptedQueuePool,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=timeout_seconds,
        # isolation_level=None: the driver must not begin transactions by itself, it would begin them deferred.
        connect_args={"timeout": timeout_seconds * BUSY_SHARE, "isolation_level": None},
    )
    event.listen(engine.sync_engine, "connect", _prepare)
    event.listen(engine.sync_engine, "begin", _begin)

    def _roll_back(connection: DBAPIConnection, _record: object, _exception: BaseException | None) -> None:
        """Let go of the write lock before the connection is closed.

        A call that was cancelled can leave a cursor with rows unread behind. As long as that lives, until the garbage
        collector finds it, SQLite keeps the closed connection, its transaction and its lock.
        """
        rolling_back = asyncio.ensure_future(_rolled_back(connection.driver_connection))
        leaving.add(rolling_back)
        rolling_back.add_done_callback(leaving.discard)

    event.listen(engine.sync_engine.pool, "invalidate", _roll_back)
    return engine


async def _rolled_back(connection: aiosqlite.Connection) -> None:
    # ValueError: it is closed already.
    with suppress(sqlite3.Error, ValueError):
        await connection.rollback()


def _prepare(connection: DBAPIConnection, _record: object) -> None:
    cursor = connection.cursor()
    # The file is in WAL mode since its first migration. FULL: what was acknowledged survives a loss of power.
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    """Take the write lock first: a transaction that reads and then writes fails at once if another wrote between.

    Without the option nothing is begun: each SELECT sees the file as it was when it started.
    """
    if connection.get_execution_options().get(WHOLE):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


async def _use_wal(engine: AsyncEngine) -> None:
    """Switch the file, for good, to the mode in which readers and the writer do not wait for each other.

    SQLite does not wait for the lock that this needs, so where several processes migrate a new file it is tried again.
    """
    for tries_left in reversed(range(WAL_TRIES_MAX)):
        try:
            async with engine.connect() as connection:
                await connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                return
        except OperationalError as error:
            if not tries_left or getattr(error.orig, "sqlite_errorname", "") != "SQLITE_BUSY":
                raise
            await asyncio.sleep(WAL_RETRY_SECONDS)
