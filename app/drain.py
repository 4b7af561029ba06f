"""The tasks of this process that outlive a request: runs, tool calls, releases. Drained before exit."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_log = logging.getLogger(__name__)


class Drain:
    """Keeps tasks until they end. `tasks` may be added to directly; `is_draining` refuses new runs at the door."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[Any]] = set()
        self.is_draining = False
        self._cutting: asyncio.TimerHandle | None = None

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work` in a task of its own."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def begin(self, grace_seconds: float) -> None:
        """Turn new runs away from now on, and cancel what still runs after `grace_seconds`."""
        if not self.is_draining:
            self.is_draining = True
            self._cutting = asyncio.get_running_loop().call_later(grace_seconds, self._cut)

    async def close(self, grace_seconds: float) -> None:
        """Begin, unless that was done before, and wait for what runs; for its clean-up as long again."""
        self.begin(grace_seconds)
        await self._wait(2 * grace_seconds)
        if self._cutting is not None:
            self._cutting.cancel()
        if self.tasks:
            _log.error("%d tasks did not end within the grace period", len(self.tasks))

    def _cut(self) -> None:
        for task in self.tasks:
            task.cancel()

    async def _wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self.tasks and loop.time() < until:
            await asyncio.wait(self.tasks, timeout=until - loop.time(), return_when=asyncio.FIRST_COMPLETED)


@contextmanager
def on_stop_signal(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` in the event loop when SIGTERM or SIGINT comes, besides what the server does about it.

    uvicorn ends a host's lifespan only when its last stream has ended or was cut: too late to begin draining.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    servers = {number: handler for number, handler in handlers.items() if callable(handler)}

    def handle(number: int, frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(act)
        servers[signal.Signals(number)](number, frame)

    for number in servers:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, server in servers.items():
            signal.signal(number, server)
