"""SIGTERM to a replica: what runs there ends within the grace period or says that it did not, and others go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from deploy.agui_client import AguiClient, Reply, Run, approve, ask, connect, resume
from deploy.running import RunningCluster, running_cluster
from deploy.waiting import wait_gone, wait_until
from tests.e2e.approvals import IDEMPOTENT, INDETERMINATE, UNSAFE, Approval, BankEffects, Kind, delay

GRACE_SECONDS = 2.0
WITHIN_GRACE_SECONDS = 1.5
BEYOND_GRACE_SECONDS = 8.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), replicas=2, drain_seconds=GRACE_SECONDS) as running:
        yield running


@pytest.fixture
async def client(cluster: RunningCluster) -> AsyncIterator[AguiClient]:
    """A client of the load balancer, once every replica gets requests (again)."""
    for name in cluster.names:
        cluster.wait_ready(name)
    async with connect(cluster.url, scope="tenant-1") as connected:
        yield connected


@dataclass(frozen=True, slots=True)
class UnderWay:
    """An approved call that the bank has carried out but not answered yet, and the replica that waits for it."""

    approval: Approval
    run: Run
    reply: asyncio.Task[Reply]
    replica: str
    process: psutil.Process


@asynccontextmanager
async def under_way(
    cluster: RunningCluster, client: AguiClient, kind: Kind, invoice: str, seconds: float
) -> AsyncIterator[UnderWay]:
    approval = Approval(kind, invoice)
    await approval.ask(client)
    delay(cluster.bank_url, invoice, seconds)
    run = resume(approval.thread_id, approve(approval.interrupt_id))
    replicas: list[str] = []
    async with asyncio.TaskGroup() as group:
        reply = group.create_task(client.post(run, on_start=replicas.append))
        await asyncio.to_thread(wait_until, lambda: effects(cluster, approval), "the bank has carried it out")
        process = psutil.Process(cluster.replica(replicas[0]).pid)
        yield UnderWay(approval, run, reply, replicas[0], process)


async def test_run_ends_within_the_grace_period_while_others_take_what_is_new(
    cluster: RunningCluster, client: AguiClient
) -> None:
    async with under_way(cluster, client, UNSAFE, "slow-1", WITHIN_GRACE_SECONDS) as call:
        call.process.terminate()
        others: list[Reply] = []
        while not call.reply.done():
            others.append(await client.send(ask(f"thread-new-{len(others)}", "look up new-1")))

    reply = call.reply.result()
    assert (reply.replica, reply.end.get("type")) == (call.replica, "RUN_FINISHED")
    assert {other.end.get("type") for other in others} == {"RUN_FINISHED"}
    # The first of them may have overtaken the signal.
    assert call.replica not in {other.replica for other in others[1:]}
    assert ended_in_order(cluster, call)
    assert len(effects(cluster, call.approval)) == 1


async def test_run_beyond_the_grace_period_ends_its_stream_and_another_replica_goes_on(
    cluster: RunningCluster, client: AguiClient
) -> None:
    async with under_way(cluster, client, IDEMPOTENT, "slow-2", BEYOND_GRACE_SECONDS) as call:
        call.process.terminate()

    assert call.reply.result().code == "RUN_FAILED"
    delay(cluster.bank_url, "slow-2", 0)
    [reply] = [reply async for reply in client.replies(call.run)]
    assert reply.end.get("type") == "RUN_FINISHED"
    assert reply.replica != call.replica
    assert ended_in_order(cluster, call)
    assert len(effects(cluster, call.approval)) == 1


async def test_unsafe_call_beyond_the_grace_period_is_in_doubt_on_the_other_replicas(
    cluster: RunningCluster, client: AguiClient
) -> None:
    async with under_way(cluster, client, UNSAFE, "slow-3", BEYOND_GRACE_SECONDS) as call:
        call.process.terminate()

    assert call.reply.result().code == "RUN_FAILED"
    delay(cluster.bank_url, "slow-3", 0)
    [reply] = [reply async for reply in client.replies(call.run)]
    assert reply.code == INDETERMINATE
    assert reply.replica != call.replica
    assert ended_in_order(cluster, call)
    assert len(effects(cluster, call.approval)) == 1


async def test_run_goes_on_and_is_committed_when_its_client_left_before_the_signal(
    cluster: RunningCluster, client: AguiClient
) -> None:
    async with under_way(cluster, client, UNSAFE, "slow-4", WITHIN_GRACE_SECONDS) as call:
        call.reply.cancel()
        call.process.terminate()
        wait_gone([call.process])

    reply = await client.send(call.run)

    assert reply.is_replay
    assert len(effects(cluster, call.approval)) == 1


def effects(cluster: RunningCluster, approval: Approval) -> list[dict[str, Any]]:
    return BankEffects.read(cluster.bank_url).of(approval)


def ended_in_order(cluster: RunningCluster, call: UnderWay) -> bool:
    """Whether the process ended by itself, with its house in order, before the launcher lost patience."""
    wait_gone([call.process])
    # uvicorn's last act is to send itself the signal that it was told to end by.
    ended = f"{call.replica} ({call.process.pid}) was killed by SIGTERM"
    wait_until(lambda: ended in cluster.log("launcher"), "the launcher tells that it ended so")
    return f"Finished server process [{call.process.pid}]" in cluster.log(call.replica)
