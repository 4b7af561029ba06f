"""The same answer to two replicas of a real cluster at the same instant: one is carried out, once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.agui_client import AguiClient, Reply, approve, connect, resume
from deploy.running import RunningCluster, running_cluster
from tests.e2e.approvals import IDEMPOTENT, TRANSACTIONAL, UNSAFE, Approval, BankEffects
from tests.e2e.databases import database

KINDS = (IDEMPOTENT, TRANSACTIONAL, UNSAFE)
RACES_PER_KIND = 20
RACES_AT_ONCE = 10
SCOPE = "racers"
IN_PROGRESS = "APPROVAL_RESUME_IN_PROGRESS"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.external_service)])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningCluster]:
    with database(request.param) as url, running_cluster(tmp_path, replicas=2, database_url=url) as running:
        yield running


async def test_of_two_equal_answers_to_two_replicas_at_once_one_is_carried_out(cluster: RunningCluster) -> None:
    first, second = cluster.state.replicas
    approvals = [Approval(kind, f"{kind.name}-{number}") for number in range(RACES_PER_KIND) for kind in KINDS]
    waiting = list(enumerate(approvals))
    said: Counter[str] = Counter()

    async def race_one_after_another(a: AguiClient, b: AguiClient) -> None:
        while waiting:
            number, approval = waiting.pop()
            await approval.ask(a)
            said.update(map(name, await race(approval, a, b, is_same_run=number % 2 == 0)))

    async with (
        connect(first.url, scope=SCOPE) as a,
        connect(second.url, scope=SCOPE) as b,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(RACES_AT_ONCE):
            group.create_task(race_one_after_another(a, b))

    bank = await asyncio.to_thread(BankEffects.read, cluster.bank_url)
    assert [approval.invoice for approval in approvals if len(bank.of(approval)) != 1] == []
    assert {kind.name: bank.count(kind) for kind in KINDS} == {kind.name: RACES_PER_KIND for kind in KINDS}
    assert said["carried out"] == len(approvals)
    # A race in which the loser only ever came too late would not be one.
    assert said[IN_PROGRESS] > 0


async def race(approval: Approval, a: AguiClient, b: AguiClient, *, is_same_run: bool) -> tuple[Reply, Reply]:
    """Approve on both replicas at once, as one run that was sent twice or as two runs; return what both said."""
    one = resume(approval.thread_id, approve(approval.interrupt_id))
    other = one if is_same_run else resume(approval.thread_id, approve(approval.interrupt_id))
    replies = await asyncio.gather(a.post(one), b.post(other))

    assert replies[0].replica != replies[1].replica
    assert {reply.status for reply in replies} == {200}, replies
    carried_out = [reply for reply in replies if name(reply) == "carried out"]
    assert len(carried_out) == 1, replies
    assert {name(reply) for reply in replies} <= {"carried out", "replay", IN_PROGRESS}, replies
    for again in [await a.send(one), await b.send(other)]:
        assert again.is_replay, again
        assert (again.tool_results, again.text) == (carried_out[0].tool_results, carried_out[0].text)
    return replies


def name(reply: Reply) -> str:
    """Say what a racer was told."""
    if reply.is_cut:
        return "cut"
    return reply.code or ("replay" if reply.is_replay else "carried out")
