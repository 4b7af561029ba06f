"""Streams over real sockets: kept open while nothing happens, cut where nobody reads, the same under any middleware."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import httpx
import pytest
from fastapi import FastAPI
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response

from app.main import create_app
from tests.host.bank import Bank
from tests.host.bodies import Json, answers, approve, looks, says
from tests.host.hosts import AGENT_PATH, SCOPE_HEADER, WAIT_SECONDS_MAX, Host, Hosts
from tests.host.serving import serving
from tests.host.worlds import World, memory_world

HEADERS = {SCOPE_HEADER: "alice"}


@pytest.fixture
def _fresh_world() -> AbstractAsyncContextManager[World]:
    """Nothing here depends on a store."""
    return memory_world()


async def test_comments_keep_a_silent_stream_open_until_its_end(hosts: Hosts) -> None:
    host = await hosts.start(keepalive_seconds=0.05)
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    before, inside = host.steps.stop_at("before-claim"), host.steps.stop_at("before-effect")
    seen: list[str] = []

    async def comment(lines: AsyncIterator[str]) -> None:
        async for line in lines:
            seen.append(line)
            if line.startswith(":"):
                return

    async with serving(host.app) as (address, port), httpx.AsyncClient(base_url=f"http://{address}:{port}") as client:
        body = answers("t", approve(*asked.ids))
        stream = client.stream("POST", AGENT_PATH, json=body, headers=HEADERS)
        async with asyncio.timeout(WAIT_SECONDS_MAX), stream as response:
            lines = response.aiter_lines()
            for stop in (before, inside):
                await stop.wait()
                await comment(lines)
                await comment(lines)
                stop.go.set()
            seen += [line async for line in lines]

    events = [json.loads(line.removeprefix("data: ")) for line in seen if line.startswith("data: ")]
    assert [event["type"] for event in (events[0], events[-1])] == ["RUN_STARTED", "RUN_FINISHED"]
    # A comment is no event, and nothing follows the terminal one.
    assert all(line == "" or line.startswith(("data: ", ":")) for line in seen)
    assert [line for line in seen if line][-1].startswith("data: ")


async def test_a_client_that_never_reads_is_dropped_and_may_come_again(
    hosts: Hosts, caplog: pytest.LogCaptureFixture
) -> None:
    host = await hosts.start(send_seconds=0.2)
    await hosts.a.send(says("t", "hello " + "x" * 900_000))

    async with serving(host.app, send_buffer_bytes=4_096) as (address, port):
        with socket.socket() as idle, caplog.at_level(logging.WARNING, logger="app.send_limit"):
            idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            idle.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(idle, (address, port))
            await loop.sock_sendall(idle, request(looks("t")))
            await hosts.until(lambda: is_dropped(caplog))

            # Others were not slowed, and the same look is answered to one that reads.
            assert (await host.show("t")).code is None
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                read = b""
                while chunk := await loop.sock_recv(idle, 65_536):
                    read += chunk
    assert b"RUN_STARTED" in read
    assert b"RUN_FINISHED" not in read


async def is_dropped(caplog: pytest.LogCaptureFixture) -> bool:
    return any("took nothing" in record.getMessage() for record in caplog.records)


def request(body: Json) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {AGENT_PATH} HTTP/1.1\r\nhost: host\r\n{SCOPE_HEADER}: alice\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content


def test_all_middleware_of_the_host_is_pure_asgi(hosts: Hosts) -> None:
    app = create_app(hosts.settings())

    assert app.user_middleware
    assert not [each for each in app.user_middleware if issubclass(each.cls, BaseHTTPMiddleware)]  # type: ignore[arg-type]  # they are classes here


class PassThrough(BaseHTTPMiddleware):
    """What many hosts have: it wraps the response in a task group of its own."""

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        return await call_next(request)


def bare(app: FastAPI) -> None:
    """Leave a host as it is."""


def wrapped(app: FastAPI) -> None:
    app.add_middleware(PassThrough)


@pytest.mark.parametrize("middleware", [bare, wrapped])
@pytest.mark.parametrize("left_at", ["before-claim", "after-effect", "after-answer"])
async def test_a_run_ends_alike_whenever_its_client_leaves_and_whatever_wraps_the_host(
    hosts: Hosts, bank: Bank, middleware: Callable[[FastAPI], None], left_at: str
) -> None:
    host = await hosts.start(runs_max=1)
    middleware(host.app)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    stop = host.steps.stop_at(left_at)

    async with serving(host.app) as (address, port):
        _reader, writer = await asyncio.open_connection(address, port)
        writer.write(request(body))
        await stop.wait()
        writer.transport.abort()
        stop.go.set()
        await hosts.until(lambda: hosts.is_closed("t"))

    assert (await hosts.b.send(body)).is_replay
    assert await bank.paid() == [("INV-1", "ACME")]
    await hosts.until(lambda: is_taken(host))


async def is_taken(host: Host) -> bool:
    """Whether there is a place again for a run."""
    return (await host.post(says("u", "hello"))).status_code == 200
