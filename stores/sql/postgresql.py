"""How PostgreSQL is connected to: every limit is stated here, none is left to a default."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import psycopg
from psycopg import AsyncRawCursor, AsyncRawServerCursor
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import Connection, event
from sqlalchemy.engine.interfaces import ExceptionContext
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from stores.sql.backend import WHOLE, Backend, PoolerInBetween
from stores.sql.interruptible import InterruptibleConnection

CONNECTION_SECONDS_MAX = 1800
"""A connection is not kept longer, so that load moved to other servers is followed within half an hour."""

HOST_SECONDS_MIN = 2
"""psycopg gives a host no less than this to answer before it goes on to the next: if one of several hosts may freeze,
AGUI_STORE_TIMEOUT_SECONDS must be above it."""

SERVER_SHARE = 0.8
"""The server gives up at this share of our own limit: its refusal is an answer, our own time-out is a doubt."""

PREPARED_MAX = 100
"""Statements a connection keeps prepared: ours are half as many, the rest is for tools."""

USELESS = ("25006", "0A000", "26000", "42P05")
"""SQL states that say: this connection is of no more use. In order: its server takes no writes any more (it was
demoted, or is a standby; what it still reads is stale); the result of a prepared statement changed its type in a
migration; a prepared statement is gone; its name is another's."""

UNSTORABLE = ("22", "54")
"""The classes of SQL states about values: a NUL character in a text, a key too long for an index."""

BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"

# transaction_timeout, the one that covers the whole transaction, exists from PostgreSQL 17 on.
LIMIT_TOOLS = """
SELECT set_config(name, $1, true) FROM pg_settings WHERE name IN
('lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')
"""

POOLER_IN_BETWEEN = "Between us and PostgreSQL is a pooler: set AGUI_DATABASE_POOLED=true."
REFUSED_SETTINGS = "unsupported startup parameter"
"""What PgBouncer says to a client that brings settings."""

ASK_WHERE = """
SELECT pg_backend_pid(), CAST(1000 * extract(epoch FROM CAST(current_setting('lock_timeout') AS interval)) AS integer)
"""

LOCK_MIGRATION = "SELECT pg_advisory_xact_lock(7306086838103304558)"

Connect = Callable[[], Awaitable[InterruptibleConnection]]


def connect(url: str, *, timeout_seconds: float, pool_size: int, is_pooled: bool) -> Backend:
    """Return PostgreSQL, not connected yet. Raises ValueError for a URL that libpq can not read.

    Several hosts, `postgresql://user@host-1:5432,host-2:5432/name`, are tried in turn for the one that takes writes.
    Through a pooler transactions bring their limits along; a statement by itself has those of its role, if any:
    `ALTER ROLE agui SET statement_timeout = '4s'; ALTER ROLE agui SET lock_timeout = '4s'`.
    """
    milliseconds = int(timeout_seconds * SERVER_SHARE * 1000)
    limits = {
        "lock_timeout": milliseconds,
        "statement_timeout": milliseconds,
        "idle_in_transaction_session_timeout": milliseconds,
    }
    leaving: set[asyncio.Task[None]] = set()
    address = _address(url, timeout_seconds)
    if is_pooled:
        # One round trip, and sent before the first statement of a transaction: whichever server that gets to.
        begin = "; ".join((BEGIN, *(f"SET LOCAL {name} = {value}" for name, value in limits.items())))
        connecting = _through_pooler(address, leaving)
    else:
        begin = BEGIN
        connecting = _directly(address, limits, leaving)
    ours = _engine(connecting, begin, timeout_seconds, pool_size)
    return Backend(
        technology="PostgreSQL",
        single=ours,
        whole=ours.execution_options(**{WHOLE: True}),
        tools=_engine(connecting, begin, timeout_seconds, pool_size).execution_options(**{WHOLE: True}),
        errors=(psycopg.Error,),
        is_unstorable=_is_unstorable,
        has_writing_ctes=True,
        limit_tools=LIMIT_TOOLS,
        lock_migration=LOCK_MIGRATION,
        leaving=leaving,
    )


def _address(url: str, timeout_seconds: float) -> dict[str, str]:
    """Read the URL as libpq does, whatever driver it names."""
    scheme, separator, rest = url.partition("://")
    try:
        given = conninfo_to_dict(f"{scheme.partition('+')[0]}{separator}{rest}")
    except psycopg.ProgrammingError:
        # Without libpq's words, which can repeat a part of the URL, as a password is.
        raise ValueError(
            "The database URL is none that libpq can read; options after the ? are its own, such as sslmode=require."
        ) from None
    hosts = str(given.get("host") or "").count(",") + 1
    ours = {
        "application_name": "agui",
        "client_encoding": "UTF8",
        "gssencmode": "disable",
        "connect_timeout": str(max(HOST_SECONDS_MIN, int(timeout_seconds / hosts))),
    }
    # A standby, or a primary that was set read-only, is refused while connecting; so are reads from it.
    return {**ours, **{name: str(value) for name, value in given.items()}, "target_session_attrs": "read-write"}


def _directly(address: dict[str, str], limits: dict[str, int], leaving: set[asyncio.Task[None]]) -> Connect:
    settings = {**limits, "default_transaction_isolation": r"read\ committed"}
    options = " ".join((address.get("options", ""), *(f"-c {name}={value}" for name, value in settings.items())))

    async def connecting() -> InterruptibleConnection:
        try:
            # Prepared from the second execution on: what is executed once, as at the start, needs it not.
            connection = await _connected({**address, "options": options.strip()}, leaving, prepare_threshold=1)
        except psycopg.OperationalError as error:
            if REFUSED_SETTINGS in str(error):
                raise PoolerInBetween(POOLER_IN_BETWEEN) from error
            raise
        try:
            await _require_no_pooler(connection, limits["lock_timeout"])
        except BaseException:
            await connection.close()
            raise
        return connection

    return connecting


def _through_pooler(address: dict[str, str], leaving: set[asyncio.Task[None]]) -> Connect:
    async def connecting() -> InterruptibleConnection:
        # Nothing is prepared: each statement is sent with its values, all in one message for one server. Nor is any
        # setting sent, which a pooler refuses, or keeps to itself.
        return await _connected(address, leaving, prepare_threshold=None)

    return connecting


async def _connected(
    address: dict[str, str], leaving: set[asyncio.Task[None]], prepare_threshold: int | None
) -> InterruptibleConnection:
    connection = await InterruptibleConnection.connect(
        make_conninfo("", **address),
        autocommit=True,
        prepare_threshold=prepare_threshold,
        # Our statements have PostgreSQL's own placeholders: nothing has to be replaced in their texts.
        cursor_factory=AsyncRawCursor,
    )
    connection.server_cursor_factory = AsyncRawServerCursor
    connection.prepared_max = PREPARED_MAX
    connection.leaving = leaving
    return connection


async def _require_no_pooler(connection: InterruptibleConnection, milliseconds: int) -> None:
    """Refuse a pooler that nobody told us of, before two clients meet on one server.

    Both would have prepared a statement of the same name there, and one would execute the other's. A pooler's
    connection has a process of its own to cancel; the settings are looked at in case it passes the server's on.
    """
    found = await (await connection.execute(ASK_WHERE, prepare=False)).fetchone()
    if found != (connection.info.backend_pid, milliseconds):
        raise PoolerInBetween(POOLER_IN_BETWEEN)


def _engine(connecting: Connect, begin: str, timeout_seconds: float, pool_size: int) -> AsyncEngine:
    engine = create_async_engine(
        "postgresql+psycopg://",
        async_creator=connecting,
        paramstyle="numeric_dollar",
        use_native_hstore=False,
        isolation_level="AUTOCOMMIT",
        poolclass=AsyncAdaptedQueuePool,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=timeout_seconds,
        pool_recycle=CONNECTION_SECONDS_MAX,
        # A round trip per step to ask whether the next will succeed: its own failure says so, and empties the pool.
        pool_pre_ping=False,
    )

    def _begin(connection: Connection) -> None:
        if connection.get_execution_options().get(WHOLE):
            connection.exec_driver_sql(begin)

    event.listen(engine.sync_engine, "begin", _begin)
    event.listen(engine.sync_engine, "handle_error", _leave)
    return engine


def _leave(context: ExceptionContext) -> None:
    """Treat a connection of no more use as lost, and with it all that were opened before."""
    if getattr(context.original_exception, "sqlstate", None) in USELESS:
        context.is_disconnect = True


def _is_unstorable(error: Exception) -> bool:
    driver_error = error.orig if isinstance(error, DBAPIError) else error
    sqlstate = getattr(driver_error, "sqlstate", None) or ""
    return isinstance(driver_error, psycopg.DataError) or sqlstate.startswith(UNSTORABLE)
