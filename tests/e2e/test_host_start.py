"""A host starts when its database can not be reached, and refuses to start on one that was not migrated."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from deploy.agui_client import approve, ask, connect, hydrate, resume
from deploy.waiting import wait_until
from stores.sql.migrate import upgrade
from stores.sql.tables import REVISION, VERSION_TABLE
from tests.e2e.approvals import UNSAFE, Approval
from tests.e2e.host_process import running_host
from tests.host.bank import open_bank
from tests.servers import postgres


def get(url: str) -> httpx.Response | None:
    try:
        return httpx.get(url, trust_env=False, timeout=10)
    except httpx.ConnectError:
        return None


@pytest.mark.external_service
async def test_host_starts_without_its_database_and_serves_once_it_is_there(tmp_path: Path) -> None:
    approval = Approval(UNSAFE, "late-1")
    async with AsyncExitStack() as stack:
        server = stack.enter_context(postgres())
        bank = await stack.enter_async_context(open_bank())
        await asyncio.to_thread(upgrade, server.url)
        async with running_host(tmp_path, server.url, AGUI_BANK_URL=bank.url) as host:
            await host.wait_ready(60)
            async with connect(host.program.url, scope="tenant-1") as client:
                await approval.ask(client)
        server.stop()

        host = await stack.enter_async_context(running_host(tmp_path, server.url, AGUI_BANK_URL=bank.url))
        client = await stack.enter_async_context(connect(host.program.url, scope="tenant-1"))
        await asyncio.to_thread(wait_until, lambda: get(f"{host.program.url}/livez"), "the host listens")
        early = [ask("thread-early", "refund early-1"), resume(approval.thread_id, approve(approval.interrupt_id))]
        refused = []
        for run in (*early, *early):
            refused.append(await client.post(run))
            not_ready = get(f"{host.program.url}/readyz")
            assert not_ready is not None
            assert (not_ready.status_code, not_ready.json()["status"]) == (503, "not ready")
            assert "PostgreSQL" in not_ready.json()["reason"]
        server.start()
        await host.wait_ready(60)
        shown = await client.post(hydrate(approval.thread_id))
        paid_early = await bank.paid()
        await approval.approve(client)
        paid = await bank.paid()

    assert [reply.code for reply in refused] == ["STORE_UNAVAILABLE"] * 4
    assert {reply.metadata["definite"] for reply in refused} == {False}
    assert ([card["id"] for card in shown.interrupts], paid_early) == ([approval.interrupt_id], [])
    assert approval.is_answered, approval.answer
    assert paid == [("late-1", "ACME")]


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
