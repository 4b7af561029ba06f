"""What comes twice gets the recorded end back: no tool, no model, no write; what differs is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from tests.host.answers import Answer
from tests.host.bank import Bank
from tests.host.bodies import ROADS, Json, answers, approve, cancel, reject, says
from tests.host.hosts import Hosts
from tests.host.worlds import memory_world

CONFLICT = "APPROVAL_RESUME_CONFLICT"


Decide = Callable[[str], Json]


def edited(interrupt: str) -> Json:
    """Approve, but something else than what was approved before."""
    return approve(interrupt, payee="Bolt")


def said(answer: Answer) -> tuple[list[str], str, list[str]]:
    """Return what a replay must repeat."""
    return answer.results, answer.text, answer.ids


@pytest.mark.parametrize("road", ROADS)
async def test_a_repeated_answer_is_replayed_without_model_tool_or_write(hosts: Hosts, bank: Bank, road: str) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME and wire INV-2 to Bolt (outage later)"))
    body = ROADS[road]("t", [approve(each) for each in asked.ids])
    first = await hosts.b.send(body)
    await bank.break_model("later", times=1)
    before = await hosts.dump()

    for again in (body, {**body, "runId": "another"}):
        repeated = await hosts.c.send(again)
        assert repeated.is_replay
        assert said(repeated) == said(first)

    assert await hosts.dump() == before
    assert await bank.model_failures_left("later") == 1
    assert len(await bank.paid()) == await bank.calls() == 2


@pytest.mark.parametrize("decide", [reject, cancel])
async def test_a_repeated_no_is_replayed(hosts: Hosts, decide: Decide) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", decide(*asked.ids))
    answered = await hosts.b.send(body)
    before = await hosts.dump()

    for again in (body, {**body, "runId": "another"}):
        repeated = await hosts.c.send(again)
        assert (repeated.is_replay, said(repeated)) == (True, said(answered))

    assert await hosts.dump() == before


async def test_another_decision_after_the_end_is_a_conflict(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    await hosts.b.send(answers("t", approve(*asked.ids)))
    before = await hosts.dump()

    others = [body("t", [entry]) for body in ROADS.values() for entry in (reject(*asked.ids), edited(*asked.ids))]
    for body in (*others, answers("t", cancel(*asked.ids))):
        refused = await hosts.c.send(body)
        assert (refused.code, refused.metadata["definite"]) == (CONFLICT, False)

    assert await hosts.dump() == before
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_approving_what_was_rejected_is_a_conflict_and_definitely_without_effect(
    hosts: Hosts, bank: Bank
) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    await hosts.b.send(answers("t", reject(*asked.ids)))

    refused = await hosts.c.send(answers("t", approve(*asked.ids)))

    assert (refused.code, refused.metadata["definite"]) == (CONFLICT, hosts.is_certain)
    assert await bank.paid() == []


async def test_a_duplicate_is_replayed_while_the_thread_has_moved_on(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    first = await hosts.b.send(body)
    later = await hosts.a.send(says("t", "wire INV-2 to ACME"))

    repeated = await hosts.c.send(body)

    assert (repeated.is_replay, said(repeated)) == (True, said(first))
    assert (await hosts.c.show("t")).ids == later.ids
    assert await bank.paid() == [("INV-1", "ACME")]
    assert await bank.calls() == 1


async def test_a_duplicate_is_replayed_a_week_later(bank: Bank) -> None:
    now = [1_700_000_000.0]
    async with memory_world(clock=lambda: now[0]) as world, AsyncExitStack() as stack:
        host = await Hosts(world, bank.url, stack).start()
        asked = await host.send(says("t", "wire INV-1 to ACME"))
        body = answers("t", approve(*asked.ids))
        first = await host.send(body)

        now[0] += 7 * 24 * 3600.0

        repeated = await host.send({**body, "runId": "another"})
        assert (repeated.is_replay, said(repeated)) == (True, said(first))
        assert (await host.send(answers("t", reject(*asked.ids)))).code == CONFLICT
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_repeated_plain_run_is_replayed(hosts: Hosts) -> None:
    body = says("t", "look up INV-1")
    first = await hosts.a.send(body)
    before = await hosts.dump()

    repeated = await hosts.b.send(body)

    assert (repeated.is_replay, said(repeated)) == (True, said(first))
    assert await hosts.dump() == before


async def test_a_repeated_run_that_paused_is_replayed_with_its_card(hosts: Hosts) -> None:
    body = says("t", "pay INV-1 to ACME")
    first = await hosts.a.send(body)
    before = await hosts.dump()

    repeated = await hosts.b.send(body)

    assert repeated.is_replay
    assert repeated.interrupts == first.interrupts
    assert await hosts.dump() == before


@pytest.mark.parametrize("change", [{"words": "look up INV-2"}, {"state": {"other": True}}])
async def test_other_input_under_a_known_run_id_is_a_conflict(hosts: Hosts, change: Json) -> None:
    body = says("t", "look up INV-1")
    await hosts.a.send(body)
    before = await hosts.dump()

    other = {**says("t", change.get("words", "look up INV-1")), "runId": body["runId"]}
    refused = await hosts.b.send({**other, **({"state": change["state"]} if "state" in change else {})})

    assert (refused.code, refused.metadata["definite"]) == ("RUN_ID_CONFLICT", hosts.is_certain)
    assert await hosts.dump() == before


async def test_an_answer_under_the_id_of_another_run_is_a_conflict(hosts: Hosts, bank: Bank) -> None:
    body = says("t", "pay INV-1 to ACME")
    asked = await hosts.a.send(body)
    before = await hosts.dump()

    refused = await hosts.b.send(answers("t", approve(*asked.ids), runId=body["runId"]))

    assert refused.code == "RUN_ID_CONFLICT"
    assert (await hosts.dump(), await bank.paid()) == (before, [])


async def test_the_same_answer_while_it_is_carried_out_is_in_progress_and_another_a_conflict(
    hosts: Hosts, bank: Bank
) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    stop = hosts.b.steps.stop_at("before-effect")
    answering = asyncio.create_task(hosts.b.send(body))
    await stop.wait()
    before = await hosts.dump()

    same = await hosts.c.send(body)
    other = await hosts.c.send(answers("t", reject(*asked.ids)))

    assert (same.code, same.metadata) == (
        "APPROVAL_RESUME_IN_PROGRESS",
        {"definite": False, "retryAfterSeconds": 1.0},
    )
    assert other.code == CONFLICT
    assert await hosts.dump() == before
    stop.go.set()
    first = await answering
    repeated = await hosts.c.send(body)
    assert (repeated.is_replay, said(repeated)) == (True, said(first))
    assert await bank.paid() == [("INV-1", "ACME")]
    assert await bank.calls() == 1


async def test_a_late_answer_by_a_provider_id_approves_no_later_call_of_that_id(hosts: Hosts, bank: Bank) -> None:
    """Providers may number their calls anew in each turn: the same id can wait again when the duplicate arrives."""
    await hosts.a.send(says("t", "pay INV-1 to ACME (reuse call ids)"))
    spoken = ROADS["tool message"]("t", [approve("call_1")])
    assert (await hosts.b.send(spoken)).code is None
    later = await hosts.a.send(says("t", "pay INV-2 to ACME (reuse call ids)"))
    before = await hosts.dump()

    refused = await hosts.c.send({**spoken, "runId": "another"})

    assert refused.code == "APPROVAL_RESUME_INVALID"
    assert (await hosts.dump(), await bank.paid()) == (before, [("INV-1", "ACME")])
    assert (await hosts.c.send(answers("t", approve(*later.ids)))).code is None
