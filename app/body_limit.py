"""Refuses request bodies over a limit with 413, as pure ASGI so that streams and disconnects pass untouched."""

from __future__ import annotations

from contextlib import suppress

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class _TooLarge(Exception):
    pass


class BodyLimit:
    """Wraps an app; counts what arrives, whatever Content-Length says."""

    def __init__(self, app: ASGIApp, bytes_max: int) -> None:
        self._app = app
        self._bytes_max = bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on until its body is too large."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        count = 0

        async def counted() -> Message:
            nonlocal count
            message = await receive()
            count += len(message.get("body", b""))
            if count > self._bytes_max:
                raise _TooLarge
            return message

        async def unless_too_large(message: Message) -> None:
            # FastAPI answers 400 to whatever goes wrong while it reads a body, this too; ours is the answer.
            if count <= self._bytes_max:
                await send(message)

        with suppress(_TooLarge):
            await self._app(scope, counted, unless_too_large)
        if count > self._bytes_max:
            detail = f"The request body is larger than {self._bytes_max} bytes (AGUI_BODY_BYTES_MAX)."
            await JSONResponse({"detail": detail}, status_code=413)(scope, receive, send)
