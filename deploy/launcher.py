"""The local cluster: one bank, N hosts and a load balancer, started and stopped in order, dead hosts started again."""

from __future__ import annotations

import asyncio
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from deploy.balancer import balancer_program
from deploy.cluster_file import ClusterState, ProcessEntry, remove_cluster_file, write_cluster_file
from deploy.free_ports import find_free_ports, is_free
from deploy.processes import Child, Program, ProgramFailed

# Importing a host takes several seconds of processor time, and all start at once, on two cores or fewer.
_START_SECONDS = 120.0
# A host that ends before it was ever ready is started again after 0.25 s, 0.5 s, … but never later than this.
_RESTART_SECONDS_MAX = 5.0
# Longer than the balancer keeps an idle connection (10 s): else it may write a POST to one that the host just closed.
_KEEPALIVE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Options:
    """What to run. `port` 0 stands for any free one; `database_url` names an async driver, "" is for no database."""

    replicas: int
    port: int
    app: str
    state_directory: Path
    database_url: str
    lease_seconds: float
    drain_seconds: float
    migrate: bool


class Cluster:
    """The processes of one cluster; `say` gets a line for whoever watches."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        self._options = options
        self._say = say
        self._log_directory = options.state_directory / "log"
        self._log_directory.mkdir(parents=True, exist_ok=True)
        bank_port, balancer_port, *host_ports = find_free_ports(options.replicas + 2)
        self._bank = self._child(self._bank_program(bank_port))
        self._hosts = [self._child(self._host_program(number, port)) for number, port in enumerate(host_ports, 1)]
        self._balancer = self._child(
            balancer_program(
                port=options.port or balancer_port, upstream_ports=host_ports, directory=options.state_directory
            )
        )
        self._is_ready = False

    async def start(self) -> None:
        """Start everything and wait until it answers; raises ProgramFailed."""
        port = self._balancer.program.port
        if not is_free(port):
            raise ProgramFailed(
                f"Port {port} is in use by another program. Choose another one: make up PORT={port + 1}"
            )
        if self._options.migrate and self._options.database_url:
            await self._migrate()
        await self._start(self._bank, *self._hosts)
        await self._start(self._balancer)
        self._is_ready = True
        self._save()

    async def keep(self) -> str:
        """Start hosts again whenever they die; ends only when the bank or the balancer does, and tells how."""
        keepers = [asyncio.create_task(self._keep(host)) for host in self._hosts]
        endings = [asyncio.create_task(self._ending(child)) for child in (self._bank, self._balancer)]
        tasks = [*keepers, *endings]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return ended.pop().result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self) -> None:
        """End everything: the hosts while the balancer still carries their streams, the bank last of all."""
        await asyncio.gather(*(host.stop() for host in self._hosts))
        await self._balancer.stop()
        await self._bank.stop()
        remove_cluster_file(self._options.state_directory)

    def kill(self) -> None:
        """End everything at once."""
        for child in (*self._hosts, self._balancer, self._bank):
            child.kill()

    def state(self) -> ClusterState:
        """Return what runs where, as `cluster.json` tells it."""
        return ClusterState(
            is_ready=self._is_ready,
            url=self._balancer.program.url,
            bank_url=self._bank.program.url,
            database_url=self._options.database_url,
            launcher=ProcessEntry(name="launcher", pid=os.getpid(), created=psutil.Process().create_time()),
            bank=_entry(self._bank),
            balancer=_entry(self._balancer),
            replicas=tuple(entry for entry in map(_entry, self._hosts) if entry),
        )

    async def _migrate(self) -> None:
        command = (sys.executable, "-m", "stores.sql.migrate", "--database-url", self._options.database_url)
        migration = self._child(Program(name="migration", command=command))
        try:
            await migration.start()
            await migration.wait_done(_START_SECONDS)
        finally:
            await migration.stop()

    async def _start(self, *children: Child) -> None:
        for child in children:
            await child.start()
            self._save()
        for child in children:
            await child.wait_ready(_START_SECONDS)

    async def _ending(self, child: Child) -> str:
        return f"{child.program.name} was {await child.wait()}"

    async def _keep(self, host: Child) -> str:
        pause_seconds = 0.0
        while True:
            pid, ending = host.pid, await host.wait()
            await asyncio.sleep(pause_seconds)
            await host.start()
            self._save()
            self._say(f"{host.program.name} ({pid}) was {ending}; started again as {host.pid}.")
            try:
                await host.wait_ready(_START_SECONDS)
                pause_seconds = 0.0
            except ProgramFailed as failure:
                self._say(str(failure))
                pause_seconds = min(max(0.25, 2 * pause_seconds), _RESTART_SECONDS_MAX)

    def _save(self) -> None:
        write_cluster_file(self._options.state_directory, self.state())

    def _child(self, program: Program) -> Child:
        return Child(program, self._log_directory)

    def _bank_program(self, port: int) -> Program:
        command = [sys.executable, "-m", "deploy.bank", "--port", str(port)]
        if self._options.database_url:
            command += ["--database-url", self._options.database_url]
        return Program(name="bank", command=command, port=port, ready_path="/healthz")

    def _host_program(self, number: int, port: int) -> Program:
        name = f"host-{number}"
        drain_seconds = math.ceil(self._options.drain_seconds) + 1
        environment = {
            "AGUI_ENVIRONMENT": "development",
            # The balancer of this cluster passes the client's scope header on: see deploy/Caddyfile.
            "AGUI_SCOPE": "header",
            "AGUI_TRUSTED_PROXIES": "127.0.0.0/8",
            "AGUI_REPLICA_NAME": name,
            **({"AGUI_DATABASE_URL": self._options.database_url} if self._options.database_url else {}),
            "AGUI_BANK_URL": self._bank.program.url,
            "AGUI_LEASE_SECONDS": str(self._options.lease_seconds),
            "AGUI_RECONCILE_SECONDS": os.environ.get("AGUI_RECONCILE_SECONDS", "1"),
            "AGUI_DRAIN_SECONDS": str(self._options.drain_seconds),
        }
        command = (
            *(sys.executable, "-m", "uvicorn", "--factory", self._options.app),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--timeout-keep-alive", str(_KEEPALIVE_SECONDS)),
            *("--timeout-graceful-shutdown", str(drain_seconds)),
            # The balancer asks every host for its readiness each second: the log would hold little else.
            "--no-access-log",
            # The scope is taken from the peer's address: uvicorn must not put the client's in its place.
            "--no-proxy-headers",
        )
        return Program(
            name=name,
            command=command,
            environment=environment,
            port=port,
            ready_path="/readyz",
            stop_seconds=drain_seconds + 2.0,
        )


def _entry(child: Child) -> ProcessEntry | None:
    if not child.pid:
        return None
    return ProcessEntry(name=child.program.name, pid=child.pid, created=child.created, port=child.program.port)
