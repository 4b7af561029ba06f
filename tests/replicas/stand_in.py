"""A host without agents: what the tests of the local cluster send requests to."""

from __future__ import annotations

import os
import signal

import httpx
from fastapi import FastAPI


def create_stand_in() -> FastAPI:
    """Build a host that says who it is, and that can send a wire to the bank and die before it answers."""
    bank_url, name = os.environ["AGUI_BANK_URL"], os.environ["AGUI_REPLICA_NAME"]
    stand_in = FastAPI()

    @stand_in.get("/readyz")
    async def readyz() -> dict[str, str]:
        return {"status": "ok"}

    @stand_in.post("/name")
    async def tell_name() -> dict[str, str]:
        return {"name": name}

    @stand_in.post("/wire-and-die/{invoice}")
    async def wire_and_die(invoice: str) -> None:
        async with httpx.AsyncClient(base_url=bank_url) as bank:
            await bank.post("/wires", json={"invoice": invoice, "payee": name})
        os.kill(os.getpid(), signal.SIGKILL)

    return stand_in


def create_never_ready() -> FastAPI:
    """Build a host that runs but is never ready."""
    return FastAPI()
