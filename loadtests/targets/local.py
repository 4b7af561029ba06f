"""A deployment of real processes on this machine: stores, a bank, replicas and a load balancer of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import psutil

from deploy.running import RunningCluster, running_cluster
from deploy.waiting import wait_until
from loadtests.history import FaultKind
from loadtests.target import Sample, Target
from loadtests.targets.backing import Backing
from loadtests.targets.mixed import mixed_backing
from loadtests.targets.network import Network, running_network
from loadtests.targets.postgres import postgres_backing
from loadtests.targets.redis import redis_backing
from loadtests.targets.sqlite import sqlite_backing

STORES = ("sqlite", "postgres", "redis", "mixed")
APP = "loadtests.host:create_chaos_app"
READY_SECONDS_MAX = 120.0
"""A host takes three seconds to start, and longer where others start too and users keep the machine busy."""
DRAIN_SECONDS = 2.0
STORE_TIMEOUT_SECONDS = 5.0
"""What a host takes if AGUI_STORE_TIMEOUT_SECONDS says nothing."""


class LocalTarget:
    """What a nemesis can do to it; see loadtests/target.py. Raises ValueError for what its kind of store can not do."""

    def __init__(self, cluster: RunningCluster, backing: Backing, network: Network) -> None:
        self._cluster = cluster
        self._backing = backing
        self._network = network
        self._reloads = 0
        # A nemesis mends in threads of its own: one change of what all replicas share after another.
        self._shared = threading.Lock()
        self.url = cluster.url
        self.bank_url = cluster.bank_url
        self.replicas: Sequence[str] = tuple(cluster.names)
        self.faults = backing.faults

    def kill(self, replica: str) -> None:
        self._cluster.kill(replica)

    def stop(self, replica: str) -> None:
        self._cluster.end(replica)

    def start(self, replica: str) -> None:
        self._cluster.wait_ready(replica, READY_SECONDS_MAX)

    def freeze(self, replica: str) -> None:
        wait_until(lambda: self._suspend(replica), f"{replica} is frozen", READY_SECONDS_MAX)

    def thaw(self, replica: str) -> None:
        process = self._cluster.replica(replica).find()
        if process is None:
            return
        with suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_STOPPED:
                return
            process.resume()
        self.start(replica)

    def cut(self, replica: str) -> None:
        self._require(FaultKind.CUT)
        self._network.cut(replica)

    def heal(self, replica: str) -> None:
        self._require(FaultKind.CUT)
        self._network.heal(replica)

    def restart_store(self) -> None:
        self._require(FaultKind.STORE_RESTART)
        with self._shared:
            self._backing.restart()

    def fail_over(self) -> None:
        self._require(FaultKind.FAILOVER)
        with self._shared:
            self._backing.fail_over()

    def slow_store(self, seconds: float) -> None:
        with self._shared:
            self._backing.slow(seconds)

    def reload_balancer(self) -> None:
        with self._shared:
            self._reloads += 1
            self._cluster.reload_balancer(f"reload-{self._reloads}")

    def sample(self) -> Sample:
        """Say what the deployment uses now; a replica that is gone at this moment is left out."""
        memory = {name: size for name in self.replicas if (size := self._memory_bytes(name))}
        usage = self._backing.measure()
        return Sample(time.time(), memory, usage.connections, usage.store_bytes)

    def _suspend(self, replica: str) -> bool:
        """Tell whether it is frozen now; one that was killed comes back first."""
        process = self._cluster.replica(replica).find()
        if process is None:
            return False
        try:
            process.suspend()
            return bool(process.status() == psutil.STATUS_STOPPED)
        except psutil.NoSuchProcess:
            return False

    def _memory_bytes(self, replica: str) -> int:
        process = self._cluster.replica(replica).find()
        try:
            return process.memory_info().rss if process else 0
        except psutil.NoSuchProcess:
            return 0

    def _require(self, kind: FaultKind) -> None:
        if kind not in self.faults:
            raise ValueError(f"This target has no {kind}.")


@contextmanager
def local_target(
    directory: Path,
    *,
    stores: str,
    replicas: int = 3,
    lease_seconds: float = 3.0,
    orders: Path | None = None,
    mutant: str = "",
    settings: Mapping[str, str] = {},
) -> Iterator[Target]:
    """Run a target with its files in `directory`; on leaving, or if it can not start, everything is stopped in order.

    `orders` is where a nemesis leaves orders for replicas (default: a folder in `directory`), `mutant` a deliberate bug
    to put in, `settings` are more AGUI_ variables for the hosts. Enter it in the main thread. Raises ValueError for
    stores that are not in STORES, RuntimeError or TimeoutError if something does not start.
    """
    orders = orders or directory / "orders"
    orders.mkdir(parents=True, exist_ok=True)
    names = [f"host-{number}" for number in range(1, replicas + 1)]
    with running_network(names) as network, _backing(stores, directory, network, settings) as backing:
        environment = {
            **backing.settings,
            **settings,
            "CHAOS_ORDERS": str(orders),
            "CHAOS_MUTANT": mutant,
            "CHAOS_STORE_PORTS": network.ports(),
            # Each start costs a third with the bytecode that the first one leaves.
            "PYTHONDONTWRITEBYTECODE": "",
        }
        with running_cluster(
            directory,
            replicas=replicas,
            app=APP,
            database_url=backing.database_url or None,
            lease_seconds=lease_seconds,
            drain_seconds=DRAIN_SECONDS,
            environment=environment,
        ) as cluster:
            try:
                yield LocalTarget(cluster, backing, network)
            finally:
                # So that the replicas can end in order, whatever the nemesis was about when it ended.
                backing.slow(0)
                for name in names:
                    network.heal(name)


def _backing(
    stores: str, directory: Path, network: Network, settings: Mapping[str, str]
) -> AbstractContextManager[Backing]:
    match stores:
        case "sqlite":
            seconds = float(settings.get("AGUI_STORE_TIMEOUT_SECONDS", STORE_TIMEOUT_SECONDS))
            return sqlite_backing(directory, store_timeout_seconds=seconds)
        case "postgres":
            return postgres_backing(network)
        case "redis":
            return redis_backing(network)
        case "mixed":
            return mixed_backing(network)
        case _:
            raise ValueError(f"Stores are {', '.join(STORES)}; '{stores}' is none of them.")
