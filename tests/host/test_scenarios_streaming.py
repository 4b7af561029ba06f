"""Faults that others met in public with event streams, as they would show here; `tests/README.md` has the table."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.host.answers import Json
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, says
from tests.host.faulty import start_faulty
from tests.host.hosts import Hosts

OPENED_BY = {
    "TEXT_MESSAGE_END": ("TEXT_MESSAGE_START", "messageId"),
    "TOOL_CALL_END": ("TOOL_CALL_START", "toolCallId"),
}


def blocks_left_open(events: Sequence[Json]) -> set[tuple[str, str]]:
    """Return the messages and calls that a stream began and did not end; fails where it ends what it never began."""
    opened: set[tuple[str, str]] = set()
    for event in events:
        for end, (start, name) in OPENED_BY.items():
            if event["type"] == start:
                opened.add((start, event[name]))
            elif event["type"] == end:
                assert (start, event[name]) in opened, event
                opened.remove((start, event[name]))
    return opened


FAILURES = {
    "the store at the first read": ("threads", "before", "load", "STORE_UNAVAILABLE"),
    "the store at the claim": ("threads", "before", "claim", "STORE_UNAVAILABLE"),
    "the ledger at begin": ("effects", "before", "begin", "STORE_UNAVAILABLE"),
    "the store at the end": ("threads", "before", "save", "STORE_UNAVAILABLE"),
    "the reply of the last write": ("threads", "after", "save", "STORE_UNAVAILABLE"),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_a_stream_that_fails_has_one_end_and_nothing_left_open(hosts: Hosts, bank: Bank, case: str) -> None:
    """Case 85. That it has one start and one end, the end last, `send` asserts of every stream."""
    port, when, step, code = FAILURES[case]
    host, faults = await start_faulty(hosts)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME then look up INV-9"))
    getattr(getattr(faults, port), when)[step] = 1_000

    failed = await host.send(answers("t", approve(*asked.ids)))

    assert failed.code == code
    assert blocks_left_open(failed.events) == set()
    assert failed.events[-1]["type"] == "RUN_ERROR"


@pytest.mark.parametrize("case", ["model", "tool"])
async def test_a_stream_whose_model_or_tool_fails_has_one_end_and_nothing_left_open(
    hosts: Hosts, bank: Bank, case: str
) -> None:
    """Case 85."""
    hasty = await hosts.start(tool_seconds=0.2 if case == "tool" else 60.0)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME (outage o)"))
    await bank.break_model("o", times=1)
    await bank.delay("INV-1", 60 if case == "tool" else 0)

    failed = await hasty.send(answers("t", approve(*asked.ids)))

    assert failed.code == {"model": "RUN_FAILED", "tool": "APPROVAL_OUTCOME_INDETERMINATE"}[case]
    assert blocks_left_open(failed.events) == set()


async def test_a_stream_that_ends_well_leaves_nothing_open_either(hosts: Hosts) -> None:
    asked = await hosts.a.send(says("t", "look up INV-9 then wire INV-1 to ACME"))
    answered = await hosts.b.send(answers("t", approve(*asked.ids)))
    shown = await hosts.c.show("t")

    for whole in (asked, answered, shown, await hosts.c.send(answers("t", approve(*asked.ids)))):
        assert blocks_left_open(whole.events) == set()


async def test_a_reconnect_elsewhere_finds_the_run_under_way_and_then_its_end(hosts: Hosts, bank: Bank) -> None:
    """Case 86: there is no buffer of events to lose; a run is followed by asking again, anywhere."""
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    stop = hosts.a.steps.stop_at("after-effect")
    running = asyncio.create_task(hosts.a.send(body))
    await stop.wait()

    reconnected = await hosts.b.send(body)
    shown = await hosts.b.show("t")
    stop.go.set()
    first = await running
    reconnected_again = await hosts.b.send(body)

    assert (reconnected.code, "retryAfterSeconds" in reconnected.metadata) == ("APPROVAL_RESUME_IN_PROGRESS", True)
    assert (shown.states, shown.messages) == (["running"], asked.messages)
    assert (reconnected_again.is_replay, reconnected_again.text) == (True, first.text)
    assert (await hosts.c.show("t")).messages == first.messages
    assert await bank.paid() == [("INV-1", "ACME")]
