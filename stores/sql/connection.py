"""A connection in use: it executes compiled statements and turns the driver's errors into ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from sqlalchemy import Connection, Row
from sqlalchemy.exc import DBAPIError, IntegrityError, InvalidRequestError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection

from stores.errors import NotSupported, StoreError, StoreUnavailable
from stores.sql.backend import Backend
from stores.sql.statements import Parameters, Statement, Step

T = TypeVar("T")

NOTHING = (None, "[]")
UNIQUE_VIOLATION = "23505"


class Answers:
    """What an error of the driver means to the caller: `failure` is StoreUnavailable, or WriteInDoubt for a write."""

    def __init__(self, backend: Backend, failure: type[StoreUnavailable]) -> None:
        self._backend = backend
        self._failure = failure
        common = (DBAPIError, InvalidRequestError, PoolTimeoutError, OSError, TimeoutError, UnicodeEncodeError)
        self.errors: tuple[type[Exception], ...] = (*common, *backend.errors)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise ours instead of the driver's."""
        try:
            yield
        except self.errors as error:
            raise self.of(error) from error

    def of(self, error: Exception) -> StoreError:
        """Return ours for one of the driver's."""
        if isinstance(error, UnicodeEncodeError) or self._backend.is_unstorable(error):
            return NotSupported(f"{self._backend.technology} can not store a value that it was given.")
        # Wrapped twice: by SQLAlchemy, and by its adapter of an asynchronous driver.
        raised = error.orig and (error.orig.__cause__ or error.orig) if isinstance(error, DBAPIError) else error
        name = getattr(raised, "sqlite_errorname", type(raised).__name__)
        return self._failure(f"{self._backend.technology} did not answer ({name}).")


class StoreConnection:
    """One connection with the answers its errors mean; `driver` is what a tool is given."""

    def __init__(self, driver: AsyncConnection, answers: Answers) -> None:
        self.driver = driver
        self._answers = answers

    async def all(self, statement: Statement, parameters: Parameters) -> Sequence[Row[Any]]:
        """Execute one statement and return its rows, none if it has no RETURNING."""
        with self._answers.translated():
            return await self._execute(statement, parameters)

    async def win(self, step: Step, parameters: Parameters) -> Row[Any] | None:
        """Take a step; None if its first statement returned nothing, then nothing else was executed.

        So it is, too, if another transaction was first to insert a row that must be unique.
        """
        with self._answers.translated():
            try:
                won = await self._execute(step.first, parameters)
            except IntegrityError as error:
                if getattr(error.orig, "sqlstate", None) != UNIQUE_VIOLATION:
                    raise
                return None
            for statement, what in step.follows if won else ():
                if what is None or parameters[what] not in NOTHING:
                    await self._execute(statement, parameters)
            return won[0] if won else None

    async def run_sync(self, read: Callable[[Connection], T]) -> T:
        """Read with code of SQLAlchemy that knows no `await`."""
        with self._answers.translated():
            return await self.driver.run_sync(read)

    async def commit(self) -> None:
        """Commit, unless it was rolled back."""
        with self._answers.translated():
            await self.driver.commit()

    async def rollback(self) -> None:
        """Undo everything so far; where the connection is lost, the database does so by itself."""
        with suppress(*self._answers.errors):
            await self.driver.rollback()

    async def _execute(self, statement: Statement, parameters: Parameters) -> Sequence[Row[Any]]:
        result = await self.driver.exec_driver_sql(statement.text, statement.values(parameters))
        return result.all() if result.returns_rows else ()
