"""A local cluster for tests: `with running_cluster(directory) as cluster`, then kill, freeze and wait for replicas."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil

from deploy.balancer import ANSWER_HEADER, config_file, label_answers
from deploy.cluster_file import ClusterState, ProcessEntry, read_cluster_file
from deploy.processes import tethered
from deploy.waiting import wait_gone, wait_until

_ROOT = Path(__file__).parents[1]
_STOP_SECONDS = 60.0


class RunningCluster:
    """Handle of a running cluster. All methods block; from async code call them in a thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def state(self) -> ClusterState:
        """What runs where, read anew; raises LookupError after the cluster was stopped."""
        if state := read_cluster_file(self._directory):
            return state
        raise LookupError(f"no cluster runs in {self._directory}; the last it said:\n{self.log('launcher')[-1000:]}")

    @property
    def url(self) -> str:
        """Where the load balancer listens."""
        return self.state.url

    @property
    def bank_url(self) -> str:
        """Where the bank listens."""
        return self.state.bank_url

    @property
    def database_url(self) -> str:
        """The database of the hosts; "" if they have none."""
        return self.state.database_url

    @property
    def names(self) -> list[str]:
        """The names of all replicas."""
        return [replica.name for replica in self.state.replicas]

    def replica(self, name: str) -> ProcessEntry:
        """Return the process that is this replica now, or was it last; raises KeyError."""
        return self.state.replica(name)

    def kill(self, name: str) -> ProcessEntry:
        """End a replica with SIGKILL, wait until it is gone, and return what it was."""
        killed = self.replica(name)
        if process := killed.find():
            with suppress(psutil.NoSuchProcess):
                process.kill()
            wait_gone([process])
        return killed

    def end(self, name: str) -> None:
        """Ask a replica to end in order (SIGTERM), and wait until it is gone."""
        if process := self.replica(name).find():
            with suppress(psutil.NoSuchProcess):
                process.terminate()
                process.resume()  # a frozen one would not see it
            wait_gone([process])

    def stop(self, name: str) -> None:
        """Freeze a replica (SIGSTOP): it keeps its connections and answers nothing."""
        process = psutil.Process(self.replica(name).pid)
        process.suspend()
        wait_until(lambda: process.status() == psutil.STATUS_STOPPED, f"{name} is frozen")

    def cont(self, name: str) -> None:
        """Let a frozen replica go on (SIGCONT)."""
        psutil.Process(self.replica(name).pid).resume()

    def wait_ready(self, name: str, seconds: float = 60.0) -> ProcessEntry:
        """Wait until a replica, started again or not, says that it is ready; raises TimeoutError."""
        wait_until(lambda: self._is_ready(name), f"{name} is ready", seconds)
        return self.replica(name)

    def reload_balancer(self, label: str) -> None:
        """Let the load balancer read its configuration anew: from now on each answer has `label` in ANSWER_HEADER."""
        balancer = self.state.balancer
        if balancer is None or (process := balancer.find()) is None:
            raise LookupError("the load balancer does not run")
        config_file(self._directory).write_text(label_answers(label))
        process.send_signal(signal.SIGUSR1)
        wait_until(lambda: self._balancer_label() == label, f"the load balancer answers as {label}", 60)

    def log(self, name: str) -> str:
        """Return what a process of the cluster has printed: a replica, `bank`, `balancer` or `launcher`."""
        return (self._directory / "log" / f"{name}.log").read_text(errors="replace")

    def _is_ready(self, name: str) -> bool:
        replica = self.replica(name)
        if not replica.find():
            return False
        try:
            # Asked again and again: to load certificates each time, for TLS that nobody speaks, would take half a core.
            answer = httpx.get(f"{replica.url}/readyz", timeout=2, trust_env=False, verify=False)
        except httpx.TransportError:
            return False
        return answer.is_success

    def _balancer_label(self) -> str:
        try:
            answer = httpx.get(f"{self.url}/livez", timeout=2, trust_env=False, verify=False)
        except httpx.TransportError:
            return ""
        return str(answer.headers.get(ANSWER_HEADER, ""))


@contextmanager
def running_cluster(
    directory: Path,
    *,
    replicas: int = 3,
    app: str | None = None,
    database_url: str | None = None,
    lease_seconds: float = 2.0,
    drain_seconds: float = 2.0,
    migrate: bool = True,
    environment: Mapping[str, str] | None = None,
    seconds: float = 120.0,
) -> Iterator[RunningCluster]:
    """Run a cluster on free ports with its files in `directory`; on leaving, everything is stopped in order.

    `environment` is added to this process's own, less its AGUI_ settings, and reaches the hosts. Enter it in the main
    thread: the launcher dies with the thread that started it. Raises TimeoutError if it is not ready within `seconds`,
    RuntimeError if it ended.
    """
    (directory / "log").mkdir(parents=True, exist_ok=True)
    options: dict[str, object] = {
        "--replicas": replicas,
        "--port": 0,
        "--state-dir": directory,
        "--lease-seconds": lease_seconds,
        "--drain-seconds": drain_seconds,
        "--app": app,
        "--database-url": database_url,
    }
    command = [sys.executable, "-m", "deploy.cluster", "up", "--migrate" if migrate else "--no-migrate"]
    command += [f"{name}={value}" for name, value in options.items() if value is not None]
    output = directory / "log" / "launcher.log"
    with output.open("wb") as log:
        launcher = subprocess.Popen(
            tethered(command),
            cwd=_ROOT,
            env={**_without_settings(os.environ), **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_until(lambda: launcher.poll() is not None or _is_up(directory, launcher.pid), "the cluster is up", seconds)
        if launcher.poll() is not None:
            raise RuntimeError(f"The cluster did not start:\n{output.read_text()}")
        yield RunningCluster(directory)
    finally:
        _end(launcher)


def _without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Leave out what someone set for a cluster of their own: a test must never reach their database."""
    return {name: value for name, value in environment.items() if not name.startswith("AGUI_")}


def _is_up(directory: Path, launcher_pid: int) -> bool:
    state = read_cluster_file(directory)
    return state is not None and state.is_ready and state.launcher.pid == launcher_pid


def _end(launcher: subprocess.Popen[bytes]) -> None:
    launcher.terminate()
    launcher.send_signal(signal.SIGCONT)
    try:
        launcher.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()
