"""A real socket in front of an application of this process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncIterator[tuple[str, int]]:
    """Serve `app` and give its address; in the end it does not wait for answers that nobody waits for any more.

    The lifespan is the caller's. The socket listens before the server runs, so no one has to wait for it.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=0)
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield listening.getsockname()
        finally:
            server.should_exit = True
            await running
