"""The stores on one SQL database: SQLite for one machine, PostgreSQL for several."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stores.errors import SchemaOutdated, StoreUnavailable
from stores.options import StoreOptions
from stores.ports import Stores
from stores.sql.backend import PoolerInBetween
from stores.sql.checkpoints import SqlCheckpointStore
from stores.sql.effects import SqlEffectLedger
from stores.sql.engine import connect
from stores.sql.health import SqlHealth
from stores.sql.replicas import SqlReplicaRegistry
from stores.sql.reservations import Reservations
from stores.sql.threads import SqlThreadStore


@asynccontextmanager
async def open_sql_stores(options: StoreOptions) -> AsyncIterator[Stores]:
    """Open the four ports over one database. Raises SchemaOutdated if it is there and was not migrated.

    A database that does not answer is no error here: a host that starts before it becomes ready with it.
    """
    database = connect(
        options.database_url,
        timeout_seconds=options.timeout_seconds,
        pool_size=options.pool_size,
        is_pooled=options.is_pooled,
    )
    health = SqlHealth(database)
    reservations = Reservations(database)
    try:
        await _require_schema(health)
        yield Stores(
            threads=SqlThreadStore(database, reservations),
            effects=SqlEffectLedger(database, reservations),
            checkpoints=SqlCheckpointStore(database),
            replicas=SqlReplicaRegistry(database),
            check=health.check,
            shared=True,
            transactional=True,
            durable=True,
        )
    finally:
        await database.close()


async def _require_schema(health: SqlHealth) -> None:
    try:
        await health.require_schema()
    except (SchemaOutdated, PoolerInBetween):
        raise
    except StoreUnavailable:
        return
