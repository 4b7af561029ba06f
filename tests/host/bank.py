"""The far side as a test sees it: what really happened, and the switches for what goes wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from deploy.bank import create_bank
from tests.host.serving import serving


class Bank:
    """The demo's bank behind a real socket. Refunds are no business of it: they are rows in the hosts' database.

    `model_calls` counts, by the outage that the words of a turn name, how often the model was called after a tool.
    """

    def __init__(self, url: str, client: httpx.AsyncClient, model_calls: Counter[str]) -> None:
        self.url = url
        self.model_calls = model_calls
        self._client = client

    async def payments(self) -> list[dict[str, Any]]:
        """Return what was paid."""
        return list((await self._effects())["payments"])

    async def wires(self) -> list[dict[str, str]]:
        """Return what was wired."""
        return list((await self._effects())["wires"])

    async def paid(self) -> list[tuple[str, str]]:
        """Return invoice and payee of everything paid and then wired."""
        return [(each["invoice"], each["payee"]) for each in await self.payments() + await self.wires()]

    async def calls(self) -> int:
        """Return how many calls were received to pay or to wire; a repeat pays nothing more, but it is a call."""
        return int((await self._effects())["calls"])

    async def delay(self, invoice: str, seconds: float) -> None:
        """Answer calls for an invoice so much later than they take effect."""
        await self._put(f"/delays/{invoice}", {"seconds": seconds})

    async def break_model(self, outage: str, times: int) -> None:
        """Let the model fail this often when the words of a turn name the outage."""
        await self._put(f"/outages/{outage}", {"remaining": times})

    async def model_failures_left(self, outage: str) -> int:
        """Return how often the model would still fail; none of them is left afterwards."""
        count = 0
        while (await self._client.post(f"/outages/{outage}/take")).raise_for_status().json()["down"]:
            count += 1
        return count

    async def _effects(self) -> dict[str, Any]:
        effects: dict[str, Any] = (await self._client.get("/effects")).raise_for_status().json()
        return effects

    async def _put(self, path: str, body: dict[str, Any]) -> None:
        (await self._client.put(path, json=body)).raise_for_status()


@asynccontextmanager
async def open_bank() -> AsyncIterator[Bank]:
    """Open a new bank."""
    bank, model_calls = create_bank(), Counter[str]()
    bank.add_middleware(_CountModelCalls, counts=model_calls)
    async with serving(bank) as (host, port):
        url = f"http://{host}:{port}"
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            yield Bank(url, client, model_calls)


class _CountModelCalls:
    """The scripted model asks whether its outage is on, each time that it is called after a tool."""

    def __init__(self, app: ASGIApp, counts: Counter[str]) -> None:
        self._app = app
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _, *names = str(scope["path"]).split("/")
        if len(names) == 3 and (names[0], names[2]) == ("outages", "take"):
            self._counts[names[1]] += 1
        await self._app(scope, receive, send)
