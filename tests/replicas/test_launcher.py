"""The launcher of the local cluster: it leaves no process behind, and says clearly why it does not start."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from deploy.cluster_file import read_cluster_file
from deploy.running import RunningCluster, running_cluster
from deploy.waiting import wait_gone, wait_until

STAND_IN = "tests.replicas.stand_in:create_stand_in"
COMMAND_SECONDS = 60.0


def command(directory: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "deploy.cluster", *arguments, f"--state-dir={directory}"]


def up(directory: Path, *arguments: str, app: str = STAND_IN) -> list[str]:
    return command(directory, "up", "--port=0", "--no-migrate", "--replicas=2", f"--app={app}", *arguments)


@contextmanager
def small_cluster(directory: Path) -> Iterator[RunningCluster]:
    with running_cluster(directory, replicas=2, app=STAND_IN, migrate=False) as cluster:
        yield cluster


def run(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)


def family(launcher_pid: int) -> list[psutil.Process]:
    launcher = psutil.Process(launcher_pid)
    return [launcher, *launcher.children(recursive=True)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_signal_to_the_launcher_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    with small_cluster(tmp_path) as cluster:
        processes = family(cluster.state.launcher.pid)
        assert len(processes) == len(["launcher", "bank", "host-1", "host-2", "balancer"])
        cluster.stop("host-1")  # a frozen replica must not survive either

        os.kill(processes[0].pid, number)

        wait_gone(processes)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signal_while_starting_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(up(tmp_path, app="tests.replicas.stand_in:create_never_ready")) as launcher:
        wait_until(lambda: (state := read_cluster_file(tmp_path)) and len(state.replicas) == 2, "the hosts are started")
        processes = family(launcher.pid)
        assert len(processes) == len(["launcher", "bank", "host-1", "host-2"])

        launcher.send_signal(number)

        wait_gone(processes)


def test_down_stops_the_cluster_and_status_says_so(tmp_path: Path) -> None:
    with small_cluster(tmp_path) as cluster:
        processes = family(cluster.state.launcher.pid)
        assert "host-2" in run(command(tmp_path, "status")).stdout

        assert run(command(tmp_path, "down")).returncode == 0

        wait_gone(processes)
        assert run(command(tmp_path, "status")).returncode == 1


def test_second_cluster_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    with small_cluster(tmp_path) as cluster:
        second = run(up(tmp_path))

        assert second.returncode != 0
        assert "a cluster already runs" in second.stderr
        assert cluster.wait_ready("host-1").pid in [process.pid for process in family(cluster.state.launcher.pid)]


def test_cluster_starts_again_where_its_launcher_was_killed(tmp_path: Path) -> None:
    with small_cluster(tmp_path) as cluster:
        killed = family(cluster.state.launcher.pid)
        os.kill(killed[0].pid, signal.SIGKILL)
        wait_gone(killed)

    with small_cluster(tmp_path) as cluster:
        assert cluster.wait_ready("host-1").pid not in [process.pid for process in killed]


def test_busy_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        refused = run(up(tmp_path, f"--port={port}"))

    assert refused.returncode == 1
    assert f"Port {port} is in use" in refused.stdout


def test_host_that_ends_while_starting_stops_the_launcher_with_the_end_of_its_log(tmp_path: Path) -> None:
    failed = run(up(tmp_path, app="tests.replicas.stand_in:no_such_factory"))

    assert failed.returncode == 1
    assert "host-1" in failed.stdout
    assert "no_such_factory" in failed.stdout
    assert read_cluster_file(tmp_path) is None


def test_death_of_the_bank_ends_the_cluster(tmp_path: Path) -> None:
    with small_cluster(tmp_path) as cluster:
        processes = family(cluster.state.launcher.pid)
        bank = cluster.state.bank
        assert bank is not None

        os.kill(bank.pid, signal.SIGKILL)

        wait_gone(processes)
        with pytest.raises(LookupError, match="bank was killed by SIGKILL"):
            cluster.kill("host-1")
