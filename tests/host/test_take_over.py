"""What a host leaves lying is carried on by another, with no client; the one it was taken from can do no more harm."""

from __future__ import annotations

import asyncio

import pytest

from tests.host.answers import Answer
from tests.host.bank import Bank
from tests.host.bodies import Json, answers, approve, reject, says
from tests.host.hosts import Host, Hosts

LEASE_SECONDS = 0.3
"""An observer's lease: the other hosts said once that they live, and are dead to it when this has passed."""
IN_PROGRESS = "APPROVAL_RESUME_IN_PROGRESS"
DOUBT = "APPROVAL_OUTCOME_INDETERMINATE"


async def start_reconciling(hosts: Hosts) -> Host:
    return await hosts.start(lease_seconds=LEASE_SECONDS, reconcile_seconds=0.02)


async def freeze(hosts: Hosts, words: str, step: str) -> tuple[Json, asyncio.Task[Answer]]:
    """Let B stop while it carries out an approval; answers what it was sent, and what it is doing."""
    asked = await hosts.a.send(says("t", words))
    body = answers("t", *map(approve, asked.ids))
    stop = hosts.b.steps.stop_at(step)
    answering = asyncio.create_task(hosts.b.send(body))
    await stop.wait()
    return body, answering


CALLS_FROM = {
    "after-claim": 2,
    "before-effect": 2,
    "after-effect": 2,
    "after-settle": 1,
    "after-model": 1,
    "before-finish": 1,
}
"""How often an idempotent tool is called when its host stopped at a step: twice only where no result was recorded yet.

Its call has begun with the claim, so a host that wakes up after the claim makes it too, under the same key.
"""


@pytest.mark.parametrize(("step", "calls"), CALLS_FROM.items())
async def test_an_idempotent_call_is_carried_on_from_any_step_with_one_effect(
    hosts: Hosts, bank: Bank, step: str, calls: int
) -> None:
    body, answering = await freeze(hosts, "pay INV-1 to ACME", step)

    await start_reconciling(hosts)
    await hosts.until(lambda: hosts.is_closed("t"))

    replayed = await hosts.c.send(body)
    assert replayed.is_replay
    assert replayed.results == ["Paid INV-1 to ACME, receipt payment-1."]
    assert "pay_invoice INV-1: Paid INV-1 to ACME" in replayed.text
    before = await hosts.dump_threads()
    hosts.b.steps.let_go()
    late = await answering
    assert (late.code, late.metadata["definite"]) == (IN_PROGRESS, False)
    assert await bank.paid() == [("INV-1", "ACME")]
    assert await bank.calls() == calls
    assert await hosts.dump_threads() == before


@pytest.mark.parametrize("step", ["after-claim", "before-begin", "after-settle", "before-finish"])
async def test_an_unsafe_call_that_had_not_begun_or_had_ended_is_carried_on(
    hosts: Hosts, bank: Bank, step: str
) -> None:
    body, answering = await freeze(hosts, "wire INV-1 to ACME", step)

    await start_reconciling(hosts)
    await hosts.until(lambda: hosts.is_closed("t"))

    hosts.b.steps.let_go()
    assert (await answering).code == IN_PROGRESS
    replayed = await hosts.c.send(body)
    assert (replayed.is_replay, replayed.results) == (True, ["Wired INV-1 to ACME, receipt wire-1."])
    assert await bank.paid() == [("INV-1", "ACME")]


@pytest.mark.parametrize(("step", "wires"), [("after-begin", 0), ("after-effect", 1)])
async def test_an_unsafe_call_that_had_begun_is_in_doubt_until_its_holder_tells(
    hosts: Hosts, bank: Bank, step: str, wires: int
) -> None:
    body, answering = await freeze(hosts, "wire INV-1 to ACME", step)

    observer = await start_reconciling(hosts)
    await hosts.until(lambda: has_doubt(hosts))

    assert (await hosts.c.send(body)).code == DOUBT
    assert len(await bank.wires()) == wires
    hosts.b.steps.let_go()
    assert (await answering).code == IN_PROGRESS
    answered = await hosts.answered(observer, body, unless=IN_PROGRESS)
    assert (answered.code, answered.results) == (None, ["Wired INV-1 to ACME, receipt wire-1."])
    assert await bank.paid() == [("INV-1", "ACME")]


@pytest.mark.parametrize("step", ["after-claim", "after-settle", "before-finish"])
async def test_a_transactional_call_is_carried_on_with_one_effect(hosts: Hosts, step: str) -> None:
    if not hosts.is_transactional:
        pytest.skip("these stores offer no transactions to tools")
    body, answering = await freeze(hosts, "refund INV-1", step)

    await start_reconciling(hosts)
    await hosts.until(lambda: hosts.is_closed("t"))

    hosts.b.steps.let_go()
    assert (await answering).code == IN_PROGRESS
    replayed = await hosts.c.send(body)
    assert (replayed.is_replay, replayed.results) == (True, ["Refunded INV-1."])
    assert (await hosts.dump()).count("demo_refunds: ") == 1


async def test_a_batch_is_carried_on_whole(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 and INV-2 to ACME and wire INV-3 to ACME and look up INV-9"))
    body = answers("t", approve(asked.ids[0]), reject(asked.ids[1]), approve(asked.ids[2]))
    stop = hosts.b.steps.stop_at("after-claim")
    answering = asyncio.create_task(hosts.b.send(body))
    await stop.wait()

    await start_reconciling(hosts)
    await hosts.until(lambda: hosts.is_closed("t"))

    stop.go.set()
    await answering
    replayed = await hosts.c.send(body)
    assert replayed.is_replay
    assert "pay_invoice INV-2: Error: Tool call invocation was rejected by user." in replayed.text
    assert "look_up_invoice INV-9: Invoice INV-9" in replayed.text
    assert sorted(await bank.paid()) == [("INV-1", "ACME"), ("INV-3", "ACME")]


async def test_a_client_that_sends_again_takes_a_dead_holders_thread_over_itself(hosts: Hosts, bank: Bank) -> None:
    body, answering = await freeze(hosts, "pay INV-1 to ACME", "before-effect")
    observer = await hosts.start(lease_seconds=LEASE_SECONDS)

    answered = await hosts.answered(observer, body, unless=IN_PROGRESS)

    assert (answered.code, answered.is_replay) == (None, False)
    hosts.b.steps.let_go()
    assert (await answering).code == IN_PROGRESS
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_thread_held_by_a_dead_plain_run_is_free_for_the_next_message(hosts: Hosts) -> None:
    stop = hosts.b.steps.stop_at("before-finish")
    running = asyncio.create_task(hosts.b.send(says("t", "look up INV-1")))
    await stop.wait()
    observer = await hosts.start(lease_seconds=LEASE_SECONDS)

    assert (await hosts.answered(observer, says("t", "look up INV-2"), unless="THREAD_BUSY")).code is None

    before = await hosts.dump_threads()
    stop.go.set()
    assert (await running).code == "THREAD_BUSY"
    assert await hosts.dump_threads() == before


async def test_the_reconciler_frees_a_thread_held_by_a_dead_plain_run(hosts: Hosts) -> None:
    stop = hosts.b.steps.stop_at("before-finish")
    body = says("t", "look up INV-1")
    running = asyncio.create_task(hosts.b.send(body))
    await stop.wait()

    observer = await start_reconciling(hosts)
    await hosts.until(lambda: hosts.is_closed("t"))

    assert (await observer.send(body)).code is None
    stop.go.set()
    assert (await running).code == "THREAD_BUSY"
    words = [message["content"] for message in (await hosts.c.show("t")).messages if message["role"] == "user"]
    assert words == ["look up INV-1"]


async def test_a_live_holder_is_left_alone(hosts: Hosts, bank: Bank) -> None:
    patient = await hosts.start(lease_seconds=LEASE_SECONDS)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    working = patient.steps.stop_at("after-effect")
    answering = asyncio.create_task(patient.send(answers("t", approve(*asked.ids))))
    await working.wait()
    silent = hosts.b.steps.stop_at("before-finish")
    running = asyncio.create_task(hosts.b.send(says("other", "look up INV-2")))
    await silent.wait()
    held_by = (await hosts.loaded("t")).record.claim

    await start_reconciling(hosts)
    await hosts.until(lambda: hosts.is_closed("other"))

    assert held_by is not None
    assert (await hosts.loaded("t")).record.claim == held_by
    working.go.set()
    assert (await answering).code is None
    assert await bank.paid() == [("INV-1", "ACME")]
    silent.go.set()
    await running


async def test_a_claim_past_its_time_is_taken_over_although_its_holder_lives(hosts: Hosts, bank: Bank) -> None:
    slow = await hosts.start(run_seconds=0.2, claim_margin_seconds=0.1, lease_seconds=LEASE_SECONDS)
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    stop = slow.steps.stop_at("before-effect")
    answering = asyncio.create_task(slow.send(body))
    await stop.wait()

    await hosts.start(reconcile_seconds=0.02)
    await hosts.until(lambda: hosts.is_closed("t"))

    stop.go.set()
    assert (await answering).code == "RUN_FAILED"
    assert (await hosts.c.send(body)).is_replay
    assert [each["key"] for each in await bank.payments()] == asked.ids


async def test_an_answer_that_nobody_sends_again_is_finished_by_the_reconciler(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME (outage o)"))
    await bank.break_model("o", times=1)
    body = answers("t", approve(*asked.ids))
    assert (await hosts.b.send(body)).code == "RUN_FAILED"
    await hosts.make_due("t")

    await hosts.start(reconcile_seconds=0.02)
    await hosts.until(lambda: hosts.is_closed("t"))

    replayed = await hosts.c.send(body)
    assert (replayed.is_replay, replayed.results) == (True, ["Wired INV-1 to ACME, receipt wire-1."])
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_several_reconcilers_carry_a_thread_on_once(hosts: Hosts, bank: Bank) -> None:
    body, answering = await freeze(hosts, "pay INV-1 to ACME and wire INV-2 to ACME", "after-claim")

    await asyncio.gather(*(start_reconciling(hosts) for _ in range(3)))
    await hosts.until(lambda: hosts.is_closed("t"))

    hosts.b.steps.let_go()
    await answering
    assert (await hosts.c.send(body)).is_replay
    assert await bank.paid() == [("INV-1", "ACME"), ("INV-2", "ACME")]


async def has_doubt(hosts: Hosts) -> bool:
    return (await hosts.c.show("t")).states == ["indeterminate"]


async def test_a_host_that_froze_between_reading_and_claiming_claims_for_no_time_that_has_passed(
    hosts: Hosts, bank: Bank
) -> None:
    """A reads the thread and freezes for longer than a claim lasts; thawed, it reads anew before it claims."""
    quick = await hosts.start(run_seconds=0.3, claim_margin_seconds=0.1)
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    frozen, claimed = quick.steps.stop_at("after-load"), quick.steps.stop_at("after-claim")
    answering = asyncio.create_task(quick.send(answers("t", approve(*asked.ids))))
    await frozen.wait()
    since = (await hosts.loaded("t")).now

    await hosts.until(lambda: has_passed(hosts, since + 0.4))
    frozen.go.set()
    await claimed.wait()

    loaded = await hosts.loaded("t")
    assert loaded.record.claim is not None
    assert loaded.record.claim.until > loaded.now
    claimed.go.set()
    await answering


async def has_passed(hosts: Hosts, moment: float) -> bool:
    return (await hosts.loaded("t")).now > moment
