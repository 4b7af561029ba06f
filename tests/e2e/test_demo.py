"""`make demo` against a real cluster: it shows every promise kept, and fails if the bank tells otherwise."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.running import RunningCluster, running_cluster
from deploy.waiting import wait_until

DEMO_SECONDS_MAX = 150


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[RunningCluster]:
    with running_cluster(directory) as running:
        yield running


def start(directory: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "deploy.demo", f"--state-dir={directory}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def payments(cluster: RunningCluster) -> list[dict[str, Any]]:
    answer = httpx.get(f"{cluster.bank_url}/effects").raise_for_status().json()
    found: list[dict[str, Any]] = answer["payments"]
    return found


def test_demo_shows_every_promise_kept_and_counts_the_effects(cluster: RunningCluster, directory: Path) -> None:
    with start(directory) as demo:
        output, _ = demo.communicate(timeout=DEMO_SECONDS_MAX)

    assert demo.returncode == 0, output
    assert "BROKEN" not in output
    assert output.splitlines()[-1] == ("Every promise was kept: 3 payments, 1 wire, 1 refund, for 5 approved calls.")


def test_demo_fails_when_the_bank_sees_a_second_payment(cluster: RunningCluster, directory: Path) -> None:
    earlier = payments(cluster)
    with start(directory) as demo:
        wait_until(lambda: payments(cluster)[len(earlier) :], "the demonstration has paid", DEMO_SECONDS_MAX)
        first = payments(cluster)[len(earlier)]
        second = {"key": "somebody-else", "invoice": first["invoice"], "payee": first["payee"]}
        httpx.post(f"{cluster.bank_url}/payments", json=second).raise_for_status()
        output, _ = demo.communicate(timeout=DEMO_SECONDS_MAX)

    assert demo.returncode == 1, output
    assert f"{first['invoice']}: 2 payments happened, 1 approved" in output
    assert "A promise broke: one effect for each approved call, and no other." in output
    assert output.splitlines()[-1].startswith("Not every promise was kept: 4 payments, 1 wire, 1 refund")


def test_demo_says_what_to_do_when_no_cluster_runs(tmp_path: Path) -> None:
    with start(tmp_path) as demo:
        output, _ = demo.communicate(timeout=DEMO_SECONDS_MAX)

    assert demo.returncode == 2
    assert "make up" in output
