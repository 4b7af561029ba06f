"""How PostgreSQL is connected to: every limit is stated here, none is left to a default."""

from __future__ import annotations

from uuid import uuid4

import asyncpg
from sqlalchemy import URL, event
from sqlalchemy.engine.interfaces import DBAPIConnection, ExceptionContext
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from stores.sql.backend import Backend

CONNECTION_SECONDS_MAX = 1800
"""A connection is not kept longer, so that load moved to other servers is followed within half an hour."""

SERVER_SHARE = 0.8
"""The server gives up at this share of our own limit: its refusal is an answer, our own time-out is a doubt."""

READ_ONLY = "25006"
"""The SQL state of a write on a server that takes none: it was demoted, or is a standby."""

UNSTORABLE = ("22", "54")
"""The classes of SQL states about values: a NUL character in a text, a key too long for an index."""

# transaction_timeout, the one that covers the whole transaction, exists from PostgreSQL 17 on.
LIMIT_TOOLS = """
SELECT set_config(name, $1, true) FROM pg_settings WHERE name IN
('lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')
"""

LOCK_MIGRATION = "SELECT pg_advisory_xact_lock(7306086838103304558)"


def connect(url: URL, *, timeout_seconds: float, pool_size: int) -> Backend:
    """Return PostgreSQL, not connected yet."""
    whole = _engine(url, timeout_seconds, pool_size, command_timeout=timeout_seconds)
    return Backend(
        technology="PostgreSQL",
        single=whole.execution_options(isolation_level="AUTOCOMMIT"),
        whole=whole,
        tools=_engine(url, timeout_seconds, pool_size, command_timeout=None),
        errors=(asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError),
        is_unstorable=_is_unstorable,
        has_writing_ctes=True,
        limit_tools=LIMIT_TOOLS,
        lock_migration=LOCK_MIGRATION,
    )


def _engine(url: URL, timeout_seconds: float, pool_size: int, command_timeout: float | None) -> AsyncEngine:
    milliseconds = str(int(timeout_seconds * SERVER_SHARE * 1000))
    engine = create_async_engine(
        url.set(drivername="postgresql+asyncpg"),
        poolclass=AsyncAdaptedQueuePool,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=timeout_seconds,
        pool_recycle=CONNECTION_SECONDS_MAX,
        isolation_level="READ COMMITTED",
        connect_args={
            "timeout": timeout_seconds,
            "command_timeout": command_timeout,
            # A standby, or a primary that was set read-only, is refused while connecting; so are reads from it.
            "target_session_attrs": "read-write",
            # Behind a pooler in transaction mode two clients may meet on one server connection; their names must not.
            "prepared_statement_name_func": lambda: f"agui_{uuid4().hex}",
            "server_settings": {
                "application_name": "agui",
                "default_transaction_isolation": "read committed",
                "lock_timeout": milliseconds,
                "statement_timeout": milliseconds,
                "idle_in_transaction_session_timeout": milliseconds,
            },
        },
    )
    event.listen(engine.sync_engine, "handle_error", _leave_read_only_server)
    event.listen(engine.sync_engine.pool, "close", _cut)
    return engine


def _leave_read_only_server(context: ExceptionContext) -> None:
    """Treat a server that turned read-only as lost, with all connections to it: what it still reads is stale."""
    if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
        context.is_disconnect = True


def _cut(connection: DBAPIConnection, _record: object) -> None:
    """Close the socket at once: the driver's farewell to a server that does not answer would wait for its answer."""
    connection.driver_connection.terminate()


def _is_unstorable(error: Exception) -> bool:
    driver_error = error.orig.__cause__ if isinstance(error, DBAPIError) and error.orig else error
    sqlstate = getattr(driver_error, "sqlstate", None) or ""
    return isinstance(driver_error, asyncpg.DataError) or sqlstate.startswith(UNSTORABLE)
