"""Brings a database to the newest schema: run once and out of band, before hosts of a new version start.

    python -m stores.sql.migrate --database-url URL

It may be run again, and by several processes at once: one migrates, the others wait and find nothing to do.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

from stores.errors import StoreError
from stores.sql.engine import Database, connect
from stores.sql.health import revisions

MIGRATION_SECONDS_MAX = 600.0
"""How long to wait for another process that migrates, or for one statement: rewriting a large table takes minutes."""

_SCRIPTS = Path(__file__).parent / "migrations"


NEWEST = "heads"


def upgrade(database_url: str, revision: str = NEWEST) -> None:
    """Bring a database to a revision, the newest by default. Raises StoreUnavailable if it can not be reached."""
    asyncio.run(_upgrade(database_url, revision))


async def current(database_url: str) -> frozenset[str]:
    """Return the revisions a database is at, none if it was never migrated. Raises StoreUnavailable."""
    database = _connected(database_url)
    try:
        async with database.reading() as connection:
            return await connection.run_sync(revisions)
    finally:
        await database.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as a command; answers its exit code."""
    parser = argparse.ArgumentParser(prog="python -m stores.sql.migrate", description=__doc__.splitlines()[0])
    parser.add_argument("--database-url", required=True, help="as in AGUI_DATABASE_URL")
    database_url = parser.parse_args(arguments).database_url
    try:
        upgrade(database_url)
        reached = asyncio.run(current(database_url))
    except (StoreError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"The database is at {', '.join(sorted(reached))}.\n")
    return 0


async def _upgrade(database_url: str, revision: str) -> None:
    database = _connected(database_url)
    try:
        async with database.migration() as connection:
            await connection.run_sync(_run_migrations, revision)
    finally:
        await database.close()


def _connected(database_url: str) -> Database:
    # As through a pooler, since there may be one; without one it does no harm.
    return connect(database_url, timeout_seconds=MIGRATION_SECONDS_MAX, pool_size=1, is_pooled=True)


def _run_migrations(connection: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


if __name__ == "__main__":
    sys.exit(main())
