"""PostgreSQL crashes or freezes while approvals are carried out: nothing is lost or doubled, no host is restarted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import httpx
import psutil
import pytest

from deploy.agui_client import AguiClient, Reply, Run, approve, connect, resume
from deploy.running import RunningCluster, running_cluster
from deploy.waiting import wait_until
from tests.e2e.approvals import IDEMPOTENT, INDETERMINATE, TRANSACTIONAL, UNSAFE, Approval, BankEffects, delay
from tests.servers import Postgres, postgres

pytestmark = pytest.mark.external_service

LEASE_SECONDS = 2.0
OUTAGE_SECONDS = 1.5 * LEASE_SECONDS
"""Longer than a lease: when the database is back, every replica looks dead to every other one."""
REFUSAL_SECONDS_MAX = 10.0
"""A refusal for the store's sake takes a call or two of one second each, on a machine that may be busy."""
KINDS = (IDEMPOTENT, TRANSACTIONAL, UNSAFE)


@dataclass(frozen=True, slots=True)
class World:
    """Two replicas, their PostgreSQL and their bank."""

    server: Postgres
    cluster: RunningCluster


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    environment = {"AGUI_STORE_TIMEOUT_SECONDS": "1", "AGUI_RECONCILE_SECONDS": "0.5"}
    directory = tmp_path_factory.mktemp("cluster")
    with (
        postgres() as server,
        running_cluster(
            directory, replicas=2, database_url=server.url, lease_seconds=LEASE_SECONDS, environment=environment
        ) as cluster,
    ):
        yield World(server, cluster)


def crash(server: Postgres) -> Callable[[], None]:
    """Kill the server; answers how to start it again."""
    server.kill()
    return server.start


def freeze(server: Postgres) -> Callable[[], None]:
    """Stop every process of the server where it is; answers how to let them go on."""
    postmaster = psutil.Process(server.pid)
    postmaster.suspend()  # first, so that no further process is made
    processes = [postmaster, *postmaster.children(recursive=True)]
    for process in processes:
        process.suspend()

    def go_on() -> None:
        for process in reversed(processes):
            process.resume()

    return go_on


@pytest.mark.parametrize("fault", [crash, freeze])
async def test_outage_in_the_middle_of_resumes_loses_and_doubles_nothing(
    world: World, fault: Callable[[Postgres], Callable[[], None]]
) -> None:
    cluster, replicas = world.cluster, world.cluster.state.replicas
    approvals = [Approval(kind, f"{fault.__name__}-{kind.name}-{number}") for kind in KINDS for number in range(4)]
    unheard = Approval(UNSAFE, f"{fault.__name__}-unheard-1")
    for approval in approvals[::2]:
        # These have had their effect, and wait for the bank's answer, when the database goes.
        delay(cluster.bank_url, approval.invoice, 1.0)

    async with AsyncExitStack() as stack:
        urls = (cluster.url, *(replica.url for replica in replicas))
        client, *each = [await stack.enter_async_context(connect(url, scope="tenant-1")) for url in urls]
        await asyncio.gather(*(approval.ask(client) for approval in (*approvals, unheard)))
        answering = await stack.enter_async_context(asyncio.TaskGroup())
        for approval in approvals:
            answering.create_task(approval.approve(client))
        await asyncio.to_thread(wait_until, lambda: has_effects(world, approvals), "the bank was called")

        mend = fault(world.server)
        refused = await while_away(each[0], resume_of(unheard))
        probes = [await asyncio.to_thread(get, f"{replica.url}/readyz") for replica in replicas]
        is_in_the_middle = any(not approval.answered_at for approval in approvals)
        mend()

        impatient = await asyncio.gather(
            *(at_once(replica, resume_of(approval)) for replica in each for approval in approvals)
        )
    async with connect(cluster.url, scope="tenant-1") as client:
        for approval in approvals:
            await approval.approve_again(client)
    probes_after = [await asyncio.to_thread(get, f"{replica.url}/readyz") for replica in replicas]

    assert is_in_the_middle
    assert {reply.code for reply in refused} == {"STORE_UNAVAILABLE"}
    assert {reply.metadata["definite"] for reply in refused} == {False}
    assert [probe and probe.status_code for probe in probes] == [503, 503]
    assert all("PostgreSQL" in probe.json()["reason"] for probe in probes if probe)
    assert INDETERMINATE not in {reply.code for reply in impatient}
    bank = read_bank(world)
    assert bank.of(unheard) == []
    for approval in approvals:
        assert approval.is_answered, approval.answer
        assert len(bank.of(approval)) == 1, approval.invoice
        assert approval.duplicate.is_replay
        assert approval.duplicate.tool_results == approval.answer.tool_results
    assert [probe and probe.json() for probe in probes_after] == [{"status": "ready"}] * 2
    assert cluster.state.replicas == replicas


def resume_of(approval: Approval) -> Run:
    return resume(approval.thread_id, approve(approval.interrupt_id))


async def while_away(client: AguiClient, run: Run) -> list[Reply]:
    """Send the same for as long as the outage shall last; each refusal must come within its bound."""
    replies: list[Reply] = []
    until = time.monotonic() + OUTAGE_SECONDS
    while time.monotonic() < until:
        async with asyncio.timeout(REFUSAL_SECONDS_MAX):
            replies.append(await client.post(run))
    return replies


async def at_once(client: AguiClient, run: Run) -> Reply:
    """Send a run as soon as the store is there again, while every other replica still looks dead."""
    async with asyncio.timeout(REFUSAL_SECONDS_MAX):
        while (reply := await client.post(run)).code == "STORE_UNAVAILABLE":
            pass
    return reply


def has_effects(world: World, approvals: list[Approval]) -> bool:
    bank = BankEffects.read(world.cluster.bank_url)
    return sum(len(bank.of(approval)) for approval in approvals) >= len(approvals) / 3


def read_bank(world: World) -> BankEffects:
    """Read the bank's books; its own connections to the database were cut as well, and it says so once or twice."""
    url = f"{world.cluster.bank_url}/effects"
    wait_until(lambda: (answer := get(url)) and answer.is_success, "the bank reads refunds again")
    return BankEffects.read(world.cluster.bank_url)


def get(url: str) -> httpx.Response | None:
    try:
        return httpx.get(url, trust_env=False, timeout=REFUSAL_SECONDS_MAX)
    except httpx.ConnectError:
        return None
