"""Many answers to one interrupt at the same instant, on two hosts: one is carried out, once."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.host.answers import Answer
from tests.host.bank import Bank
from tests.host.bodies import Json, answers, approve, cancel, reject, says
from tests.host.hosts import Host, Hosts

THREADS = 10
TURNS = 10
"""The same run twice and two runs, ten threads, ten turns: 200 races of equal answers."""
IN_PROGRESS = "APPROVAL_RESUME_IN_PROGRESS"
CONFLICT = "APPROVAL_RESUME_CONFLICT"


async def race(runners: Sequence[Host], bodies: Sequence[Json]) -> list[Answer]:
    """Let every host answer at once."""
    return await asyncio.gather(*(host.send(body) for host, body in zip(runners, bodies, strict=True)))


async def settle(hosts: Hosts, found: Sequence[Answer], body: Json) -> Answer:
    """Return the answer that was carried out; who was told to wait gets it by sending the same again."""
    carried_out = [answer for answer in found if answer.code is None and not answer.is_replay]
    assert len(carried_out) == 1, [answer.events[-1] for answer in found]
    for answer in found:
        if answer.code is not None:
            assert answer.code == IN_PROGRESS, answer.events[-1]
        if answer.is_replay:
            assert (answer.results, answer.ids) == (carried_out[0].results, carried_out[0].ids)
    repeated = await hosts.c.send(body)
    assert (repeated.is_replay, repeated.results) == (True, carried_out[0].results)
    return carried_out[0]


async def refunded(hosts: Hosts) -> list[str]:
    """Return the invoice of every refund, which are rows beside the hosts' own."""
    return re.findall(r"^demo_refunds: .*'(INV-[^']+)'", await hosts.dump(), re.MULTILINE)


@pytest.mark.parametrize("is_same_run", [True, False], ids=["the same run twice", "two runs"])
async def test_of_two_equal_answers_at_once_one_is_carried_out(hosts: Hosts, bank: Bank, is_same_run: bool) -> None:
    """Each thread asks for one call after the other, so that every answer is also the next question."""
    verbs = ["pay {} to ACME", "wire {} to ACME", *(["refund {}"] if hosts.is_transactional else [])]
    losers: Counter[str] = Counter()

    async def answer_all(number: int) -> None:
        thread = f"t{number}"
        calls = [verbs[(number + turn) % len(verbs)].format(f"INV-{thread}-{turn}") for turn in range(TURNS)]
        asked = await hosts.a.send(says(thread, " then ".join(calls)))
        for turn in range(TURNS):
            one = answers(thread, approve(*asked.ids))
            other = one if is_same_run else answers(thread, approve(*asked.ids))
            runners = [hosts.a, hosts.b] if turn % 2 else [hosts.b, hosts.a]
            found = await race(runners, [one, other])
            losers.update("replay" if answer.is_replay else str(answer.code) for answer in found)
            asked = await settle(hosts, found, other)
        assert asked.ids == []

    await asyncio.gather(*map(answer_all, range(THREADS)))

    expected = sorted(f"INV-t{thread}-{turn}" for thread in range(THREADS) for turn in range(TURNS))
    paid = [invoice for invoice, _ in await bank.paid()]
    assert sorted(paid + await refunded(hosts)) == expected
    # A race in which the loser only ever came too late would not be one.
    assert losers[IN_PROGRESS] > 0
    assert losers["None"] == len(expected)


OTHER_DECISIONS = {
    "approve and reject": (approve, reject),
    "reject and approve": (reject, approve),
    "approve and cancel": (approve, cancel),
    "two edits": (approve, lambda name: approve(name, payee="Bolt")),
}


@pytest.mark.parametrize("case", OTHER_DECISIONS)
async def test_of_two_different_answers_at_once_one_is_the_decision_and_the_other_a_conflict(
    hosts: Hosts, bank: Bank, case: str
) -> None:
    winners: Counter[int] = Counter()

    async def answer(thread: str) -> None:
        asked = await hosts.a.send(says(thread, f"wire INV-{thread} to ACME"))
        bodies = [answers(thread, decide(*asked.ids)) for decide in OTHER_DECISIONS[case]]
        found = await race([hosts.a, hosts.b], bodies)
        (winner,) = [number for number, each in enumerate(found) if each.code is None]
        assert found[1 - winner].code == CONFLICT, found[1 - winner].events[-1]
        assert (await hosts.c.send(bodies[winner])).is_replay
        assert (await hosts.c.send(bodies[1 - winner])).code == CONFLICT
        wired = [payee for invoice, payee in await bank.paid() if invoice == f"INV-{thread}"]
        approved = OTHER_DECISIONS[case][winner](*asked.ids).get("payload", {})
        assert wired == ([approved.get("payee", "ACME")] if approved.get("approved") else [])
        winners[winner] += 1

    await asyncio.gather(*(answer(f"t{number}") for number in range(THREADS)))

    assert winners.total() == THREADS


async def test_of_a_message_and_an_answer_at_once_only_the_answer_is_taken(hosts: Hosts, bank: Bank) -> None:
    async def answer(thread: str) -> None:
        asked = await hosts.a.send(says(thread, f"wire INV-{thread} to ACME"))
        taken, message = await race([hosts.a, hosts.b], [answers(thread, approve(*asked.ids)), says(thread, "hello")])
        assert taken.code in {None, IN_PROGRESS, "THREAD_BUSY"}, taken.events[-1]
        assert message.code in {None, "THREAD_BUSY", "APPROVAL_RESUME_REQUIRED"}, message.events[-1]

    await asyncio.gather(*(answer(f"t{number}") for number in range(THREADS)))

    assert len(await bank.paid()) == THREADS


async def test_of_two_new_messages_at_once_none_is_lost_and_none_is_mixed(hosts: Hosts) -> None:
    async def talk(thread: str) -> None:
        bodies = [says(thread, "look up INV-1"), says(thread, "look up INV-2")]
        found = await race([hosts.a, hosts.b], bodies)
        assert {answer.code for answer in found} <= {None, "THREAD_BUSY"}
        again = [await hosts.answered(hosts.c, body, unless="THREAD_BUSY") for body in bodies]
        assert [answer.code for answer in again] == [None, None]
        shown = await hosts.c.show(thread)
        words = sorted(message["content"] for message in shown.messages if message["role"] == "user")
        assert words == ["look up INV-1", "look up INV-2"]

    await asyncio.gather(*(talk(f"t{number}") for number in range(THREADS)))


async def test_many_hosts_and_clients_at_once_still_have_one_effect(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))

    found = await race([hosts.a, hosts.b, hosts.c] * 4, [{**body, "runId": f"run-{number}"} for number in range(12)])

    await settle(hosts, found, body)
    assert await bank.paid() == [("INV-1", "ACME")]
