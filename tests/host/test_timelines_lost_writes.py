"""A store that loses its last writes reaches the same generation again: the run whose writes it lost can not finish.

The threads lose them and the ledger, which is elsewhere, keeps what it acknowledged, if a test does not say otherwise.
"""

from __future__ import annotations

import asyncio

import pytest

from stores.records import EffectState
from tests.host.answers import Answer
from tests.host.back_doors import apart, keep
from tests.host.bank import Bank
from tests.host.bodies import Json, answers, approve, reject, says
from tests.host.hosts import Host, Hosts, key_of

LEASE_SECONDS = 0.3
"""An observer's lease: the other hosts said once that they live, and are dead to it when this has passed."""
IN_PROGRESS = "APPROVAL_RESUME_IN_PROGRESS"
BUSY = "THREAD_BUSY"
CONFLICT = "APPROVAL_RESUME_CONFLICT"
DOUBT = "APPROVAL_OUTCOME_INDETERMINATE"
VERBS = {"idempotent": "pay", "unsafe": "wire"}
RESULTS = {
    "idempotent": "Paid INV-1 to ACME, receipt payment-1.",
    "unsafe": "Wired INV-1 to ACME, receipt wire-1.",
}


async def generation(hosts: Hosts) -> int:
    return (await hosts.loaded("t")).record.version.generation


async def effect(hosts: Hosts, interrupt: str) -> tuple[str, bool]:
    """Return the state of a row of the ledger, and whether it has a result."""
    (row,) = (await hosts.a.stores.effects.read(key_of("t"), interrupts=[interrupt])).values()
    return row.state, row.result is not None


async def has_doubt(hosts: Hosts) -> bool:
    return (await hosts.a.show("t")).states == ["indeterminate"]


async def stop(host: Host, body: Json, step: str) -> asyncio.Task[Answer]:
    """Send a body and let its run freeze at a step."""
    reached = host.steps.stop_at(step)
    answering = asyncio.create_task(host.send(body))
    await reached.wait()
    return answering


async def test_a_plain_run_can_not_finish_over_another_that_reached_its_generation(hosts: Hosts) -> None:
    """A's turn and B's turn are both generation n + 1.

    A: opens (n + 1) ............................................ finish: lost
    store:           loses that
    B:                          opens (n + 1) ...... finishes (n + 2)
    """
    await hosts.a.send(says("t", "look up INV-0"))
    undo = await keep(hosts.a.stores)
    lost = await stop(hosts.b, says("t", "look up INV-1"), "before-finish")
    reached = await generation(hosts)

    await undo()
    body = says("t", "look up INV-2")
    winning = await stop(hosts.c, body, "before-finish")
    assert await generation(hosts) == reached
    hosts.b.steps.let_go()
    refused = await lost
    hosts.c.steps.let_go()

    assert (refused.code, (await winning).code) == (BUSY, None)
    words = [message["content"] for message in (await hosts.a.show("t")).messages if message["role"] == "user"]
    assert words == ["look up INV-0", "look up INV-2"]
    assert (await hosts.a.send(body)).is_replay


@pytest.mark.parametrize("step", ["before-effect", "after-effect", "after-settle", "before-finish"])
async def test_an_idempotent_call_has_one_effect_under_two_claims_of_one_generation(
    hosts: Hosts, bank: Bank, step: str
) -> None:
    """A and B hold the thread at the same generation; A's write id is another.

    A: claims (n + 1), stops at a step .............................................. goes on; its finish: lost
    store:                              loses the claim
    B:                                  (A's lease ends) claims (n + 1), same key ........................ finishes
    """
    one = await hosts.start(decorate=apart)
    other = await hosts.start(decorate=apart, lease_seconds=LEASE_SECONDS)
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    undo = await keep(hosts.a.stores)
    lost = await stop(one, body, step)
    reached = await generation(hosts)

    await undo()
    held = other.steps.stop_at("before-finish")
    winning = asyncio.create_task(hosts.answered(other, body, unless=IN_PROGRESS))
    await held.wait()
    assert await generation(hosts) == reached
    one.steps.let_go()
    refused = await lost
    assert (refused.code, refused.metadata["definite"]) == (IN_PROGRESS, False)
    assert await generation(hosts) == reached
    other.steps.let_go()

    assert ((await winning).code, (await winning).results) == (None, [RESULTS["idempotent"]])
    replayed = await hosts.c.send(body)
    assert (replayed.is_replay, replayed.results) == (True, [RESULTS["idempotent"]])
    assert [each["key"] for each in await bank.payments()] == asked.ids


async def test_an_unsafe_call_that_began_is_in_doubt_at_its_own_generation_until_its_holder_settles(
    hosts: Hosts, bank: Bank
) -> None:
    """The doubt is written as generation n + 1, which was A's claim.

    A: claims (n + 1), begins .................................................. wires, settles; its finish: lost
    store:                    loses the claim
    B:                        (A's lease ends) reads "begun", writes the doubt (n + 1)              replays A's result
    """
    one = await hosts.start(decorate=apart)
    other = await hosts.start(decorate=apart, lease_seconds=LEASE_SECONDS)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    undo = await keep(hosts.a.stores)
    lost = await stop(one, body, "before-effect")
    reached = await generation(hosts)

    await undo()
    doubted = await hosts.answered(other, body, unless=IN_PROGRESS)
    assert (doubted.code, doubted.metadata["definite"]) == (DOUBT, False)
    assert await generation(hosts) == reached
    one.steps.let_go()

    assert (await lost).code == IN_PROGRESS
    answered = await hosts.b.send(body)
    assert (answered.code, answered.results) == (None, [RESULTS["unsafe"]])
    assert (await hosts.c.send(body)).is_replay
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_an_unsafe_call_that_had_not_begun_can_not_begin_under_the_lost_claim(hosts: Hosts, bank: Bank) -> None:
    """The row is B's by the time A asks to begin.

    A: claims (n + 1) ................................................. begin: fenced
    store:            loses the claim
    B:                (A's lease ends) claims (n + 1), row reserved ................... begins, wires, finishes
    """
    one = await hosts.start(decorate=apart)
    other = await hosts.start(decorate=apart, lease_seconds=LEASE_SECONDS)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    undo = await keep(hosts.a.stores)
    lost = await stop(one, body, "before-begin")
    reached = await generation(hosts)

    await undo()
    held = other.steps.stop_at("before-begin")
    winning = asyncio.create_task(hosts.answered(other, body, unless=IN_PROGRESS))
    await held.wait()
    assert await generation(hosts) == reached
    one.steps.let_go()
    assert (await lost).code == IN_PROGRESS
    assert ("before-effect" in one.steps.passed, await bank.calls()) == (False, 0)
    other.steps.let_go()

    assert (await winning).results == [RESULTS["unsafe"]]
    assert await bank.paid() == [("INV-1", "ACME")]


@pytest.mark.parametrize("kind", VERBS)
async def test_a_rejection_of_what_the_threads_forgot_can_not_overwrite_what_the_ledger_knows(
    hosts: Hosts, bank: Bank, kind: str
) -> None:
    """The threads say "pending" again, the ledger says "begun".

    A: claims, calls ................................ settles; its finish: lost
    store:           loses the claim
    B:                               rejects: refused                          rejects: conflict
    """
    one = await hosts.start(decorate=apart)
    asked = await hosts.a.send(says("t", f"{VERBS[kind]} INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    undo = await keep(hosts.a.stores)
    lost = await stop(one, body, "after-effect")

    await undo()
    refused = await hosts.b.send(answers("t", reject(*asked.ids)))
    assert (refused.code, refused.metadata["definite"]) == (BUSY, False)
    assert await effect(hosts, *asked.ids) == (EffectState.BEGUN, False)
    one.steps.let_go()

    # It lost its claim with the threads' last writes, but what it did is recorded.
    assert (await lost).code == IN_PROGRESS
    assert await effect(hosts, *asked.ids) == (EffectState.SETTLED, True)
    refused = await hosts.b.send(answers("t", reject(*asked.ids)))
    assert (refused.code, refused.metadata["definite"]) == (CONFLICT, False)
    assert (await hosts.c.send(body)).results == [RESULTS[kind]]
    assert await bank.paid() == [("INV-1", "ACME")]


EFFECTS = {"idempotent": 1, "unsafe": 2}
"""Effects where the ledger forgot too: a far side that recognises a key still has one, one that does not has two.

That is why such stores are not `durable`, and why a host outside development serves no unsafe tool on them.
"""


@pytest.mark.parametrize("kind", EFFECTS)
async def test_where_the_ledger_forgets_too_only_an_idempotent_call_keeps_one_effect(
    hosts: Hosts, bank: Bank, kind: str
) -> None:
    """Threads and ledger are one store, and it loses the last writes of both.

    A: claims (n + 1), calls .................................................... settle: refused
    store:                   loses claim and row
    B:                                           claims (n + 1), calls again ................... settles, finishes
    """
    asked = await hosts.a.send(says("t", f"{VERBS[kind]} INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))
    undo = await keep(hosts.a.stores, effects_too=True)
    lost = await stop(hosts.b, body, "after-effect")
    reached = await generation(hosts)

    await undo()
    winning = await stop(hosts.c, body, "after-effect")
    assert await generation(hosts) == reached
    hosts.b.steps.let_go()
    refused = await lost
    assert (refused.code, refused.metadata["definite"]) == (IN_PROGRESS, False)
    assert await generation(hosts) == reached
    hosts.c.steps.let_go()

    assert (await winning).code is None
    assert await bank.calls() == 2
    assert await bank.paid() == [("INV-1", "ACME")] * EFFECTS[kind]
    assert (await hosts.a.send(body)).is_replay
