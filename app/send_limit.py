"""Drops a client that takes nothing, as pure ASGI: what it did not read would be kept for as long as it stays."""

from __future__ import annotations

import asyncio
import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger(__name__)


class _Stalled(Exception):
    pass


class SendLimit:
    """Wraps an app; a message, also a comment frame, that a client does not take within `seconds` ends its response.

    The run behind it goes on: its client sends the same again, or looks at the thread.
    """

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on until a send takes too long."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_stalled = False

        async def in_time(message: Message) -> None:
            nonlocal is_stalled
            if is_stalled:
                raise _Stalled
            try:
                async with asyncio.timeout(self._seconds):
                    await send(message)
            except TimeoutError:
                is_stalled = True
                _log.warning("A client that took nothing for %g s was dropped", self._seconds)
                raise _Stalled from None

        try:
            await self._app(scope, receive, in_time)
        except Exception:
            if not is_stalled:
                raise
