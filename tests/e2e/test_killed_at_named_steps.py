"""Part of the crash-point table with real processes: SIGKILL at a named step has the outcome that is allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from deploy.agui_client import connect
from deploy.running import RunningCluster
from loadtests.orders import Orders
from tests.crash_points.points import Journey, Outcome, calls, effects, outcome
from tests.e2e.approvals import IDEMPOTENT, TRANSACTIONAL, UNSAFE, Approval, BankEffects
from tests.e2e.ordered_cluster import ordered_cluster

KINDS = {Journey.IDEMPOTENT: IDEMPOTENT, Journey.TRANSACTIONAL: TRANSACTIONAL, Journey.UNSAFE: UNSAFE}


@pytest.fixture(scope="module")
def killable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningCluster, Orders]]:
    """One cluster for all of them; a replica that was killed comes back."""
    with ordered_cluster(tmp_path_factory.mktemp("killed"), "sqlite") as cluster:
        yield cluster


@pytest.mark.xdist_group("killed at named steps")
@pytest.mark.parametrize(
    ("journey", "point"),
    [
        (Journey.IDEMPOTENT, "after-claim"),
        (Journey.IDEMPOTENT, "after-effect"),
        (Journey.IDEMPOTENT, "before-finish"),
        (Journey.TRANSACTIONAL, "before-settle"),
        (Journey.TRANSACTIONAL, "after-settle"),
        (Journey.UNSAFE, "before-claim"),
        (Journey.UNSAFE, "before-begin"),
        (Journey.UNSAFE, "after-begin"),
        (Journey.UNSAFE, "before-settle"),
        (Journey.UNSAFE, "after-finish"),
    ],
)
def test_a_killed_process_has_the_outcome_that_is_allowed(
    killable: tuple[RunningCluster, Orders], journey: Journey, point: str
) -> None:
    cluster, orders = killable
    approval = Approval(KINDS[journey], f"{journey}-{point}-1", point)
    asyncio.run(_approve_and_kill(cluster, orders, approval))

    allowed = outcome(journey, point)
    hits = [hit for hit in orders.hits() if hit.thread_id == approval.thread_id]
    assert [(hit.step, hit.is_resume) for hit in hits] == [(point, True)]
    assert approval.is_in_doubt == (allowed is Outcome.IN_DOUBT), approval.answer
    assert approval.is_answered == (allowed is not Outcome.IN_DOUBT), approval.answer
    assert approval.answer.is_replay == (allowed is Outcome.REPLAYED)
    happened = BankEffects.read(cluster.bank_url).of(approval)
    assert (len(happened), sum(each.get("calls", 1) for each in happened)) == (
        effects(journey, point),
        calls(journey, point),
    )
    assert approval.duplicate.is_replay == approval.is_answered
    assert approval.duplicate.tool_results == approval.answer.tool_results


async def _approve_and_kill(cluster: RunningCluster, orders: Orders, approval: Approval) -> None:
    """Approve it, and once more when it is answered; whoever carries it out is killed at its step."""
    async with connect(cluster.url, scope="tenant-1") as client:
        await approval.ask(client)
        orders.place(approval.thread_id, approval.step)
        await approval.approve(client)
        await approval.approve_again(client)
