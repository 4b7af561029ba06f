"""The anchors that the review of microsoft/agent-framework#7082 asks of any durable approval store, by name.

And two of our own: two continuations at once, and a forked thread, pay once.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.conformance.back_doors.port import Part
from tests.host.answers import Answer
from tests.host.back_doors import back_door_to
from tests.host.bank import Bank
from tests.host.bodies import ROADS, Json, answers, approve, cancel, says
from tests.host.hosts import Hosts, key_of
from tests.host.strict import exchanges

RACES = 10
LEASE_SECONDS = 0.3
"""An observer's lease: the other hosts said once that they live, and are dead to it when this has passed."""
IN_PROGRESS = "APPROVAL_RESUME_IN_PROGRESS"
NOT_FOUND = "APPROVAL_RESUME_NOT_FOUND"
STALE = "APPROVAL_RESUME_STALE"
DOUBT = "APPROVAL_OUTCOME_INDETERMINATE"


async def carried_out_once(hosts: Hosts, found: list[Answer], body: Json) -> None:
    """Of several answers at once one was carried out, and whoever was told to wait gets its end by asking again."""
    assert [answer.code for answer in found if not answer.is_replay].count(None) == 1, found
    assert {answer.code for answer in found} <= {None, IN_PROGRESS}, found
    assert (await hosts.answered(hosts.c, body, unless=IN_PROGRESS)).is_replay


async def test_two_replicas_race_one_approval(hosts: Hosts, bank: Bank) -> None:
    async def race(thread: str) -> None:
        asked = await hosts.a.send(says(thread, f"wire INV-{thread} to ACME"))
        bodies = [answers(thread, approve(*asked.ids)) for _ in range(2)]
        found = await asyncio.gather(hosts.a.send(bodies[0]), hosts.b.send(bodies[1]))
        await carried_out_once(hosts, found, bodies[0])

    await asyncio.gather(*(race(f"t-{number}") for number in range(RACES)))

    assert sorted(await bank.paid()) == sorted((f"INV-t-{number}", "ACME") for number in range(RACES))


@pytest.mark.parametrize(("part", "name"), {"record": "approval record", "bag": "tool_approval bag"}.items())
async def test_the_snapshot_survives_without_approval_or_bag(hosts: Hosts, bank: Bank, part: Part, name: str) -> None:
    """Nothing is rebuilt from the snapshot that is left: the answer names what is gone, and a cancel is the way out."""
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    await back_door_to(hosts.a.stores).lose(key_of("t"), part)
    before = await hosts.dump()

    for host in (hosts.a, hosts.b):
        refused = await host.send(answers("t", approve(*asked.ids)))
        assert (refused.code, name in refused.message) == (STALE, True)

    assert (await hosts.dump(), await bank.paid()) == (before, [])
    assert (await hosts.b.show("t")).messages == asked.messages
    assert (await hosts.b.send(answers("t", cancel(*asked.ids)))).code is None
    assert (await hosts.a.send(says("t", "hello"))).code is None
    assert await bank.paid() == []


async def test_request_id_and_call_id_aliases_converge(hosts: Hosts, bank: Bank) -> None:
    """Every id that upstream knows a call by finds the same occurrence, and may claim it once: also two at once."""
    names_per_call: set[int] = set()

    async def race(number: int) -> None:
        thread = f"t-{number}"
        asked = await hosts.a.send(says(thread, f"wire INV-{thread} to ACME"))
        (occurrence,) = (await hosts.loaded(thread)).record.occurrences
        names = [occurrence.interrupt_id, *occurrence.aliases]
        assert asked.interrupts[0]["toolCallId"] in occurrence.aliases
        names_per_call.add(len(names))
        bodies = [answers(thread, approve(name)) for name in names]
        bodies += [ROADS["tool message"](thread, [approve(name)]) for name in names]
        runners = [hosts.a, hosts.b] if number % 2 else [hosts.b, hosts.a]
        found = await asyncio.gather(*(runners[place % 2].send(body) for place, body in enumerate(bodies)))
        for body in bodies:
            await carried_out_once(hosts, found, body)

    await asyncio.gather(*map(race, range(RACES)))

    assert min(names_per_call) > 1
    assert sorted(await bank.paid()) == sorted((f"INV-t-{number}", "ACME") for number in range(RACES))


STOPS = {
    "unsafe, after the claim": ("wire INV-1 to ACME", "after-claim", 1),
    "unsafe, after begin": ("wire INV-1 to ACME", "after-begin", 0),
    "idempotent, after the claim and begin": ("pay INV-1 to ACME", "after-claim", 1),
    "idempotent, before its result": ("pay INV-1 to ACME", "after-effect", 1),
    "unsafe, before its result": ("wire INV-1 to ACME", "after-effect", 1),
}


@pytest.mark.parametrize("case", STOPS)
async def test_the_process_stops_after_the_claim_and_after_begin_before_a_durable_result(
    hosts: Hosts, bank: Bank, case: str
) -> None:
    words, step, effects = STOPS[case]
    is_in_doubt = words.startswith("wire") and step != "after-claim"
    asked = await hosts.a.send(says("t", words))
    body = answers("t", approve(*asked.ids))
    stop = hosts.b.steps.stop_at(step)
    stopped = asyncio.create_task(hosts.b.send(body))
    await stop.wait()

    observer = await hosts.start(lease_seconds=LEASE_SECONDS)
    answered = await hosts.answered(observer, body, unless=IN_PROGRESS)

    assert answered.code == (DOUBT if is_in_doubt else None)
    assert (await hosts.c.send(body)).code == answered.code
    assert await bank.paid() == [("INV-1", "ACME")] * effects
    stopped.cancel()


async def test_a_stale_writer_can_not_overwrite_newer_queued_state(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME then wire INV-2 and INV-3 to Bolt"))
    body = answers("t", approve(*asked.ids))
    stop = hosts.b.steps.stop_at("before-finish")
    stale = asyncio.create_task(hosts.b.send(body))
    await stop.wait()
    observer = await hosts.start(lease_seconds=LEASE_SECONDS)
    queued = await hosts.answered(observer, body, unless=IN_PROGRESS)
    assert len(queued.ids) == 2
    before = await hosts.dump_threads()

    stop.go.set()

    assert (await stale).code == IN_PROGRESS
    assert await hosts.dump_threads() == before
    assert (await hosts.b.show("t")).ids == queued.ids
    assert (await hosts.b.send(answers("t", *map(approve, queued.ids)))).code is None
    assert sorted(await bank.paid()) == [("INV-1", "ACME"), ("INV-2", "Bolt"), ("INV-3", "Bolt")]


@pytest.mark.parametrize("words", ["pay INV-{} to ACME", "wire INV-{} to ACME"])
async def test_two_continuations_at_once_pay_once(hosts: Hosts, bank: Bank, words: str) -> None:
    """The tool ran and the model failed; the client and whoever repeats for it both go on from there at once."""

    async def go_on(thread: str) -> None:
        asked = await hosts.a.send(says(thread, f"{words.format(thread)} (outage {thread})"))
        body = answers(thread, approve(*asked.ids))
        await bank.break_model(thread, times=1)
        assert (await hosts.b.send(body)).code == "RUN_FAILED"
        found = await asyncio.gather(*(host.send(body) for host in (hosts.a, hosts.b, hosts.c)))
        await carried_out_once(hosts, found, body)

    await asyncio.gather(*(go_on(f"t-{number}") for number in range(RACES)))

    assert await bank.calls() == RACES
    assert sorted(await bank.paid()) == sorted((f"INV-t-{number}", "ACME") for number in range(RACES))


@pytest.mark.parametrize("is_answered_first", [False, True], ids=["while it waits", "after it was answered"])
async def test_a_thread_forked_under_another_id_pays_once(hosts: Hosts, bank: Bank, is_answered_first: bool) -> None:
    """Whoever copies a history copies no authority: an approval belongs to its thread."""
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    if is_answered_first:
        await hosts.a.send(body)
    copied = (await hosts.b.show("t")).messages
    card = asked.interrupts[0]

    for name in (card["id"], card["toolCallId"]):
        for road in ROADS.values():
            forked = road("fork", [approve(name)])
            forked["messages"] = [*copied, *forked["messages"]]
            assert (await hosts.b.send(forked)).code == NOT_FOUND
    went_on = await hosts.b.send(says("fork", "hello", messages=[*copied, *says("fork", "hello")["messages"]]))

    assert (went_on.code, went_on.ids) == (None, [])
    assert (await hosts.c.send(body)).code is None
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_thread_continued_from_an_older_message_pays_once(hosts: Hosts, bank: Bank) -> None:
    """A client that regenerates from an earlier message sends less than the store has."""
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body, older = answers("t", approve(*asked.ids)), [asked.messages[0]]
    refused = await hosts.b.send(says("t", "hello", messages=older))
    await hosts.b.send(body)

    continued = await hosts.c.send(says("t", "hello", messages=older))
    forked = await hosts.c.send(says("fork", "hello", messages=older))

    assert refused.code == "APPROVAL_RESUME_REQUIRED"
    assert (continued.code, continued.ids) == (None, [])
    assert exchanges(continued.messages) == [("wire_transfer", "Wired INV-1 to ACME, receipt wire-1.")]
    # The fork asks anew, and what was approved is no answer to that.
    assert len(forked.ids) == 1
    assert forked.ids != asked.ids
    assert (await hosts.b.send(answers("fork", approve(*asked.ids)))).code == NOT_FOUND
    assert (await hosts.a.send(body)).is_replay
    assert await bank.paid() == [("INV-1", "ACME")]
