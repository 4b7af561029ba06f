"""Redis-py's pool and retry with what we need to know and do about connections that went bad."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import AuthenticationError, ConnectionError

RETRIES = 10
RETRY_BASE_SECONDS = 0.01
RETRY_CAP_SECONDS = 1.0
"""Redis-py's own defaults: waits that grow from 10 ms to 1 s, 4 s in all. A call's time ends them sooner, if it is up.
Our steps may be repeated: each carries a write id or an attempt by which it is known again."""

_CLOSED_IN_UVLOOP = "the handler is closed"

unanswered: ContextVar[Exception | None] = ContextVar("unanswered", default=None)
"""Why the latest attempt of the call that this task makes got no answer. Whoever makes a call sets it to None first."""


class NotingRetry(Retry):
    """Redis-py's retry, at its defaults, that notes what it repeats.

    What a server refuses was not executed, but only if no attempt before the last one was: after
    `attempt 1 is executed, its reply is lost; the server becomes a replica; attempt 2 is refused` a write is in doubt.
    And a call that ends because its time is up says what it tried again and again, not that its time was up.
    """

    def __init__(self) -> None:
        super().__init__(ExponentialWithJitterBackoff(base=RETRY_BASE_SECONDS, cap=RETRY_CAP_SECONDS), RETRIES)

    async def call_with_retry(
        self,
        do: Callable[[], Awaitable[Any]],
        fail: Callable[..., Any],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,
    ) -> Any:
        def noted(error: Exception, *count: int) -> Any:
            unanswered.set(error)
            return fail(error, *count)

        return await super().call_with_retry(
            lambda: _connected(do), noted, is_retryable or _may_pass, with_failure_count
        )


async def _connected(do: Callable[[], Awaitable[Any]]) -> Any:
    """Make one attempt. That its connection was lost is said as the library says it, whatever the event loop.

    Of a transport that was closed meanwhile asyncio raises ConnectionResetError, uvloop a RuntimeError, which redis-py
    takes for no loss of a connection.
    """
    try:
        return await do()
    except RuntimeError as error:
        if _CLOSED_IN_UVLOOP not in str(error):
            raise
        raise ConnectionError("The connection was closed.") from error


def _may_pass(error: Exception) -> bool:
    """Return whether it is worth an attempt: a name or password that was refused once is refused again."""
    return not isinstance(error, AuthenticationError)


class LeavingPool(ConnectionPool):
    """A pool whose connections can all be left: each is made anew before it is used again.

    Redis-py can mark connections too, but closes those while they are given back: who is cancelled there leaks the
    place. Here nothing in giving back waits.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._left: set[AbstractConnection] = set()

    def leave(self) -> None:
        """Leave the server that every connection goes to: it is not, or no longer, the one that takes writes."""
        self._left = {*self._available_connections, *self._in_use_connections}

    async def ensure_connection(self, connection: AbstractConnection) -> None:
        if connection in self._left:
            self._left.discard(connection)
            await connection.disconnect()
        await super().ensure_connection(connection)


class PrimaryConnection(Connection):
    """A connection to the server that the Sentinels call the primary when it is made.

    Redis-py's own connection of this kind asks them before a call, but not when it connects again within one: the
    retries of a call that met a failover all go to the dead server.
    """

    def __init__(self, *, sentinel: Sentinel, service: str, **options: Any) -> None:
        super().__init__(**options)
        self._sentinel = sentinel
        self._service = service

    async def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
        if not self.is_connected:
            self.host, self.port = await self._sentinel.discover_master(self._service)
        # Not to the same server again: whoever called connects again, and asks again.
        await super().connect_check_health(check_health, retry_socket_connect=False)


class PrimarySSLConnection(PrimaryConnection, SSLConnection):
    """The same with TLS."""
