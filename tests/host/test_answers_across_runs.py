"""A request may repeat answers of several finished runs, beside open ones: each gets the result that was recorded."""

from __future__ import annotations

from tests.host.bank import Bank
from tests.host.bodies import answers, approve, reject, says
from tests.host.hosts import Hosts


async def _pay(hosts: Hosts, words: str) -> str:
    """Let a call be asked for, and answer with its interrupt."""
    asked = await hosts.a.send(says("t", words))
    return asked.ids[0]


async def test_a_finished_answer_may_be_repeated_beside_an_open_one(hosts: Hosts, bank: Bank) -> None:
    first = await _pay(hosts, "pay INV-1 to ACME")
    await hosts.a.send(answers("t", approve(first)))
    second = await _pay(hosts, "pay INV-2 to Bolt")
    both = approve(first), approve(second)

    answered = await hosts.b.send(answers("t", approve(first), *both))
    before = await hosts.dump_threads()
    repeated = await hosts.c.send(answers("t", *both))

    assert answered.code is None
    assert [result.split(", ")[0] for result in answered.results] == ["Paid INV-1 to ACME", "Paid INV-2 to Bolt"]
    assert (repeated.is_replay, repeated.results) == (True, answered.results)
    assert await hosts.dump_threads() == before
    assert await bank.paid() == [("INV-1", "ACME"), ("INV-2", "Bolt")]


async def test_another_answer_for_a_finished_call_is_refused_whatever_stands_beside_it(
    hosts: Hosts, bank: Bank
) -> None:
    first = await _pay(hosts, "pay INV-1 to ACME")
    await hosts.a.send(answers("t", approve(first)))
    second = await _pay(hosts, "pay INV-2 to Bolt")

    refused = await hosts.b.send(answers("t", reject(first), approve(second)))

    assert refused.code == "APPROVAL_RESUME_CONFLICT"
    assert await bank.paid() == [("INV-1", "ACME")]
    await hosts.b.send(answers("t", reject(second)))
    assert (await hosts.c.send(answers("t", approve(first), approve(second)))).code == "APPROVAL_RESUME_CONFLICT"
    assert (await hosts.c.send(answers("t", approve(first), approve("nobody")))).code == "APPROVAL_RESUME_NOT_FOUND"
