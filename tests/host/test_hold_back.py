"""Durable before visible: nothing that a client could answer leaves a host before the store has it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stores.ports import Change, Lost, NotReserved, Saved, Stores, ThreadStore
from stores.records import ThreadKey
from tests.host.bodies import Json, answers, approve, says
from tests.host.hosts import AGENT_PATH, PEER, SCOPE_HEADER, WAIT_SECONDS_MAX, Host, Hosts

FLUSH_TURNS = 200
"""Turns of the event loop after which all that was on its way out has gone out."""


@dataclass
class SlowFinish:
    """A thread store that waits before it commits what a run leaves: a decorator of the port."""

    inner: ThreadStore
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def save(self, key: ThreadKey, *, change: Change) -> Saved | Lost | NotReserved:
        if change.snapshot is not None:
            self.reached.set()
            await self.go.wait()
        return await self.inner.save(key, change=change)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


async def start_slow(hosts: Hosts) -> tuple[Host, SlowFinish]:
    made: list[SlowFinish] = []

    def decorate(stores: Stores) -> Stores:
        made.append(SlowFinish(stores.threads))
        return replace(stores, threads=made[0])

    host = await hosts.start(decorate=decorate)
    return host, made[0]


def overheard(app: ASGIApp, said: list[bytes]) -> ASGIApp:
    """Keep every part of a response at the moment the host sends it."""

    async def listening(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            said.append(message.get("body", b""))
            await send(message)

        await app(scope, receive, sending)

    return listening


async def is_silent_about_ids_until_they_are_stored(
    hosts: Hosts, body: Json, is_waited_for: Callable[[str], bool]
) -> None:
    host, slow = await start_slow(hosts)
    said: list[bytes] = []
    transport = httpx.ASGITransport(overheard(host.app, said), client=(PEER, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
        asking = asyncio.create_task(client.post(AGENT_PATH, json=body, headers={SCOPE_HEADER: "alice"}))
        await asyncio.wait_for(slow.reached.wait(), WAIT_SECONDS_MAX)
        for _ in range(FLUSH_TURNS):
            await asyncio.sleep(0)
        before = b"".join(said).decode()
        slow.go.set()
        after = (await asking).text
    ids = [each.interrupt_id for each in (await hosts.loaded("t")).record.occurrences]

    assert ids
    assert is_waited_for(before)
    assert "RUN_FINISHED" not in before
    assert after.startswith(before)
    for each in ids:
        assert each not in before
        assert each in after


async def test_a_card_is_not_shown_before_its_pause_is_committed(hosts: Hosts) -> None:
    body = says("t", "pay INV-1 and INV-2 to ACME")

    await is_silent_about_ids_until_they_are_stored(hosts, body, lambda said: "TOOL_CALL_START" in said)


async def test_a_card_asked_by_a_resume_is_not_shown_before_its_pause_is_committed(hosts: Hosts) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME then wire INV-2 to ACME"))
    body = answers("t", approve(*asked.ids))

    await is_silent_about_ids_until_they_are_stored(hosts, body, lambda said: "TOOL_CALL_RESULT" in said)


async def test_a_run_is_not_called_finished_before_it_is_committed(hosts: Hosts) -> None:
    host, slow = await start_slow(hosts)
    said: list[bytes] = []
    transport = httpx.ASGITransport(overheard(host.app, said), client=(PEER, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
        body = says("t", "look up INV-1")
        asking = asyncio.create_task(client.post(AGENT_PATH, json=body, headers={SCOPE_HEADER: "alice"}))
        await asyncio.wait_for(slow.reached.wait(), WAIT_SECONDS_MAX)
        for _ in range(FLUSH_TURNS):
            await asyncio.sleep(0)
        before = b"".join(said).decode()
        slow.go.set()
        after = (await asking).text

    assert "look_up_invoice INV-1" in before
    assert "RUN_FINISHED" not in before
    assert "RUN_FINISHED" in after
