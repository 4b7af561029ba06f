"""Run one program as a process of its own: start it, wait until it is ready, stop it, and never leave it behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

_ROOT = Path(__file__).parents[1]
_TETHER = Path(__file__).with_name("tether.py")
_POLL_SECONDS = 0.05


class ProgramFailed(Exception):
    """A program ended, or was not ready in time, when it was needed."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run, and how to see over HTTP that it is ready: `ready_path` on a local `port`, if it serves at all.

    `environment` is added to the launcher's own. `stop_seconds` is how long it may take to end when asked.
    """

    name: str
    command: Sequence[str]
    port: int = 0
    ready_path: str = "/"
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_seconds: float = 5.0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"


def tethered(command: Sequence[str]) -> list[str]:
    """Return a command that dies with this process. Start it from the main thread, as a direct child."""
    return [sys.executable, "-I", "-S", str(_TETHER), str(os.getpid()), *command]


class Child:
    """One program in one process after another; its output goes to one log file, new for each Child."""

    def __init__(self, program: Program, log_directory: Path) -> None:
        self.program = program
        self.log = log_directory / f"{program.name}.log"
        self.log.unlink(missing_ok=True)
        self.created = 0.0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """The process id, of the last process if it ended, 0 before the first."""
        return self._process.pid if self._process else 0

    @property
    def is_running(self) -> bool:
        """Whether its process has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start a process; the one before it must have ended."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *tethered(self.program.command),
                env={**os.environ, **self.program.environment},
                cwd=_ROOT,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                # Ctrl-C in a terminal is for the launcher only: it stops the others in order.
                start_new_session=True,
            )
        self.created = _created(self.pid)

    async def wait(self) -> str:
        """Wait until the process ends and tell how it did."""
        return _ending(await self._process.wait()) if self._process else "never started"

    async def wait_ready(self, seconds: float) -> None:
        """Wait until it answers; raises ProgramFailed if it ends before, or does not in time."""
        try:
            async with (
                asyncio.timeout(seconds),
                httpx.AsyncClient(base_url=self.program.url, trust_env=False) as client,
            ):
                while self.is_running:
                    if await _is_ready(client, self.program.ready_path):
                        return
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise ProgramFailed(f"{self.program.name} is not ready after {seconds:g} s.{self._log_end()}") from None
        raise ProgramFailed(f"{self.program.name} was {await self.wait()} before it was ready.{self._log_end()}")

    async def wait_done(self, seconds: float) -> None:
        """Wait until the process ends well; raises ProgramFailed if it ends otherwise, or does not in time."""
        try:
            ending = await asyncio.wait_for(self.wait(), seconds)
        except TimeoutError:
            raise ProgramFailed(f"{self.program.name} is not done after {seconds:g} s.{self._log_end()}") from None
        if self._process and self._process.returncode:
            raise ProgramFailed(f"{self.program.name} was {ending}.{self._log_end()}")

    async def stop(self) -> None:
        """Ask the process to end, and end it if it does not in `stop_seconds`."""
        if self._process is None:
            return
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # a frozen process would not see the first
        try:
            await asyncio.wait_for(self._process.wait(), self.program.stop_seconds)
        except TimeoutError:
            self.kill()
            await self._process.wait()

    def kill(self) -> None:
        """End the process at once."""
        self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and all that it started, if it has not ended."""
        if self.is_running:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                return

    def _log_end(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-15:]
        return "\n".join(["", f"The end of {self.log}:", *(f"  {line}" for line in lines)])


async def _is_ready(client: httpx.AsyncClient, path: str) -> bool:
    try:
        return (await client.get(path)).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def _created(pid: int) -> float:
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return 0.0


def _ending(return_code: int) -> str:
    if return_code < 0:
        return f"killed by {signal.Signals(-return_code).name}"
    return f"ended by itself with exit code {return_code}"
