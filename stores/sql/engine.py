"""One SQL database: its connections, each call bounded in time, each transaction ended whatever happens in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from sqlalchemy import URL, ClauseElement, FromClause, Row, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from stores.errors import StoreUnavailable, WriteInDoubt
from stores.sql.backend import Backend
from stores.sql.connection import Answers, StoreConnection
from stores.sql.statements import Deciding, Follow, Parameters, Statement, Step, compiled, compiled_step


class Database:
    """The connections to one database, and what the ports do with them."""

    def __init__(self, backend: Backend, *, timeout_seconds: float) -> None:
        self.technology = backend.technology
        self._backend = backend
        self._timeout_seconds = timeout_seconds
        self._reading = Answers(backend, StoreUnavailable)
        self._writing = Answers(backend, WriteInDoubt)

    def statement(self, clause: ClauseElement) -> Statement:
        """Compile a statement; see `statements.compiled`."""
        return compiled(clause, self._backend)

    def step(self, first: Deciding, follow: Callable[[FromClause], Sequence[Follow]] | None = None) -> Step:
        """Compile a step; see `statements.compiled_step`."""
        return compiled_step(first, self._backend, follow=follow)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[StoreConnection]:
        """Lend a connection to read. Raises StoreUnavailable."""
        async with self._connected(self._backend.single, self._reading, self._timeout_seconds) as connection:
            yield connection

    async def read(self, statement: Statement, parameters: Parameters) -> Sequence[Row[Any]]:
        """Execute one SELECT. Raises StoreUnavailable."""
        async with self.reading() as connection:
            return await connection.all(statement, parameters)

    async def write(self, step: Step, parameters: Parameters) -> Row[Any] | None:
        """Take one step in a transaction of its own; None if it was not won. Raises WriteInDoubt."""
        async with self.writing() as connection:
            return await connection.win(step, parameters)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[StoreConnection]:
        """Lend a connection to take one step and then only read. Raises WriteInDoubt."""
        if self._backend.has_writing_ctes:
            async with self._connected(self._backend.single, self._writing, self._timeout_seconds) as connection:
                yield connection
        else:
            async with self.transaction() as connection:
                yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[StoreConnection]:
        """Open a transaction; it is committed at the end, unless it was rolled back. Raises WriteInDoubt."""
        async with self._transaction(self._backend.whole, self._timeout_seconds) as connection:
            yield connection

    @asynccontextmanager
    async def tool_transaction(self, seconds: float) -> AsyncIterator[StoreConnection]:
        """Open a transaction for a tool, in a pool that no heartbeat waits for. No lock outlives `seconds`."""
        async with self._transaction(self._backend.tools, seconds) as connection:
            if self._backend.limit_tools is not None:
                limits = Statement(self._backend.limit_tools, ("milliseconds",), {})
                await connection.all(limits, {"milliseconds": str(int(seconds * 1000))})
            yield connection

    @asynccontextmanager
    async def migration(self) -> AsyncIterator[AsyncConnection]:
        """Open the transaction in which the schema changes; other processes that migrate wait for its end."""
        if self._backend.prepare_file is not None:
            with self._writing.translated():
                await self._backend.prepare_file(self._backend.single)
        async with self._transaction(self._backend.whole, self._timeout_seconds) as connection:
            await connection.driver.begin()
            if self._backend.lock_migration is not None:
                await connection.driver.exec_driver_sql(self._backend.lock_migration)
            yield connection.driver

    async def close(self) -> None:
        """Close all connections; those that do not answer are left to the end of the process."""
        for engine in (self._backend.single, self._backend.whole, self._backend.tools):
            with suppress(*self._reading.errors):
                async with asyncio.timeout(self._timeout_seconds):
                    await engine.dispose()
        if self._backend.leaving:
            await asyncio.wait(tuple(self._backend.leaving), timeout=self._timeout_seconds)

    @asynccontextmanager
    async def _transaction(self, engine: AsyncEngine, seconds: float) -> AsyncIterator[StoreConnection]:
        async with self._connected(engine, self._writing, seconds) as connection:
            try:
                yield connection
                await connection.commit()
            except BaseException:
                await connection.rollback()
                raise

    @asynccontextmanager
    async def _connected(self, engine: AsyncEngine, answers: Answers, seconds: float) -> AsyncIterator[StoreConnection]:
        """Lend a connection for so long. What was cut off in mid-call is thrown away by SQLAlchemy, not reused."""
        limit = asyncio.timeout(seconds)
        try:
            async with limit, AsyncExitStack() as stack:
                with answers.translated():
                    driver = await stack.enter_async_context(engine.connect())
                yield StoreConnection(driver, answers)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise answers.of(error) from error


def connect(database_url: str | URL, *, timeout_seconds: float, pool_size: int, is_pooled: bool = False) -> Database:
    """Return the database a URL names, not connected yet. Raises ValueError for what we do not know.

    The URL is SQLAlchemy's, but for PostgreSQL, where it is libpq's: that can name several hosts.
    """
    text = database_url if isinstance(database_url, str) else database_url.render_as_string(hide_password=False)
    match text.partition(":")[0].partition("+")[0]:
        case "postgresql" | "postgres":
            from stores.sql import postgresql

            backend = postgresql.connect(
                text, timeout_seconds=timeout_seconds, pool_size=pool_size, is_pooled=is_pooled
            )
        case "sqlite":
            from stores.sql import sqlite

            backend = sqlite.connect(_url(text), timeout_seconds=timeout_seconds, pool_size=pool_size)
        case _:
            raise ValueError(f"The SQL stores know postgresql and sqlite, not '{_url(text).get_backend_name()}'.")
    return Database(backend, timeout_seconds=timeout_seconds)


def _url(text: str) -> URL:
    try:
        return make_url(text)
    except ArgumentError as error:
        raise ValueError("The database URL is none that SQLAlchemy can read.") from error
