"""A host without agents: what the tests of the local cluster send requests to."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import httpx
from fastapi import FastAPI
from fastapi.responses import StreamingResponse


def create_stand_in() -> FastAPI:
    """Build a host that says who it is, streams until it is told to end, or sends a wire to the bank and then dies."""
    bank_url, name = os.environ["AGUI_BANK_URL"], os.environ["AGUI_REPLICA_NAME"]
    may_end = asyncio.Event()
    stand_in = FastAPI()

    @stand_in.get("/readyz")
    async def readyz() -> dict[str, str]:
        return {"status": "ok"}

    @stand_in.post("/name")
    async def tell_name() -> dict[str, str]:
        return {"name": name}

    @stand_in.post("/stream")
    async def stream() -> StreamingResponse:
        async def events() -> AsyncIterator[str]:
            yield f"data: {name}\n\n"
            await may_end.wait()
            yield "data: the end\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    @stand_in.post("/end-streams")
    async def end_streams() -> None:
        may_end.set()

    @stand_in.post("/wire-and-die/{invoice}")
    async def wire_and_die(invoice: str) -> None:
        async with httpx.AsyncClient(base_url=bank_url) as bank:
            await bank.post("/wires", json={"invoice": invoice, "payee": name})
        os.kill(os.getpid(), signal.SIGKILL)

    return stand_in


def create_never_ready() -> FastAPI:
    """Build a host that runs but is never ready."""
    return FastAPI()
