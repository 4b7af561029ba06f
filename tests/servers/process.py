"""A server program as a process of our own: it ends with its starter, whatever ends that."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from deploy.free_ports import find_free_ports

START_SECONDS_MAX = 60.0
"""A start takes 0.1 s (Valkey) to 2 s (PostgreSQL with initdb); on a machine busy with compiling, ten times that."""
POLL_SECONDS = 0.02
PORT_TRIES_MAX = 5

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


class Server(Protocol):
    """What can be started on a port."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


AnyServer = TypeVar("AnyServer", bound=Server)


@dataclass(slots=True)
class Process:
    """One program below `folder`; `popen` are more arguments for subprocess, such as the user it runs as."""

    name: str
    command: Sequence[str]
    folder: Path
    popen: Mapping[str, Any] = field(default_factory=dict)
    _shell: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def log(self) -> Path:
        """What the program printed, over all its lives."""
        return self.folder / "log"

    @property
    def shell_pid(self) -> int:
        """The process id of the shell above the program. Raises RuntimeError if it was not started."""
        if self._shell is None:
            raise RuntimeError(f"{self.name} is not running.")
        return self._shell.pid

    def start(self, is_ready: Callable[[], bool]) -> None:
        """Start, and wait until it is ready. Raises RuntimeError with the log's end if it can not be."""
        with self.log.open("ab") as log:
            self._shell = shell = subprocess.Popen(
                ["sh", "-c", STOP_WITH_STARTER, "sh", *self.command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                # A Ctrl-C in the terminal is for the tests; they still need the server while they tidy up.
                start_new_session=True,
                **self.popen,
            )

        def is_up() -> bool:
            if shell.poll() is not None:
                raise RuntimeError(f"{self.name} did not start:\n{self.log.read_text()[-2000:]}")
            return is_ready()

        wait_until(is_up, f"{self.name} did not get ready")

    def stop(self) -> None:
        """Stop in order; does nothing if it is stopped. Raises TimeoutExpired, and ends it, if it does not obey."""
        shell, self._shell = self._shell, None
        if shell is None or shell.stdin is None:
            return
        shell.stdin.close()
        try:
            shell.wait(START_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            raise


def started(make: Callable[[int], AnyServer]) -> AnyServer:
    """Start on a port that is free; between choosing it and taking it another process may have been faster."""
    for tries_left in reversed(range(PORT_TRIES_MAX)):
        server = make(free_port())
        try:
            server.start()
        except RuntimeError as error:
            server.stop()
            if not tries_left or "Address already in use" not in str(error):
                raise
        else:
            return server
    raise AssertionError("the last try returns or raises")


def free_port() -> int:
    """Return a port that nobody listens on now, and that no outgoing connection takes while a server is away."""
    return find_free_ports(1)[0]


def wait_until(is_true: Callable[[], bool], otherwise: str) -> None:
    """Wait for a condition. Raises RuntimeError that says what is `otherwise`."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while not is_true():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{otherwise} within {START_SECONDS_MAX:.0f} s.")
        time.sleep(POLL_SECONDS)
