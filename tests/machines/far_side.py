"""The bank, which hosts reach through a socket and the test itself without one: it asks before everything it sends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from deploy.bank import create_bank
from tests.host.answers import Json
from tests.host.serving import serving


@dataclass(frozen=True, slots=True)
class FarSide:
    """Where hosts find the bank, and what it says of itself."""

    url: str
    client: httpx.AsyncClient

    async def effects(self, prefix: str) -> Json:
        """Return what happened to invoices that start so."""
        answer = await self.client.get("/effects", params={"invoice_prefix": prefix})
        told: Json = answer.raise_for_status().json()
        return told

    async def break_model_once(self, outage: str) -> None:
        (await self.client.put(f"/outages/{outage}", json={"remaining": 1})).raise_for_status()


@asynccontextmanager
async def open_far_side() -> AsyncIterator[FarSide]:
    """Open a bank of one's own."""
    bank = create_bank()
    client = httpx.AsyncClient(transport=httpx.ASGITransport(bank), base_url="http://bank")
    async with client, serving(bank) as (host, port):
        yield FarSide(f"http://{host}:{port}", client)
