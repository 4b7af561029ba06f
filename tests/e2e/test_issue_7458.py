"""The story of the script in microsoft/agent-framework#7458, over HTTP on three replicas behind the load balancer.

Its two modes: the model fails after the approved tool has run, and the same resume is sent again; or all goes well
(`--success`), and the resume arrives twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from deploy.agui_client import AguiClient, Reply, Run, approve, ask, connect, resume
from deploy.running import RunningCluster, running_cluster
from tests.e2e.approvals import ANSWER_SECONDS

OUTAGE = "provider"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    # No replica goes on by itself: what the model is asked for is what this test's requests ask for.
    directory, environment = tmp_path_factory.mktemp("cluster"), {"AGUI_RECONCILE_SECONDS": "3600"}
    with running_cluster(directory, lease_seconds=30.0, environment=environment) as running:
        yield running


@pytest.fixture
async def client(cluster: RunningCluster) -> AsyncIterator[AguiClient]:
    async with connect(cluster.url, scope="issue-7458") as connected:
        yield connected


async def paused(client: AguiClient, mode: str) -> tuple[Run, Reply]:
    """POST #0: the agent asks; return the resume that approves it."""
    reply = await client.send(ask(mode, f"pay INV-{mode} to ACME (outage {OUTAGE})"), seconds=ANSWER_SECONDS)
    (card,) = reply.interrupts
    return resume(mode, approve(card["id"])), reply


def break_model(cluster: RunningCluster, times: int) -> None:
    """Let the provider fail this often after a tool has run."""
    path = f"{cluster.bank_url}/outages/{OUTAGE}"
    httpx.put(path, json={"remaining": times}, trust_env=False).raise_for_status()


def failures_left(cluster: RunningCluster) -> int:
    """Return how often the provider would still fail: every call of it has taken one."""
    path = f"{cluster.bank_url}/outages/{OUTAGE}/take"
    count = 0
    while httpx.post(path, trust_env=False).raise_for_status().json()["down"]:
        count += 1
    return count


def calls_to_pay(cluster: RunningCluster, invoice: str) -> list[int]:
    """Return how often the bank was called to pay an invoice, per payment that it made."""
    told = httpx.get(f"{cluster.bank_url}/effects", params={"invoice_prefix": invoice}, trust_env=False)
    return [int(payment["calls"]) for payment in told.raise_for_status().json()["payments"]]


async def test_the_retry_after_a_failed_model_calls_the_model_again_and_answers(
    cluster: RunningCluster, client: AguiClient
) -> None:
    run, asked = await paused(client, "fail-1")
    break_model(cluster, times=2)

    failed, failed_again = await client.post(run), await client.post(run)
    calls_that_failed = 2 - failures_left(cluster)
    answered = await client.post(run)

    assert [failed.code, failed_again.code] == ["RUN_FAILED", "RUN_FAILED"]
    assert calls_that_failed == 2
    assert (answered.code, answered.is_replay) == (None, False)
    assert "pay_invoice INV-fail-1: Paid INV-fail-1 to ACME" in answered.text
    assert failed.tool_results == failed_again.tool_results == answered.tool_results
    assert calls_to_pay(cluster, "INV-fail-1") == [1]
    assert len({reply.replica for reply in (asked, failed, failed_again, answered)}) > 1


async def test_the_duplicate_of_a_successful_resume_is_replayed_without_the_model(
    cluster: RunningCluster, client: AguiClient
) -> None:
    run, asked = await paused(client, "success-1")

    answered = await client.post(run)
    break_model(cluster, times=3)
    # One for each replica, and a fourth that comes as another run, as from another tab.
    repeated = [await client.post(each) for each in (run, run, run, resume(run.thread_id, *run.resume))]

    assert (answered.code, answered.is_replay) == (None, False)
    assert "pay_invoice INV-success-1: Paid INV-success-1 to ACME" in answered.text
    for again in repeated:
        assert (again.code, again.is_replay) == (None, True)
        assert (again.tool_results, again.text) == (answered.tool_results, answered.text)
    assert failures_left(cluster) == 3
    assert calls_to_pay(cluster, "INV-success-1") == [1]
    assert len({reply.replica for reply in (asked, answered, *repeated)}) > 1
