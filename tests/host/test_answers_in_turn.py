"""Several pauses in one turn and several turns in one thread: each question has its own answer, and keeps it."""

from __future__ import annotations

import pytest

from tests.host.answers import Answer
from tests.host.bank import Bank
from tests.host.bodies import Json, answers, approve, cancel, reject, says
from tests.host.hosts import Hosts
from tests.host.strict import exchanges

REJECTED = "Error: Tool call invocation was rejected by user."
MISSING = "APPROVAL_RESUME_MISSING_INTERRUPT"


FIRST, SECOND = "pay INV-{0}1 to ACME and wire INV-{0}2 to Bolt", "pay INV-{0}3 and INV-{0}4 to ACME"
TURNS = {
    "new call ids": f"look up INV-9 then {FIRST} then look up INV-9 then {SECOND}",
    "reused call ids": f"look up INV-9 then {FIRST} then look up INV-9 then {SECOND} (reuse call ids)",
}


@pytest.mark.parametrize("case", TURNS)
async def test_every_pause_of_every_turn_gets_its_own_answer_on_any_host(hosts: Hosts, bank: Bank, case: str) -> None:
    """Where the provider numbers its calls anew in each step, `call_1` is another call every time."""
    sent: list[tuple[Json, Answer]] = []
    for turn in ("1", "2"):
        asked = await hosts.a.send(says("t", TURNS[case].format(turn)))
        first = answers("t", approve(asked.ids[0]), reject(asked.ids[1]))
        asked_again = await hosts.b.send(first)
        second = answers("t", reject(asked_again.ids[0]), approve(asked_again.ids[1], payee="Core"))
        answered = await hosts.c.send(second)
        assert (answered.code, answered.ids) == (None, [])
        sent += [(first, asked_again), (second, answered)]

    names = [entry["interruptId"] for body, _ in sent for entry in body["resume"]]
    assert len(set(names)) == len(names) == 8
    for body, first_time in sent:
        repeated = await hosts.a.send(body)
        assert repeated.is_replay
        # A card that was answered meanwhile is offered to nobody again.
        assert (repeated.results, repeated.text, repeated.ids) == (first_time.results, first_time.text, [])
    assert await bank.paid() == [("INV-11", "ACME"), ("INV-14", "Core"), ("INV-21", "ACME"), ("INV-24", "Core")]
    found = exchanges((await hosts.b.show("t")).messages)
    looked_up = "Invoice INV-9: 95 EUR."
    paid = [(f"Paid INV-{turn}1 to ACME", f"Paid INV-{turn}4 to Core") for turn in ("1", "2")]
    expected = [each for first, last in paid for each in (looked_up, first, REJECTED, looked_up, REJECTED, last)]
    assert [result.split(",")[0] for _, result in found] == expected


async def test_an_answer_that_leaves_one_out_names_it_and_decides_nothing(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 and INV-2 and INV-3 to ACME"))
    before = await hosts.dump()

    for decide in (approve, reject, cancel):
        for left_out in asked.ids:
            partial = answers("t", *(decide(each) for each in asked.ids if each != left_out))
            refused = await hosts.b.send(partial)
            assert (refused.code, left_out in refused.message) == (MISSING, True)

    assert (await hosts.dump(), await bank.paid()) == (before, [])
    assert (await hosts.c.send(answers("t", *map(approve, asked.ids)))).code is None
    assert len(await bank.paid()) == 3


async def test_cancelling_a_call_says_nothing_of_an_earlier_one_with_the_same_provider_id(hosts: Hosts) -> None:
    done = await hosts.a.send(says("t", "wire INV-1 to ACME (reuse call ids)"))
    await hosts.b.send(answers("t", approve(*done.ids)))
    asked = await hosts.a.send(says("t", "wire INV-2 to ACME (reuse call ids)"))

    await hosts.b.send(answers("t", cancel(*asked.ids)))

    cancelled = "The approval was cancelled; the call was not run."
    results = ["Wired INV-1 to ACME, receipt wire-1.", cancelled]
    assert [result for _, result in exchanges((await hosts.c.show("t")).messages)] == results
