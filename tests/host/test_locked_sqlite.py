"""A SQLite file that another process keeps locked: writes are refused in time, nothing runs, no host is restarted."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from stores import open_stores
from stores.options import StoreOptions
from tests.host.bank import Bank
from tests.host.bodies import ROADS, answers, approve, says
from tests.host.hosts import Hosts
from tests.host.worlds import POOL_SIZE, sqlite_world

UNAVAILABLE = "STORE_UNAVAILABLE"
STORE_SECONDS = 0.5
REFUSAL_SECONDS_MAX = 10.0
"""A write is tried three times, each for the store's limit of half a second, on a machine that may be busy."""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where the world of `impatient` has its file."""
    return tmp_path / "hosts.db"


@pytest.fixture
async def impatient(sqlite_template: Path, database: Path, bank: Bank) -> AsyncIterator[Hosts]:
    """Two hosts over one SQLite file that do not wait for it for long."""
    url = f"sqlite+aiosqlite:///{database}"
    async with sqlite_world(sqlite_template, database.parent) as world, AsyncExitStack() as stack:
        quick = replace(
            world,
            open_another=lambda: open_stores(
                StoreOptions("sql", database_url=url, timeout_seconds=STORE_SECONDS, pool_size=POOL_SIZE)
            ),
        )
        hosts = Hosts(quick, bank.url, stack)
        hosts.a, hosts.b = await hosts.start(), await hosts.start()
        yield hosts


async def test_a_file_locked_from_outside_costs_answers_and_no_effect(
    impatient: Hosts, database: Path, bank: Bank
) -> None:
    asked = await impatient.a.send(says("t", "wire INV-1 to ACME and pay INV-2 to ACME and refund INV-3"))
    body = answers("t", *map(approve, asked.ids))
    refusable = [says("new", "look up INV-4"), *(road("t", body["resume"]) for road in ROADS.values())]
    before = await impatient.dump()

    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for host in (impatient.a, impatient.b):
            for refused_body in refusable:
                async with asyncio.timeout(REFUSAL_SECONDS_MAX):
                    refused = await host.send(refused_body)
                assert (refused.code, refused.metadata["definite"]) == (UNAVAILABLE, False)
            async with asyncio.timeout(REFUSAL_SECONDS_MAX):
                probe = await host.client.get("/readyz")
            assert (probe.status_code, probe.json()["status"]) == (503, "not ready")
            assert "SQLite" in probe.json()["reason"]
            # Readers need no lock: the card is shown all the while.
            assert (await host.show("t")).ids == asked.ids
        other.execute("ROLLBACK")

    assert (await impatient.dump(), await bank.paid()) == (before, [])
    answered = await impatient.b.send(body)
    assert (answered.code, answered.is_replay, len(answered.results)) == (None, False, 3)
    assert sorted(await bank.paid()) == [("INV-1", "ACME"), ("INV-2", "ACME")]
    for host in (impatient.a, impatient.b):
        assert (await host.client.get("/readyz")).status_code == 200
        assert (await host.send(body)).is_replay
