"""PostgreSQL is restarted in immediate mode in the middle of 200 resumes: no answer is lost, no effect doubled."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

import psutil
import pytest

from deploy.agui_client import AguiClient, connect
from deploy.running import running_cluster
from tests.e2e.approvals import IDEMPOTENT, TRANSACTIONAL, UNSAFE, Approval, BankEffects
from tests.servers import Postgres, postgres

KINDS = (IDEMPOTENT, TRANSACTIONAL, UNSAFE)
COUNT = 200
PEOPLE = 20
RESTARTS = (COUNT // 4, COUNT // 2)
"""After how many answers the server is restarted, so that others are in all stages."""


def restart_at_once(server: Postgres) -> None:
    """What `pg_ctl restart -m immediate` does: every session is cut, nothing is flushed, the log is replayed."""
    postmaster = psutil.Process(server.pid)
    postmaster.send_signal(signal.SIGQUIT)
    postmaster.wait(60)
    server.stop()
    server.start()


@pytest.mark.external_service
@pytest.mark.timeout(300)
async def test_no_answer_is_lost_and_no_effect_doubled_by_restarts_in_the_middle_of_200_resumes(tmp_path: Path) -> None:
    approvals = [Approval(KINDS[number % len(KINDS)], f"restart-{number:03}") for number in range(COUNT)]
    environment = {"AGUI_STORE_TIMEOUT_SECONDS": "1", "AGUI_RECONCILE_SECONDS": "0.5"}
    with (
        postgres() as server,
        running_cluster(tmp_path, replicas=2, database_url=server.url, environment=environment) as cluster,
    ):
        async with connect(cluster.url, scope="tenant-1") as client:
            await in_turn(approvals, lambda approval: approval.ask(client))
            await answer_through_restarts(client, approvals, server)
            await in_turn(approvals, lambda approval: approval.approve_again(client))
        bank = BankEffects.read(cluster.bank_url)

    assert {approval.invoice: approval.answer for approval in approvals if not approval.is_answered} == {}
    effects = {approval.invoice: len(bank.of(approval)) for approval in approvals}
    assert effects == dict.fromkeys(effects, 1)
    assert all(approval.duplicate.is_replay for approval in approvals)
    assert [approval.duplicate.tool_results for approval in approvals] == [
        approval.answer.tool_results for approval in approvals
    ]
    assert sum(len(approval.replies) > 1 for approval in approvals) >= len(RESTARTS), "no resume met a restart"


async def in_turn(approvals: Iterable[Approval], act: Callable[[Approval], Awaitable[None]]) -> None:
    """Let so many people act, one approval after another."""
    waiting = iter(approvals)

    async def one_after_another() -> None:
        for approval in waiting:
            await act(approval)

    async with asyncio.TaskGroup() as group:
        for _ in range(PEOPLE):
            group.create_task(one_after_another())


async def answer_through_restarts(client: AguiClient, approvals: Sequence[Approval], server: Postgres) -> None:
    """Answer everything; each time that so many are answered, the database is restarted under the others."""
    answered = 0
    reached = {count: asyncio.Event() for count in RESTARTS}

    async def answer(approval: Approval) -> None:
        nonlocal answered
        await approval.approve(client)
        answered += 1
        if answered in reached:
            reached[answered].set()

    async with asyncio.TaskGroup() as group:
        group.create_task(in_turn(approvals, answer))
        for event in reached.values():
            await event.wait()
            await asyncio.to_thread(restart_at_once, server)
