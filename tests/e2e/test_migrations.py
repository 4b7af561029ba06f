"""Several processes migrate one new database at the same time, as the replicas of a first deployment may do."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

import stores.sql.migrate
from stores import open_stores
from stores.sql.migrate import current

PROCESSES = 4
MIGRATE_SECONDS_MAX = 120.0


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.external_service)])
def fresh_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database that was never migrated; SQLite's file is not even there."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path / 'fresh.db'}"
    url: str = request.getfixturevalue("fresh_postgres")
    return url


def test_four_processes_migrate_a_fresh_database_at_once(fresh_database: str) -> None:
    command = [sys.executable, "-m", "stores.sql.migrate", "--database-url", fresh_database]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(PROCESSES)
    ]
    said = [process.communicate(timeout=MIGRATE_SECONDS_MAX) for process in running]

    assert [process.returncode for process in running] == [0] * PROCESSES, said
    heads = frozenset(newest_revisions())
    assert {out for out, _err in said} == {f"The database is at {', '.join(sorted(heads))}.\n"}
    assert asyncio.run(current(fresh_database)) == heads
    asyncio.run(serve(fresh_database))


def newest_revisions() -> list[str]:
    config = Config()
    config.set_main_option("script_location", str(Path(stores.sql.migrate.__file__).parent / "migrations"))
    return ScriptDirectory.from_config(config).get_heads()


async def serve(database_url: str) -> None:
    """Do what a host's readiness does: require the schema and take a write."""
    async with open_stores("sql", database_url=database_url, timeout_seconds=30, pool_size=2) as opened:
        await opened.check()
