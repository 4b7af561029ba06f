"""A PostgreSQL connection that a cancelled call leaves at once, while the server is still told to stop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TypeVar

from psycopg import AsyncConnection, Error
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg.waiting import wait_async

T = TypeVar("T")

FAREWELL_SECONDS_MAX = 5.0
"""How long the request to stop may take before the socket is closed without it."""


class InterruptibleConnection(AsyncConnection[TupleRow]):
    """psycopg's own answer to a cancelled call is to wait for the server, for 10 s where that does not answer.

    Here the call ends at once and the connection is never used again. What the server was doing for it is cancelled
    behind the call's back, in a task of `leaving`: a write that waits for a lock must not happen much later. The socket
    stays open until then, because a pooler drops the request of a client that is gone.
    """

    leaving: set[asyncio.Task[None]]
    _is_interrupted = False

    async def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Wait for the server's answer."""
        try:
            return await wait_async(gen, self.pgconn.socket, interval=interval, timeout=timeout)
        except asyncio.CancelledError:
            self._is_interrupted = True
            raise

    async def rollback(self) -> None:
        """Roll back, where there is a transaction: the pool asks for it after every call, psycopg answers slowly."""
        if self.pgconn.transaction_status != TransactionStatus.IDLE:
            await super().rollback()

    async def close(self) -> None:
        """Close, without waiting for anything."""
        if not self._is_interrupted:
            await super().close()
            return
        self._is_interrupted = False
        farewell = asyncio.ensure_future(self._withdraw())
        self.leaving.add(farewell)
        farewell.add_done_callback(self.leaving.discard)

    async def _withdraw(self) -> None:
        try:
            with suppress(Error, OSError):
                await self.cancel_safe(timeout=FAREWELL_SECONDS_MAX)
        finally:
            await super().close()
