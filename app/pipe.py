"""Carries a run's events to its reader, who may leave at any time without the run noticing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ag_ui.core import BaseEvent


class Pipe:
    """A bounded queue of events that never makes the run wait.

    A reader that falls `events_max` events behind is cut off: the stream it reads ends with the event `if_cut_off`, and
    the client finds the truth by sending the same again or by hydration.
    """

    def __init__(self, events_max: int, *, if_cut_off: BaseEvent | None = None) -> None:
        self._queue: asyncio.Queue[BaseEvent | None] = asyncio.Queue()
        self._events_max = events_max
        self._if_cut_off = if_cut_off
        self._is_closed = False

    def put(self, event: BaseEvent) -> None:
        """Hand on one event; dropped once the pipe is closed."""
        if self._is_closed:
            return
        if self._queue.qsize() >= self._events_max:
            if self._if_cut_off is not None:
                self._queue.put_nowait(self._if_cut_off)
            self.close()
            return
        self._queue.put_nowait(event)

    def close(self) -> None:
        """End the stream after what is already in it."""
        if not self._is_closed:
            self._is_closed = True
            self._queue.put_nowait(None)

    def leave(self) -> None:
        """Give up reading: what is kept for the reader goes at once, and nothing more is taken."""
        self.close()
        while not self._queue.empty():
            self._queue.get_nowait()

    async def events(self) -> AsyncIterator[BaseEvent]:
        """Yield events until the run closes the pipe."""
        while (event := await self._queue.get()) is not None:
            yield event
