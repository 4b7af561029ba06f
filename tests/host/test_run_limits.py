"""A replica works on so many runs at once; who is over that is told to come again, before anything is done."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx
import pytest
from starlette.types import Message

from tests.host.bank import Bank
from tests.host.bodies import Json, answers, approve, looks, says
from tests.host.hosts import AGENT_PATH, PEER, SCOPE_HEADER, Host, Hosts
from tests.host.serving import serving
from tests.host.worlds import World, memory_world


@pytest.fixture
def _fresh_world() -> AbstractAsyncContextManager[World]:
    """Places are a replica's own: nothing here depends on a store."""
    return memory_world()


@asynccontextmanager
async def working(host: Host, runs: int, *, scope: str = "alice") -> AsyncIterator[None]:
    """Let this many runs begin on a host and go no further until the end."""
    stops = [host.steps.stop_at("before-finish") for _ in range(runs)]
    threads = [f"working-{scope}-{number}" for number in range(runs)]
    async with asyncio.TaskGroup() as group:
        sent = [group.create_task(host.send(says(each, "look up INV-1"), scope=scope)) for each in threads]
        for stop in stops:
            await stop.wait()
        yield
        for stop in stops:
            stop.go.set()
    assert [each.result().code for each in sent] == [None] * runs


def assert_refused(response: httpx.Response, status: int, setting: str) -> None:
    assert (response.status_code, response.headers["retry-after"]) == (status, "1")
    assert setting in response.json()["detail"]


async def test_a_full_replica_refuses_what_begins_before_anything_is_written(hosts: Hosts) -> None:
    host = await hosts.start(runs_max=2)

    async with working(host, 1), working(host, 1, scope="bob"):
        before = await hosts.dump()
        assert_refused(await host.post(says("t", "look up INV-1")), 503, "AGUI_RUNS_MAX")
        assert await hosts.dump() == before
        assert (await hosts.b.send(says("t", "look up INV-1"))).code is None

    assert (await host.send(says("t", "look up INV-2"))).code is None


async def test_a_scope_with_all_its_runs_is_refused_and_others_are_served(hosts: Hosts) -> None:
    host = await hosts.start(runs_max=5, runs_per_scope_max=2)

    async with working(host, 2):
        before = await hosts.dump()
        assert_refused(await host.post(says("t", "look up INV-1")), 429, "AGUI_RUNS_PER_SCOPE_MAX")
        assert await hosts.dump() == before
        assert (await host.send(says("t", "look up INV-1"), scope="bob")).code is None

    assert (await host.send(says("t", "look up INV-1"))).code is None


@pytest.mark.parametrize(
    ("limits", "status"), [({"runs_max": 4}, 503), ({"runs_per_scope_max": 4}, 429)], ids=["replica", "scope"]
)
async def test_places_are_kept_for_those_who_answer(hosts: Hosts, bank: Bank, limits: Json, status: int) -> None:
    host = await hosts.start(**limits, runs_resume_share=0.25)
    asked = [await hosts.a.send(says(f"t-{n}", f"wire INV-{n} to ACME")) for n in range(2)]

    async with working(host, 3):
        assert (await host.post(says("t", "look up INV-1"))).status_code == status
        stop = host.steps.stop_at("before-finish")
        answering = asyncio.create_task(host.send(answers("t-0", approve(*asked[0].ids))))
        await stop.wait()
        # That was the last place there is; what it was kept for is served by another replica.
        second = answers("t-1", approve(*asked[1].ids))
        assert (await host.post(second)).status_code == status
        assert (await hosts.b.send(second)).code is None
        stop.go.set()
        assert (await answering).code is None

    assert sorted(await bank.paid()) == [("INV-0", "ACME"), ("INV-1", "ACME")]


async def test_a_full_replica_shows_threads_and_stays_on_the_balancers_list(hosts: Hosts) -> None:
    host = await hosts.start(runs_max=1, runs_per_scope_max=1)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))

    async with working(host, 1):
        assert (await host.show("t")).ids == asked.ids
        assert (await host.client.get("/readyz")).status_code == 200
        assert (await host.client.get("/livez")).status_code == 200


async def test_who_is_nobody_is_not_told_that_a_replica_is_full(hosts: Hosts) -> None:
    host = await hosts.start(runs_max=1)

    async with working(host, 1):
        assert (await host.client.post(AGENT_PATH, json=says("t", "hello"))).status_code == 401


async def test_a_full_replica_beside_an_empty_one_costs_starts_and_answers_one_more_try(
    hosts: Hosts, bank: Bank
) -> None:
    full = await hosts.start(runs_max=4, runs_resume_share=0.25)
    replicas = (full, hosts.b)
    asked = {f"t-{n}": await hosts.a.send(says(f"t-{n}", f"pay INV-{n} to ACME")) for n in range(20)}
    bodies = [answers(thread, approve(*each.ids)) for thread, each in asked.items()]
    bodies += [says(f"new-{n}", "look up INV-1") for n in range(20)]

    async with working(full, 3):
        for place, body in enumerate(bodies):
            tried = [await replicas[(place + turn) % 2].post(body) for turn in range(2)]
            assert [each.status_code for each in tried] in ([200, 200], [200, 503], [503, 200])

    assert sorted(await bank.paid()) == sorted((f"INV-{n}", "ACME") for n in range(20))


async def test_a_run_keeps_its_place_when_its_client_has_left(hosts: Hosts) -> None:
    host = await hosts.start(runs_max=1)
    stop = host.steps.stop_at("before-finish")

    async with serving(host.app) as (address, port), httpx.AsyncClient(base_url=f"http://{address}:{port}") as client:
        headers = {SCOPE_HEADER: "alice"}
        async with client.stream("POST", AGENT_PATH, json=says("t", "look up INV-1"), headers=headers) as response:
            assert response.status_code == 200
            await stop.wait()

        assert_refused(await client.post(AGENT_PATH, json=says("u", "hello"), headers=headers), 503, "AGUI_RUNS_MAX")
        stop.go.set()
        await hosts.until(lambda: hosts.is_closed("t"))
        await hosts.until(lambda: is_taken(host, says("u", "hello")))


async def test_a_thread_is_taken_over_by_a_replica_whose_places_are_all_taken(hosts: Hosts, bank: Bank) -> None:
    full = await hosts.start(runs_max=1, runs_per_scope_max=1, reconcile_seconds=0.05)
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME (outage o)"))
    await bank.break_model("o", 1)
    assert (await hosts.a.send(answers("t", approve(*asked.ids)))).code == "RUN_FAILED"

    async with working(full, 1):
        await hosts.make_due("t")
        # Frozen like the other run, before its finish: the steps are the host's.
        await hosts.until(lambda: hosts.is_closed("t"))

    assert await bank.paid() == [("INV-1", "ACME")]


async def test_requests_that_come_to_nothing_leave_every_place_free_once(hosts: Hosts) -> None:
    host = await hosts.start(runs_max=4, runs_per_scope_max=4, body_bytes_max=2_000, runs_resume_share=0.0)
    await hosts.a.send(says("held", "wire INV-1 to ACME"))
    refused: list[bytes | Json] = [
        b"{",
        b"[]",
        b'{"messages": 5}',
        b'{"messages": [1]}',
        b'{"messages": [], "resume": 5}',
        {"threadId": "t", "messages": [{"role": "user", "content": "x" * 3_000}]},
        {"threadId": "t" * 300, "messages": [{"role": "user", "content": "hello"}]},
        {"threadId": "t", "messages": [{"role": "user", "content": "\0"}]},
        {"threadId": "t", "messages": [], "forwardedProps": {"resume": [{"interruptId": "x", "status": [1]}]}},
        says("held", "never mind"),
        answers("held", approve("unknown")),
        looks("held"),
    ]
    for number in range(12):
        for each in refused:
            await host.post(each)
        await host.client.post(AGENT_PATH, json=says("t", "hello"))  # of nobody
        for turn in range(4):
            await send_to_nobody(host, says(f"gone-{number}-{turn}", "look up INV-1"), turns=turn)

    async with working(host, 3):
        await hosts.until(lambda: is_taken(host, says("one-more", "look up INV-1")))
        async with working(host, 1, scope="bob"):
            assert_refused(await host.post(says("t", "look up INV-1"), scope="carol"), 503, "AGUI_RUNS_MAX")


async def is_taken(host: Host, body: Json) -> bool:
    return (await host.post(body)).status_code == 200


async def send_to_nobody(host: Host, body: Json, *, turns: int) -> None:
    """Send a request whose client is gone so many turns of the loop after its body was read."""
    content = json.dumps(body).encode()
    messages: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        for _ in range(turns):
            await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        """Take what nobody reads, as a server does whose peer is gone."""

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": AGENT_PATH,
        "raw_path": AGENT_PATH.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [(SCOPE_HEADER.encode(), b"alice"), (b"content-type", b"application/json")],
        "client": (PEER, 1),
        "server": ("host", 80),
    }
    await host.app(scope, receive, send)
