"""The demo's bank behind a real socket, in the test's own process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from deploy.bank import create_bank


@asynccontextmanager
async def running_bank() -> AsyncIterator[str]:
    """Serve a new bank and give its URL. The socket listens before the server runs, so no one has to wait for it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(create_bank(), log_level="warning", lifespan="off"))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving
