"""A host starts when its database can not be reached, and refuses to start on one that was not migrated."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import httpx
import pytest

from deploy.agui_client import ask, connect
from deploy.waiting import wait_until
from stores.sql.migrate import upgrade
from stores.sql.tables import REVISION, VERSION_TABLE
from tests.e2e.approvals import TRANSACTIONAL, Approval
from tests.e2e.host_process import running_host
from tests.servers import postgres


def get(url: str) -> httpx.Response | None:
    try:
        return httpx.get(url, trust_env=False, timeout=10)
    except httpx.ConnectError:
        return None


@pytest.mark.external_service
async def test_host_starts_without_its_database_and_serves_once_it_is_there(tmp_path: Path) -> None:
    with postgres() as server:
        await asyncio.to_thread(upgrade, server.url)
        server.stop()
        async with running_host(tmp_path, server.url) as host, connect(host.program.url, scope="tenant-1") as client:
            await asyncio.to_thread(wait_until, lambda: get(f"{host.program.url}/livez"), "the host listens")
            not_ready = get(f"{host.program.url}/readyz")
            refused = await client.post(ask("thread-early", "refund early-1"))
            server.start()
            await host.wait_ready(60)
            approval = Approval(TRANSACTIONAL, "late-1")
            await approval.ask(client)
            await approval.approve(client)

    assert not_ready is not None
    assert (not_ready.status_code, not_ready.json()["status"]) == (503, "not ready")
    assert "PostgreSQL" in not_ready.json()["reason"]
    assert refused.code == "STORE_UNAVAILABLE"
    assert refused.metadata["definite"] is False
    assert approval.is_answered, approval.answer


async def test_host_refuses_to_start_on_a_schema_that_is_missing_or_old(tmp_path: Path) -> None:
    path = tmp_path / "agui.db"
    url = f"sqlite+aiosqlite:///{path}"
    for found in ("none", "0000"):
        if found == "0000":
            await asyncio.to_thread(upgrade, url)
            with sqlite3.connect(path) as database:
                database.execute(f"update {VERSION_TABLE} set version_num = ? where version_num = ?", (found, REVISION))
        async with running_host(tmp_path, url) as host, asyncio.timeout(60):
            ending = await host.wait()
        assert ending == "ended by itself with exit code 3"
        assert f"SQLite is at schema {found}" in host.log.read_text()
        assert "python -m stores.sql.migrate" in host.log.read_text()
