"""Mixed batches: every way of answering one to five calls of every kind in one resume, with and without a sibling.

One and two calls are answered in all ways there are; of more, a sample in which every two choices meet: how a call is
answered, which tool it is of, whether a sibling that nobody approves stands beside it, and in which order the answers
come.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import pytest

from app.answers import approval_digest, canonical
from stores.records import EffectState
from tests.host.answers import Answer
from tests.host.bank import Bank
from tests.host.bodies import Json, answers, approve, cancel, reject, says
from tests.host.hosts import Hosts, key_of
from tests.host.strict import exchanges
from tests.host.worlds import memory_world

SEED = 7082
AT_ONCE = 8
"""Threads that are answered at the same time."""
WAYS = ("approve", "edit", "reject", "cancel")
WORDS = {"pay_invoice": "pay {} to ACME", "wire_transfer": "wire {} to ACME", "refund_invoice": "refund {}"}
REJECTED = "Error: Tool call invocation was rejected by user."
CANCELLED = "The approval was cancelled; the call was not run."


@dataclass(frozen=True, slots=True)
class Case:
    """One batch: per call its tool and how it is answered; `order` is the order of the answers."""

    thread: str
    tools: tuple[str, ...]
    ways: tuple[str, ...]
    has_sibling: bool
    order: tuple[int, ...]

    @property
    def words(self) -> str:
        """What asks for the batch. The model is asked about an outage, named like the thread, after its tools."""
        calls = [WORDS[tool].format(self.shown(place)["invoice"]) for place, tool in enumerate(self.tools)]
        if self.has_sibling:
            calls.insert(len(calls) // 2, "look up INV-9")
        return f"{' and '.join(calls)} (outage {self.thread})"

    def shown(self, place: int) -> dict[str, str]:
        """Return the arguments that the card of a call shows."""
        payee = {} if self.tools[place] == "refund_invoice" else {"payee": "ACME"}
        return {"invoice": f"INV-{self.thread}-{place}", **payee}

    def executed(self, place: int) -> dict[str, str] | None:
        """Return the arguments that a call is to run with; None if it is not to run."""
        if self.ways[place] == "edit":
            return {name: f"{value}-edited" for name, value in self.shown(place).items()}
        return self.shown(place) if self.ways[place] == "approve" else None

    def entries(self, ids: Sequence[str]) -> list[Json]:
        """Return the answers."""
        return [self._entry(place, ids[place]) for place in self.order]

    def _entry(self, place: int, interrupt: str) -> Json:
        match self.ways[place]:
            case "edit":
                return approve(interrupt, editedArgs=self.executed(place))
            case "approve":
                return approve(interrupt)
            case way:
                return {"reject": reject, "cancel": cancel}[way](interrupt)


def all_cases(count: int, tools: Sequence[str]) -> Iterator[Case]:
    """Return every way of answering so many calls, with and without a sibling."""
    for number, (ways, has_sibling) in enumerate(product(product(WAYS, repeat=count), (False, True))):
        chosen = tuple(tools[(number + place) % len(tools)] for place in range(count))
        order = tuple(range(count))[:: -1 if number % 3 else 1]
        yield Case(f"all-{count}-{number}", chosen, ways, has_sibling, order)


def sampled_cases(count: int, tools: Sequence[str]) -> Iterator[Case]:
    """Return few ways of answering so many calls, in which every two choices meet; the same with every run."""
    rng = random.Random(SEED + count)
    choices: list[Sequence[Any]] = [*[WAYS] * count, *[tools] * count, (False, True)]
    unmet = {
        frozenset({(one, first), (other, second)})
        for (one, these), (other, those) in combinations(enumerate(choices), 2)
        for first, second in product(these, those)
    }
    number = 0
    while unmet:
        chosen = max(([rng.choice(each) for each in choices] for _ in range(40)), key=lambda it: len(met(it) & unmet))
        unmet -= met(chosen)
        order = tuple(rng.sample(range(count), count))
        yield Case(f"some-{count}-{number}", tuple(chosen[count:-1]), tuple(chosen[:count]), chosen[-1], order)
        number += 1


def met(chosen: Sequence[Any]) -> set[frozenset[tuple[int, Any]]]:
    """Return every two choices that one case makes."""
    return {frozenset(pair) for pair in combinations(enumerate(chosen), 2)}


async def try_all(hosts: Hosts, bank: Bank, cases: Sequence[Case]) -> None:
    """Try each case in a thread of its own, and count in the end what really happened."""
    for start in range(0, len(cases), AT_ONCE):
        await asyncio.gather(*(try_one(hosts, bank, case) for case in cases[start : start + AT_ONCE]))
    expected = [
        (tool, case.executed(place))
        for case in cases
        for place, tool in enumerate(case.tools)
        if case.executed(place) is not None
    ]
    happened = [("pay_invoice", paid_by(each)) for each in await bank.payments()]
    happened += [("wire_transfer", paid_by(each)) for each in await bank.wires()]
    happened += [("refund_invoice", {"invoice": invoice}) for invoice in await refunded(hosts)]
    assert sorted(happened, key=str) == sorted(expected, key=str)
    assert await bank.calls() == len([tool for tool, _ in expected if tool != "refund_invoice"])


async def try_one(hosts: Hosts, bank: Bank, case: Case) -> None:
    asked = await hosts.a.send(says(case.thread, case.words))
    assert [shown_by(card) for card in asked.interrupts] == [case.shown(place) for place in range(len(case.tools))]
    entries = case.entries(asked.ids)
    if len(entries) > 1:
        partial = await hosts.c.send(answers(case.thread, *entries[1:]))
        left_out = entries[0]["interruptId"]
        assert (partial.code, left_out in partial.message) == ("APPROVAL_RESUME_MISSING_INTERRUPT", True), case

    body = answers(case.thread, *entries)
    answered = await hosts.b.send(body)

    assert (answered.code, answered.ids, answered.is_replay) == (None, [], False), (case, answered.events[-1])
    is_asked_again = set(case.ways) != {"cancel"}
    assert bank.model_calls[case.thread] == is_asked_again, case
    await assert_ledger(hosts, case, asked)
    shown = await hosts.c.show(case.thread)
    assert_history(case, shown.messages)
    assert answered.messages == shown.messages, case
    await assert_repeats(hosts, case, body, answered)
    assert bank.model_calls[case.thread] == is_asked_again, case
    after = await hosts.c.send(says(case.thread, "look up INV-3"))
    assert "look_up_invoice INV-3: Invoice INV-3: " in after.text, (case, after.events[-1])
    assert_history(case, after.messages)


async def assert_ledger(hosts: Hosts, case: Case, asked: Answer) -> None:
    """What ran has, in its row, the digest of exactly what was approved; what did not is closed for good."""
    rows = await hosts.a.stores.effects.read(key_of(case.thread), interrupts=asked.ids)
    for place, interrupt in enumerate(asked.ids):
        executed, row = case.executed(place), rows[interrupt]
        if executed is None:
            assert row.state is EffectState.CLOSED, (case, place)
        else:
            assert row.state is EffectState.SETTLED, (case, place)
            assert row.digest == approval_digest(case.tools[place], canonical(executed)), (case, place)


def assert_history(case: Case, messages: Sequence[Json]) -> None:
    """Every call of the batch has one result, and it is that of what was decided about it."""
    found = exchanges(messages)
    gated = [(tool, result) for tool, result in found if tool != "look_up_invoice"]
    assert [tool for tool, _ in gated] == list(case.tools), case
    for place, (_, result) in enumerate(gated):
        executed = case.executed(place)
        if executed is not None:
            assert result.startswith(("Paid ", "Wired ", "Refunded ")), (case, place, result)
            assert executed["invoice"] in re.split(r"[ .]", result), (case, place, result)
        else:
            assert result == (CANCELLED if case.ways[place] == "cancel" else REJECTED), (case, place, result)
    sibling = [result for tool, result in found if tool == "look_up_invoice" and "INV-9" in result]
    assert len(sibling) == (case.has_sibling and set(case.ways) != {"cancel"}), case


async def assert_repeats(hosts: Hosts, case: Case, body: Json, answered: Answer) -> None:
    """The same answers are replayed; one that differs is refused."""
    for again in (body, {**body, "runId": f"again-{case.thread}"}):
        repeated = await hosts.c.send(again)
        assert repeated.is_replay, (case, repeated.events[-1])
        assert (repeated.results, repeated.text) == (answered.results, answered.text), case
    interrupt = body["resume"][0]["interruptId"]
    other = reject(interrupt) if case.ways[case.order[0]] != "reject" else approve(interrupt)
    refused = await hosts.a.send(answers(case.thread, other, *body["resume"][1:]))
    assert refused.code == "APPROVAL_RESUME_CONFLICT", (case, refused.events[-1])


def shown_by(card: Json) -> dict[str, str]:
    arguments: dict[str, str] = card["metadata"]["agent_framework"]["function_call"]["arguments"]
    return arguments


def paid_by(order: dict[str, Any]) -> dict[str, str]:
    return {"invoice": order["invoice"], "payee": order["payee"]}


async def refunded(hosts: Hosts) -> list[str]:
    """Return the invoice of every refund, which are rows beside the hosts' own."""
    return re.findall(r"^demo_refunds: .*'(INV-[^']+)'", await hosts.dump(), re.MULTILINE)


@pytest.fixture
async def memory_hosts(bank: Bank) -> AsyncIterator[Hosts]:
    """Hosts over the world in which a case costs least."""
    async with memory_world() as world, AsyncExitStack() as stack:
        hosts = Hosts(world, bank.url, stack)
        hosts.a, hosts.b = await hosts.start(), await hosts.start()
        hosts.c = hosts.a
        yield hosts


@pytest.mark.parametrize("count", [1, 2])
async def test_every_way_of_answering_one_or_two_calls(memory_hosts: Hosts, bank: Bank, count: int) -> None:
    await try_all(memory_hosts, bank, list(all_cases(count, ["pay_invoice", "wire_transfer"])))


@pytest.mark.parametrize("count", [3, 4, 5])
async def test_a_sample_of_all_ways_of_answering_more_calls(memory_hosts: Hosts, bank: Bank, count: int) -> None:
    await try_all(memory_hosts, bank, list(sampled_cases(count, ["pay_invoice", "wire_transfer"])))


async def test_a_sample_of_all_ways_of_answering_calls_of_every_kind(hosts: Hosts, bank: Bank) -> None:
    tools = list(WORDS) if hosts.is_transactional else ["pay_invoice", "wire_transfer"]

    await try_all(hosts, bank, list(sampled_cases(2, tools)))
