"""A run outlives its client, and a draining host takes no new ones; both over a real socket."""

from __future__ import annotations

import asyncio
import json

from tests.host.bank import Bank
from tests.host.bodies import Json, answers, approve, says
from tests.host.hosts import AGENT_PATH, SCOPE_HEADER, WAIT_SECONDS_MAX, Host, Hosts
from tests.host.serving import serving


async def send_and_leave(host: Host, body: Json, *, after: bytes) -> None:
    """Post over a socket of our own, read until `after` has come, and cut the connection."""
    async with serving(host.app) as (address, port), asyncio.timeout(WAIT_SECONDS_MAX):
        reader, writer = await asyncio.open_connection(address, port)
        content = json.dumps(body).encode()
        head = (
            f"POST {AGENT_PATH} HTTP/1.1\r\nhost: host\r\n{SCOPE_HEADER}: alice\r\ncontent-type: application/json\r\n"
        )
        writer.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        read = b""
        while after not in read:
            chunk = await reader.read(65_536)
            assert chunk, read
            read += chunk
        writer.transport.abort()


async def test_a_run_whose_client_left_finishes_and_every_host_shows_it(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    stop = hosts.b.steps.stop_at("before-effect")

    await send_and_leave(hosts.b, body, after=b"RUN_STARTED")
    await stop.wait()
    stop.go.set()
    await hosts.until(lambda: hosts.is_closed("t"))

    shown = await hosts.c.show("t")
    assert "wire_transfer INV-1: Wired INV-1 to ACME, receipt wire-1." in shown.messages[-1]["content"]
    assert (await hosts.c.send(body)).is_replay
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_client_that_left_before_the_pause_finds_its_card(hosts: Hosts) -> None:
    stop = hosts.a.steps.stop_at("before-finish")

    await send_and_leave(hosts.a, says("t", "pay INV-1 to ACME"), after=b"TOOL_CALL_START")
    await stop.wait()
    assert (await hosts.b.show("t")).ids == []
    stop.go.set()
    await hosts.until(lambda: is_paused(hosts))

    shown = await hosts.b.show("t")
    assert (len(shown.ids), shown.states) == (1, ["pending"])
    assert (await hosts.c.send(answers("t", approve(*shown.ids)))).code is None


async def is_paused(hosts: Hosts) -> bool:
    record = (await hosts.loaded("t")).record
    return bool(record.occurrences) and record.claim is None


async def test_a_reader_that_is_too_slow_is_told_so_and_the_run_goes_on(hosts: Hosts) -> None:
    host = await hosts.start(stream_events_max=2)

    # At the latest what is held back until the pause is committed is too much: it goes out at once.
    cut_off = await host.send(says("t", "pay INV-1 to ACME"))

    assert (cut_off.code, cut_off.metadata["definite"]) == ("LIMIT_EXCEEDED", False)
    await hosts.until(lambda: is_paused(hosts))
    assert len((await hosts.b.show("t")).ids) == 1
