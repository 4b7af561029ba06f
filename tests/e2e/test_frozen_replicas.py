"""A replica is frozen (SIGSTOP) in a resume for longer than its lease, is taken over, and goes on (SIGCONT)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from deploy.agui_client import Reply, approve, connect, resume
from deploy.running import RunningCluster
from deploy.waiting import wait_until
from loadtests.orders import Hit, Orders
from tests.e2e.approvals import ANSWER_SECONDS, IDEMPOTENT, TRANSACTIONAL, UNSAFE, Approval, BankEffects, Kind
from tests.e2e.ordered_cluster import ordered_cluster


@pytest.fixture(scope="module")
def freezable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningCluster, Orders]]:
    """One cluster for all of them, on PostgreSQL: whoever is frozen in a write on SQLite holds up all other writers."""
    with ordered_cluster(tmp_path_factory.mktemp("frozen"), "postgres") as cluster:
        yield cluster


@pytest.mark.external_service
@pytest.mark.xdist_group("frozen replicas")
@pytest.mark.parametrize(
    ("kind", "step", "doubted"),
    [
        (IDEMPOTENT, "after-claim", False),
        (IDEMPOTENT, "after-effect", False),
        (TRANSACTIONAL, "after-claim", False),
        (TRANSACTIONAL, "before-settle", False),
        (UNSAFE, "before-begin", False),
        (UNSAFE, "before-effect", True),
        (UNSAFE, "after-effect", True),
    ],
    ids=lambda value: value.name if isinstance(value, Kind) else str(value),
)
def test_a_thawed_replica_adds_no_effect_and_ends_the_doubt_it_left(
    freezable: tuple[RunningCluster, Orders], kind: Kind, step: str, doubted: bool
) -> None:
    cluster, orders = freezable
    approval = Approval(kind, f"{kind.name}-{step}-1", step)
    asyncio.run(_approve_and_freeze(cluster, orders, approval))
    assert approval.is_in_doubt if doubted else approval.is_answered, approval.answer
    assert approval.answer.replica != _hit(orders, approval).replica

    cluster.cont(_hit(orders, approval).replica)
    cluster.wait_ready(_hit(orders, approval).replica)
    wait_until(lambda: _again(cluster, approval).is_replay, "what the thawed replica knows is there", ANSWER_SECONDS)

    [effect] = BankEffects.read(cluster.bank_url).of(approval)
    assert approval.duplicate.tool_results == [kind.result.format(**effect)]
    if not doubted:
        assert approval.duplicate.tool_results == approval.answer.tool_results


async def _approve_and_freeze(cluster: RunningCluster, orders: Orders, approval: Approval) -> None:
    async with connect(cluster.url, scope="tenant-1") as client:
        await approval.ask(client)
        orders.place(approval.thread_id, approval.step, signal.SIGSTOP)
        held = asyncio.create_task(client.post(resume(approval.thread_id, approve(approval.interrupt_id))))
        await asyncio.to_thread(wait_until, lambda: bool(_hits(orders, approval)), "a replica is frozen")
        await approval.approve(client)
        held.cancel()
        with suppress(asyncio.CancelledError):
            await held


def _again(cluster: RunningCluster, approval: Approval) -> Reply:
    """Send the same decision once more; the thread is brought on by whoever is asked."""

    async def send() -> Reply:
        async with connect(cluster.url, scope="tenant-1") as client:
            return await client.post(resume(approval.thread_id, approve(approval.interrupt_id)))

    approval.duplicate = asyncio.run(send())
    return approval.duplicate


def _hits(orders: Orders, approval: Approval) -> list[Hit]:
    return [hit for hit in orders.hits() if hit.thread_id == approval.thread_id]


def _hit(orders: Orders, approval: Approval) -> Hit:
    [hit] = _hits(orders, approval)
    return hit
