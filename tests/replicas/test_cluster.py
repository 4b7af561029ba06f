"""The local cluster with real processes: what it promises about its load balancer and about killed replicas."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import httpx
import psutil
import pytest

from deploy.balancer import ANSWER_HEADER
from deploy.running import RunningCluster, running_cluster
from deploy.waiting import wait_until

STAND_IN = "tests.replicas.stand_in:create_stand_in"
NAMES = {"host-1", "host-2", "host-3"}
# One cluster serves them all, so they stay in one worker process.
pytestmark = pytest.mark.xdist_group("cluster")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), app=STAND_IN, migrate=False) as running:
        yield running


@pytest.fixture
def ready(cluster: RunningCluster) -> RunningCluster:
    """The cluster, once every replica gets requests (again)."""
    for name in cluster.names:
        cluster.wait_ready(name)
    wait_until(lambda: {answering(cluster) for _ in NAMES} == NAMES, "all replicas get requests")
    return cluster


def answering(cluster: RunningCluster) -> str:
    answer = httpx.post(f"{cluster.url}/name", timeout=20)
    answer.raise_for_status()
    return str(answer.json()["name"])


def answering_soon(cluster: RunningCluster, seconds: float) -> str | None:
    with suppress(httpx.TimeoutException):
        return str(httpx.post(f"{cluster.url}/name", timeout=seconds).json()["name"])
    return None


def test_requests_are_spread_over_all_replicas(ready: RunningCluster) -> None:
    assert {answering(ready) for _ in range(3)} == NAMES


def test_killed_replica_comes_back_under_the_same_name_and_port(ready: RunningCluster) -> None:
    killed = ready.kill("host-2")

    back = ready.wait_ready("host-2")

    assert (back.name, back.port) == (killed.name, killed.port)
    assert back.pid != killed.pid
    wait_until(lambda: answering(ready) == "host-2", "host-2 gets requests again")


def test_refused_connection_goes_to_the_next_replica(ready: RunningCluster) -> None:
    # A stopped launcher starts nothing again, so the dead replica's port refuses connections as long as we like.
    launcher = psutil.Process(ready.state.launcher.pid)
    launcher.suspend()
    try:
        dead = ready.kill("host-1")
        answers = [answering(ready) for _ in range(12)]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", dead.port), timeout=5)
    finally:
        launcher.resume()

    assert set(answers) == NAMES - {"host-1"}


def test_request_waits_for_replicas_when_all_are_down(ready: RunningCluster) -> None:
    for name in ready.names:
        ready.kill(name)

    assert answering(ready) in NAMES


# The transport inside the balancer has rules of its own for empty bodies and these headers.
@pytest.mark.parametrize("body", [b"", b'{"any": "thing"}'], ids=["empty", "body"])
@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k", "X-Idempotency-Key": "k"}], ids=["plain", "keyed"])
def test_post_that_reached_a_replica_is_never_sent_to_another(
    ready: RunningCluster, body: bytes, headers: dict[str, str], request: pytest.FixtureRequest
) -> None:
    invoice = request.node.callspec.id

    answer = httpx.post(f"{ready.url}/wire-and-die/{invoice}", content=body, headers=headers, timeout=30)

    assert answer.status_code == httpx.codes.BAD_GATEWAY
    for name in ready.names:
        ready.wait_ready(name)
    effects = httpx.get(f"{ready.bank_url}/effects", params={"invoice_prefix": invoice}).json()
    assert effects["counts"]["wires"] == 1


def test_stream_goes_on_while_the_balancer_is_reloaded_for_all_others(ready: RunningCluster) -> None:
    with httpx.stream("POST", f"{ready.url}/stream", timeout=20) as stream:
        lines = stream.iter_lines()
        name = next(lines).removeprefix("data: ")

        ready.reload_balancer("second")

        assert {httpx.post(f"{ready.url}/name").headers[ANSWER_HEADER] for _ in NAMES} == {"second"}
        httpx.post(f"{ready.replica(name).url}/end-streams")
        assert [line for line in lines if line] == ["data: the end"]
    assert ANSWER_HEADER not in stream.headers


def test_replica_that_is_asked_to_end_drains_and_comes_back(ready: RunningCluster) -> None:
    before = ready.replica("host-1")

    ready.end("host-1")

    assert before.find() is None
    assert "Finished server process" in ready.log("host-1")
    assert ready.wait_ready("host-1").pid != before.pid


def test_frozen_replica_gets_no_requests_until_it_goes_on(ready: RunningCluster) -> None:
    ready.stop("host-3")
    try:
        others = NAMES - {"host-3"}
        wait_until(lambda: {answering_soon(ready, 1) for _ in NAMES} == others, "the balancer avoids the frozen host-3")
    finally:
        ready.cont("host-3")

    wait_until(lambda: answering(ready) == "host-3", "host-3 gets requests again")
