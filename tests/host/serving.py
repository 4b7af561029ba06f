"""A real socket in front of an application of this process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI


@asynccontextmanager
async def serving(app: FastAPI, *, send_buffer_bytes: int | None = None) -> AsyncIterator[tuple[str, int]]:
    """Serve `app` and give its address; in the end it does not wait for answers that nobody waits for any more.

    The lifespan is the caller's. The socket listens before the server runs, so no one has to wait for it.
    `send_buffer_bytes` is what the machine keeps of an answer that its client does not read; None: as much as it likes.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        if send_buffer_bytes is not None:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=0)
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield listening.getsockname()
        finally:
            server.should_exit = True
            await running
