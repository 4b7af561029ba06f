"""A host that shall end takes nothing new, ends what it has begun, and is taken for alive until then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from app.main import create_app
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, says
from tests.host.hosts import PEER, Host, Hosts, Steps


@asynccontextmanager
async def host_to_end(hosts: Hosts) -> AsyncIterator[tuple[Host, asyncio.Event, asyncio.Task[None]]]:
    """Start a host that is told by an event to end; the task is its whole life."""
    stores, steps, started, told = hosts.b.stores, Steps(), asyncio.Event(), asyncio.Event()
    app = create_app(hosts.settings(), stores=stores, on_step=steps)

    async def live() -> None:
        async with app.router.lifespan_context(app):
            started.set()
            await told.wait()

    life = asyncio.create_task(live())
    transport = httpx.ASGITransport(app, client=(PEER, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
        await started.wait()
        try:
            yield Host(app, client, stores, steps), told, life
        finally:
            told.set()
            steps.let_go()
            await life


async def is_draining(host: Host) -> bool:
    probe = await host.client.get("/readyz")
    return (probe.status_code, probe.json()["status"]) == (503, "draining")


async def test_a_host_that_ends_carries_out_what_it_has_begun_and_nothing_else(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    before = len(await hosts.b.stores.replicas.seen())

    async with host_to_end(hosts) as (ending, told, life):
        await hosts.until(lambda: has(hosts, before + 1))
        stop = ending.steps.stop_at("after-effect")
        answering = asyncio.create_task(ending.send(body))
        await stop.wait()
        told.set()
        await hosts.until(lambda: is_draining(ending))
        stored = await hosts.dump_threads()

        # Nothing new here, hydration included: whoever asks is sent to another.
        for each in (says("u", "hello"), body, says("t", "hello")):
            refused = await ending.post(each)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert "shutting down" in refused.json()["detail"]
        # What it has begun is nobody else's, and it is alive.
        assert (await hosts.b.send(body)).code == "APPROVAL_RESUME_IN_PROGRESS"
        assert (await hosts.c.send(says("t", "hello"))).code == "THREAD_BUSY"
        assert (await ending.client.get("/livez")).status_code == 200
        assert await hosts.dump_threads() == stored
        assert await has(hosts, before + 1)
        assert not life.done()

        stop.go.set()
        assert (await answering).code is None
        await life

    # Its row goes last, once nothing runs there.
    assert await has(hosts, before)
    assert (await hosts.c.send(body)).is_replay
    assert await bank.paid() == [("INV-1", "ACME")]


async def has(hosts: Hosts, replicas: int) -> bool:
    return len(await hosts.b.stores.replicas.seen()) == replicas
