"""The same request several times at once, as client and load balancer both repeat it, to any host: one is served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from tests.host.answers import Answer
from tests.host.bank import Bank
from tests.host.bodies import Json, answers, approve, cancel, reject, says
from tests.host.hosts import Hosts

THREADS = 5
RESUME_IN_PROGRESS = "APPROVAL_RESUME_IN_PROGRESS"
RUN_IN_PROGRESS = "RUN_IN_PROGRESS"

DECISIONS: dict[str, Callable[[Sequence[str]], list[Json]]] = {
    "approve": lambda ids: [approve(ids[0]), approve(ids[1])],
    "reject": lambda ids: [reject(ids[0]), reject(ids[1])],
    "cancel": lambda ids: [cancel(ids[0]), cancel(ids[1])],
    "approve one and reject one": lambda ids: [approve(ids[0]), reject(ids[1])],
}


def said(answer: Answer) -> tuple[list[str], str, list[str]]:
    """Return what a replay must repeat."""
    return answer.results, answer.text, answer.ids


def served(found: Sequence[Answer], in_progress: str) -> Answer:
    """Return the one answer of several that is no repeat; the others are replays of it, or were told to wait."""
    (first,) = [answer for answer in found if answer.code is None and not answer.is_replay]
    for answer in found:
        assert answer.code in {None, in_progress}, answer.events[-1]
        if answer.is_replay:
            assert said(answer) == said(first)
    return first


@pytest.mark.parametrize("case", DECISIONS)
async def test_an_answer_that_client_and_load_balancer_both_repeat_is_served_once(
    hosts: Hosts, bank: Bank, case: str
) -> None:
    async def answer(thread: str) -> None:
        asked = await hosts.a.send(says(thread, f"wire INV-{thread}-1 and INV-{thread}-2 to ACME (outage {thread})"))
        one = answers(thread, *DECISIONS[case](asked.ids))
        other = answers(thread, *DECISIONS[case](asked.ids))
        sent = [(hosts.a, one), (hosts.b, one), (hosts.b, other), (hosts.c, other)]
        first = served(await asyncio.gather(*(host.send(body) for host, body in sent)), RESUME_IN_PROGRESS)
        for host in (hosts.a, hosts.b, hosts.c):
            for body in (one, other):
                repeated = await host.send(body)
                assert (repeated.is_replay, said(repeated)) == (True, said(first))
        assert bank.model_calls[thread] == (case != "cancel")

    threads = [f"t{number}" for number in range(THREADS)]
    await asyncio.gather(*map(answer, threads))

    approved = {"approve": ("1", "2"), "approve one and reject one": ("1",)}.get(case, ())
    expected = [(f"INV-{thread}-{number}", "ACME") for thread in threads for number in approved]
    assert sorted(await bank.paid()) == expected


@pytest.mark.parametrize("words", ["look up INV-1", "look up INV-1 then pay INV-2 to ACME"], ids=["ends", "pauses"])
async def test_a_run_that_client_and_load_balancer_both_repeat_runs_once(hosts: Hosts, bank: Bank, words: str) -> None:
    async def run(thread: str) -> None:
        body = says(thread, f"{words} (outage {thread})")
        found = await asyncio.gather(*(host.send(body) for host in (hosts.a, hosts.b, hosts.c)))
        first = served(found, RUN_IN_PROGRESS)
        for host in (hosts.a, hosts.b):
            repeated = await host.send(body)
            assert (repeated.is_replay, said(repeated)) == (True, said(first))
        assert bank.model_calls[thread] == 1
        shown = await hosts.c.show(thread)
        assert [message["role"] for message in shown.messages].count("user") == 1
        assert shown.ids == first.ids

    await asyncio.gather(*(run(f"t{number}") for number in range(THREADS)))

    assert await bank.paid() == []


async def test_a_run_repeated_while_it_runs_waits_and_then_gets_the_replay(hosts: Hosts, bank: Bank) -> None:
    body = says("t", "look up INV-1 (outage o)")
    stop = hosts.a.steps.stop_at("before-finish")
    running = asyncio.create_task(hosts.a.send(body))
    await stop.wait()

    same = await hosts.b.send(body)
    other = await hosts.b.send({**says("t", "look up INV-2"), "runId": body["runId"]})
    stop.go.set()
    first = await running
    repeated = await hosts.b.send(body)

    assert [same.code, other.code] == [RUN_IN_PROGRESS, "RUN_ID_CONFLICT"]
    assert (repeated.is_replay, said(repeated)) == (True, said(first))
    assert bank.model_calls["o"] == 1
    assert [message["role"] for message in (await hosts.c.show("t")).messages].count("user") == 1


async def test_a_run_repeated_with_the_history_it_has_by_now_is_the_same_run(hosts: Hosts, bank: Bank) -> None:
    """Clients resend what they know: what a run is known by is what was new in it."""
    await hosts.a.send(says("t", "look up INV-1"))
    body = says("t", "look up INV-2 (outage o)")
    first = await hosts.b.send(body)
    earlier = (await hosts.c.show("t")).messages[:-4]
    assert [message["role"] for message in earlier] == ["user", "assistant", "tool", "assistant"]

    repeated = await hosts.c.send({**body, "messages": [*earlier, *body["messages"]]})

    assert (repeated.is_replay, said(repeated)) == (True, said(first))
    assert bank.model_calls["o"] == 1
