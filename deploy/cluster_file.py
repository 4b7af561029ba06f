"""`cluster.json`: what runs where, for whoever drives the local cluster; the launcher writes it at each change."""

from __future__ import annotations

from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict

FILE_NAME = "cluster.json"


class ProcessEntry(BaseModel):
    """One process of the cluster and the local port it listens on (0: none).

    `created`, in seconds since the epoch, tells it from a later process with the same id.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    pid: int
    created: float
    port: int = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def find(self) -> psutil.Process | None:
        """Return the process if it still runs."""
        try:
            process = psutil.Process(self.pid)
            is_same = process.create_time() == self.created and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return None
        return process if is_same else None


class ClusterState(BaseModel):
    """A running cluster. `is_ready` turns true once, when every part has answered; no `database_url`: it has none."""

    model_config = ConfigDict(frozen=True)

    is_ready: bool
    url: str
    bank_url: str
    database_url: str
    launcher: ProcessEntry
    bank: ProcessEntry | None
    balancer: ProcessEntry | None
    replicas: tuple[ProcessEntry, ...]

    def replica(self, name: str) -> ProcessEntry:
        """Return the replica with this name; raises KeyError if there is none."""
        for replica in self.replicas:
            if replica.name == name:
                return replica
        raise KeyError(name)

    def processes(self) -> list[psutil.Process]:
        """Return every process of the cluster that still runs, the launcher first."""
        entries = [self.launcher, *self.replicas, *(each for each in (self.balancer, self.bank) if each)]
        return [process for process in (entry.find() for entry in entries) if process]


def write_cluster_file(directory: Path, state: ClusterState) -> None:
    """Replace the file in one step: a reader sees the old state or the new one."""
    partial = directory / f"{FILE_NAME}.partial"
    partial.unlink(missing_ok=True)
    # The database URL may hold a password.
    partial.touch(mode=0o600)
    partial.write_text(state.model_dump_json(indent=2) + "\n")
    partial.replace(directory / FILE_NAME)


def read_cluster_file(directory: Path) -> ClusterState | None:
    """Return the state of the cluster of this directory, or None if none runs that was stopped in order."""
    try:
        return ClusterState.model_validate_json((directory / FILE_NAME).read_text())
    except FileNotFoundError:
        return None


def remove_cluster_file(directory: Path) -> None:
    """Say that no cluster runs here."""
    (directory / FILE_NAME).unlink(missing_ok=True)
