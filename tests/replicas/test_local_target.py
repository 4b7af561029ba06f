"""A local target with each kind of store: what a nemesis asks for really happens, and ends when it says so."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from deploy.agui_client import Reply, Run, approve, ask, connect, resume
from deploy.balancer import ANSWER_HEADER
from deploy.cluster_file import ProcessEntry, read_cluster_file
from deploy.waiting import wait_until
from loadtests.history import FaultKind
from loadtests.target import Target
from loadtests.targets.local import STORES, local_target

pytestmark = pytest.mark.external_service

IN_MAKE_TEST = "redis"
"""The one that starts soonest."""
PROBE_SECONDS_MAX = 20.0
STORE_TIMEOUT_SECONDS = 1.0
SLOW_SECONDS = 0.1


def kinds(*stores: str) -> list[Any]:
    # One target serves all tests of a kind of store, so they stay in one worker process.
    slow = {each: () if each == IN_MAKE_TEST else (pytest.mark.slow,) for each in stores}
    return [pytest.param(each, marks=(*slow[each], pytest.mark.xdist_group(f"target {each}"))) for each in stores]


def only(*stores: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("stores", kinds(*stores), indirect=True, scope="module")


@pytest.fixture(scope="module", params=kinds(*STORES))
def stores(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def directory(stores: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp(stores)


@pytest.fixture(scope="module")
def running(stores: str, directory: Path) -> Iterator[Target]:
    settings = {"AGUI_STORE_TIMEOUT_SECONDS": str(STORE_TIMEOUT_SECONDS)}
    with local_target(directory, stores=stores, replicas=2, settings=settings) as target:
        yield target


@pytest.fixture
def target(running: Target) -> Target:
    """The target, once both replicas serve (again)."""
    for replica in running.replicas:
        running.start(replica)
    return running


def process_of(directory: Path, replica: str) -> ProcessEntry:
    state = read_cluster_file(directory)
    assert state is not None
    return state.replica(replica)


def probe(directory: Path, replica: str, *, seconds: float = PROBE_SECONDS_MAX) -> int:
    url = process_of(directory, replica).url
    return httpx.get(f"{url}/readyz", timeout=seconds, trust_env=False).status_code


def send(url: str, run: Run) -> Reply:
    async def sent() -> Reply:
        async with connect(url, scope="tenant-1") as client:
            return await client.send(run)

    return asyncio.run(sent())


def pause(target: Target, invoice: str) -> str:
    """Ask for a wire; answers the interrupt that waits for a person."""
    reply = send(target.url, ask(f"thread-{invoice}", f"wire {invoice} to ACME"))
    assert len(reply.interrupts) == 1, reply
    return str(reply.interrupts[0]["id"])


def approved(target: Target, invoice: str, interrupt_id: str) -> int:
    """Approve it; answers how often the bank has wired."""
    reply = send(target.url, resume(f"thread-{invoice}", approve(interrupt_id)))
    assert reply.end.get("type") == "RUN_FINISHED", reply
    told = httpx.get(f"{target.bank_url}/effects", params={"invoice_prefix": invoice}, trust_env=False)
    return int(told.raise_for_status().json()["counts"]["wires"])


def test_a_killed_replica_is_gone_and_serves_again_when_start_returns(target: Target, directory: Path) -> None:
    before = process_of(directory, "host-1")

    target.kill("host-1")
    assert before.find() is None
    target.thaw("host-1")  # does nothing to what is gone
    assert "host-2" in target.sample().memory_bytes
    target.start("host-1")

    assert probe(directory, "host-1") == 200
    assert process_of(directory, "host-1").pid != before.pid


def test_a_stopped_replica_ends_in_order_and_serves_again_when_start_returns(target: Target, directory: Path) -> None:
    before = process_of(directory, "host-2")

    target.stop("host-2")
    assert before.find() is None
    assert f"Finished server process [{before.pid}]" in (directory / "log" / "host-2.log").read_text()
    target.start("host-2")

    assert probe(directory, "host-2") == 200


@pytest.mark.parametrize("by_itself", [False, True], ids=["by the nemesis", "by itself"])
def test_a_frozen_replica_answers_nothing_until_it_is_thawed(target: Target, directory: Path, by_itself: bool) -> None:
    before = process_of(directory, "host-1")
    if by_itself:
        os.kill(before.pid, signal.SIGSTOP)
        wait_until(lambda: psutil.Process(before.pid).status() == psutil.STATUS_STOPPED, "it is frozen")
    else:
        target.freeze("host-1")
    with pytest.raises(httpx.ReadTimeout):
        probe(directory, "host-1", seconds=0.5)

    target.thaw("host-1")
    target.thaw("host-1")  # does nothing to what is not frozen

    assert probe(directory, "host-1") == 200
    assert process_of(directory, "host-1").pid == before.pid


@only("postgres", "redis", "mixed")
def test_a_cut_replica_is_not_ready_and_the_other_is_until_it_is_healed(target: Target, directory: Path) -> None:
    target.cut("host-1")
    try:
        assert probe(directory, "host-1") == 503
        assert probe(directory, "host-2") == 200
    finally:
        target.heal("host-1")

    target.start("host-1")
    assert approved(target, "healed-1", pause(target, "healed-1")) == 1


@only("postgres", "redis", "mixed")
def test_a_store_that_was_restarted_has_all_it_had_acknowledged(target: Target) -> None:
    # Two restarts meet both servers, if there are two.
    for number in (1, 2):
        paused = pause(target, f"restart-{number}")

        target.restart_store()

        assert approved(target, f"restart-{number}", paused) == 1


@only("mixed")
def test_a_replica_that_took_its_primarys_place_keeps_it_through_a_restart_and_gives_it_back(target: Target) -> None:
    for number in (1, 2):
        target.fail_over()
        paused = pause(target, f"failover-{number}")
        # One of these is Redis.
        target.restart_store()
        target.restart_store()

        assert approved(target, f"failover-{number}", paused) == 1


def test_approvals_go_on_while_the_store_is_slow(target: Target, directory: Path, stores: str) -> None:
    target.slow_store(SLOW_SECONDS)
    try:
        since = time.monotonic()
        assert probe(directory, "host-1") == 200
        assert stores == "sqlite" or time.monotonic() - since >= SLOW_SECONDS
        assert approved(target, "slow-1", pause(target, "slow-1")) == 1
    finally:
        target.slow_store(0)
    assert probe(directory, "host-1") == 200


def test_a_reload_changes_what_the_balancer_answers(target: Target) -> None:
    def answer() -> str:
        return httpx.get(f"{target.url}/livez", trust_env=False).headers.get(ANSWER_HEADER, "")

    before = answer()
    target.reload_balancer()
    assert answer() not in ("", before)


def test_a_sample_is_about_the_replicas_that_live_and_the_store(target: Target, stores: str) -> None:
    pause(target, "sampled-1")

    sample = target.sample()

    assert set(sample.memory_bytes) == set(target.replicas)
    assert all(10_000_000 < size < 1_000_000_000 for size in sample.memory_bytes.values())
    assert (sample.connections > 0) == (stores != "sqlite")
    assert sample.store_bytes > 100_000


def test_what_a_kind_of_store_does_not_know_is_refused(target: Target, stores: str) -> None:
    refusing = {
        FaultKind.CUT: lambda: target.cut("host-1"),
        FaultKind.STORE_RESTART: target.restart_store,
        FaultKind.FAILOVER: target.fail_over,
    }
    for kind in refusing.keys() - target.faults:
        with pytest.raises(ValueError, match=kind):
            refusing[kind]()
    assert (set(FaultKind) - target.faults == set()) == (stores == "mixed")


def test_hosts_that_keep_nothing_in_sql_have_no_database(running: Target, directory: Path, stores: str) -> None:
    state = read_cluster_file(directory)
    assert state is not None
    assert bool(state.database_url) == (stores != "redis")
    assert (directory / "agui.db").exists() == (stores == "sqlite")


def test_a_target_that_can_not_start_leaves_no_process_and_no_thread(tmp_path: Path) -> None:
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    threads = psutil.Process().num_threads()

    with (
        pytest.raises(RuntimeError, match="lease_seconds"),
        local_target(tmp_path, stores=IN_MAKE_TEST, replicas=1, lease_seconds=-1.0),
    ):
        pass

    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before
    assert psutil.Process().num_threads() <= threads


def test_a_kind_of_store_that_is_not_known_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'sqlight'"), local_target(tmp_path, stores="sqlight"):
        pass
