"""What a process keeps does not grow with the requests that it has served."""

from __future__ import annotations

import gc

from opentelemetry.metrics import Histogram, Meter

from tests.host.bodies import answers, approve, says
from tests.host.hosts import Hosts


async def test_requests_leave_no_instruments_behind(hosts: Hosts) -> None:
    """Found by a soak: an agent is built for each request, with a meter that OpenTelemetry kept for good."""
    await ask_and_approve(hosts, "t0")
    before = instruments()

    for number in range(1, 6):
        await ask_and_approve(hosts, f"t{number}")

    assert instruments() == before


async def ask_and_approve(hosts: Hosts, thread: str) -> None:
    asked = await hosts.a.send(says(thread, f"pay INV-{thread} to ACME and wire INV-{thread} to ACME"))
    answered = await hosts.b.send(answers(thread, *map(approve, asked.ids)))
    assert len(answered.results) == 2


def instruments() -> int:
    gc.collect()
    return sum(isinstance(each, Meter | Histogram) for each in gc.get_objects())
