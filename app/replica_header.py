"""Tells in every response which replica served it, as pure ASGI so that streams pass untouched."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

REPLICA_HEADER = "x-agui-replica"


class ReplicaHeader:
    """Wraps an app; without a configured replica name it adds nothing."""

    def __init__(self, app: ASGIApp, name: str) -> None:
        self._app = app
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and add the header to the start of its response."""
        if scope["type"] != "http" or not self._name:
            await self._app(scope, receive, send)
            return

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REPLICA_HEADER] = self._name
            await send(message)

        await self._app(scope, receive, named)
