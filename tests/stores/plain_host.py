"""A plain upstream host: its own endpoint over a snapshot store of ours, with no runner of ours in it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any
from uuid import uuid4

import httpx
from agent_framework import Agent, tool
from agent_framework_ag_ui import AGUIThreadSnapshotStore, add_agent_framework_fastapi_endpoint
from fastapi import FastAPI, Header

from app.agents.scripted import ScriptedChatClient
from tests.host.answers import Answer, read_events
from tests.host.bodies import looks, says

SLOW_INVOICE = "INV-9"


@dataclass(slots=True)
class PlainHost:
    """One process' worth of a host. A look at SLOW_INVOICE waits in the tool until `go` is set."""

    snapshots: AGUIThreadSnapshotStore
    in_tool: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def says(self, words: str, *, thread: str = "thread-1", scope: str = "tenant-1") -> Answer:
        """Send a user's message and read the whole stream."""
        return await self._send(says(thread, words), scope)

    async def shows(self, *, thread: str = "thread-1", scope: str = "tenant-1") -> Answer:
        """Show the thread as a reloaded page does."""
        return await self._send(looks(thread), scope)

    async def _send(self, body: dict[str, Any], scope: str) -> Answer:
        transport = httpx.ASGITransport(self._app())
        async with httpx.AsyncClient(transport=transport, base_url="http://host", timeout=30.0) as client:
            response = await client.post("/", json={**body, "runId": uuid4().hex}, headers={"x-scope": scope})
        response.raise_for_status()
        return Answer(tuple(read_events(response.text)))

    def _app(self) -> FastAPI:
        async def look_up_invoice(invoice: str) -> str:
            if invoice == SLOW_INVOICE:
                self.in_tool.set()
                await self.go.wait()
            return f"{invoice} is open."

        def scope_of(x_scope: Annotated[str, Header()]) -> str:
            return x_scope

        app = FastAPI()
        agent = Agent(ScriptedChatClient(), name="lookup", tools=[tool(look_up_invoice, approval_mode="never_require")])
        add_agent_framework_fastapi_endpoint(
            app, agent, "/", snapshot_store=self.snapshots, authorization_scope_resolver=scope_of
        )
        return app


def said(answer: Answer) -> list[str]:
    """Return what users said in a shown thread, in order."""
    return [str(message["content"]) for message in answer.messages if message["role"] == "user"]
