"""A tool may say how long its approvals may be answered; what expires in a pause does not hold up the rest of it."""

from __future__ import annotations

from typing import Any

import pytest
from agent_framework import Agent, SupportsChatGetResponse

from app.agents.payments import PaymentTools
from app.tools import gated, unsafe
from stores.records import EffectState, OccurrenceState
from tests.host.agents import serve
from tests.host.answers import Answer
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, cancel, reject, says
from tests.host.hosts import Hosts, key_of

EXPIRED = "APPROVAL_RESUME_EXPIRED"
BRIEF_SECONDS = 0.05
CANCELLED_TEXT = "The approval was cancelled; the call was not run."
EXPIRED_TEXT = "The approval expired before it was answered; the call was not run."


@gated(unsafe(), expires_seconds=BRIEF_SECONDS)
async def wire_transfer(invoice: str, payee: str) -> str:
    """Wire at a rate that does not hold for long."""
    return f"Wired {invoice} to {payee}."


@pytest.fixture(autouse=True)
def _agent(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(client: SupportsChatGetResponse, tools: PaymentTools) -> Agent[Any]:
        return Agent(client, "", name="payments", tools=[tools.look_up_invoice, tools.pay_invoice, wire_transfer])

    serve(monkeypatch, build)


async def ask_and_wait(hosts: Hosts, words: str) -> tuple[Answer, list[str], list[str]]:
    """Ask, wait until the brief ones have expired, and return the ids that expired and those that are open."""
    asked = await hosts.a.send(says("t", words))
    occurrences = (await hosts.loaded("t")).record.occurrences
    brief = [each for each in occurrences if each.tool == "wire_transfer"]

    async def is_past() -> bool:
        return (await hosts.loaded("t")).now > max(each.expires_at for each in brief)

    await hosts.until(is_past)
    late = [each.interrupt_id for each in brief]
    return asked, late, [name for name in asked.ids if name not in late]


async def test_each_call_of_a_pause_has_the_time_that_its_tool_gives(hosts: Hosts) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME and wire INV-2 to ACME"))

    record = (await hosts.loaded("t")).record
    seconds = {each.tool: each.expires_at - each.created_at for each in record.occurrences}
    assert seconds == pytest.approx({"pay_invoice": 86_400.0, "wire_transfer": BRIEF_SECONDS})
    shown = {card["id"]: card["expiresAt"] for card in asked.interrupts}
    by_tool = {each.tool: shown[each.interrupt_id] for each in record.occurrences}
    assert by_tool["wire_transfer"] < by_tool["pay_invoice"]


async def test_an_answer_to_what_expired_names_it_and_changes_nothing(hosts: Hosts, bank: Bank) -> None:
    _, late, rest = await ask_and_wait(hosts, "pay INV-1 to ACME and wire INV-2 and INV-3 to ACME")
    before = await hosts.dump()

    for decide in (approve, reject, cancel):
        refused = await hosts.b.send(answers("t", *map(decide, [*rest, *late])))
        assert (refused.code, refused.metadata["definite"]) == (EXPIRED, hosts.is_certain)
        assert ([name in refused.message for name in late], rest[0] in refused.message) == ([True, True], False)

    assert (await hosts.c.show("t")).ids == rest
    assert (await hosts.dump(), await bank.paid()) == (before, [])


async def test_the_others_are_answered_without_what_expired(hosts: Hosts, bank: Bank) -> None:
    _, late, rest = await ask_and_wait(hosts, "pay INV-1 to ACME and wire INV-2 to ACME")
    body = answers("t", *map(approve, rest))

    answered = await hosts.b.send(body)

    assert (answered.code, await bank.paid(), await hosts.is_closed("t")) == (None, [("INV-1", "ACME")], True)
    assert f"wire_transfer INV-2: {EXPIRED_TEXT}" in answered.text
    assert EXPIRED_TEXT in answered.results
    shown = (await hosts.a.show("t")).messages
    assert [each["content"] for each in shown if each["role"] == "tool" and "expired" in each["content"]] == [
        EXPIRED_TEXT
    ]
    rows = await hosts.a.stores.effects.read(key_of("t"), interrupts=late)
    assert [(row.state, row.why) for row in rows.values()] == [(EffectState.CLOSED, "expired")]
    known = (await hosts.a.stores.threads.load(key_of("t"), interrupts=late)).known
    assert known is not None
    assert {each.tool: each.state for each in known.outcomes} == {
        "pay_invoice": OccurrenceState.FINISHED,
        "wire_transfer": OccurrenceState.EXPIRED,
    }
    assert (await hosts.c.send(body)).is_replay
    assert (await hosts.c.send(answers("t", *map(approve, late)))).code == EXPIRED


async def test_what_is_still_open_must_be_answered(hosts: Hosts) -> None:
    _, late, rest = await ask_and_wait(hosts, "pay INV-1 and INV-2 and INV-3 to ACME and wire INV-4 to ACME")

    refused = await hosts.b.send(answers("t", approve(rest[0])))

    assert refused.code == "APPROVAL_RESUME_MISSING_INTERRUPT"
    assert [name in refused.message for name in (*rest, *late)] == [False, True, True, False]
    assert (await hosts.c.send(says("t", "hello"))).code == "APPROVAL_RESUME_REQUIRED"


async def test_cancelling_what_is_open_tells_what_was_cancelled_and_what_expired(hosts: Hosts, bank: Bank) -> None:
    _, _, rest = await ask_and_wait(hosts, "pay INV-1 to ACME and wire INV-2 to ACME")

    assert (await hosts.b.send(answers("t", *map(cancel, rest)))).code is None

    shown = await hosts.c.show("t")
    assert [message["content"] for message in shown.messages if message["role"] == "tool"] == [
        CANCELLED_TEXT,
        EXPIRED_TEXT,
    ]
    assert (await hosts.a.send(says("t", "hello"))).code is None
    assert await bank.paid() == []


async def test_a_run_that_failed_beside_what_expired_goes_on_with_the_same_answer(hosts: Hosts, bank: Bank) -> None:
    _, late, rest = await ask_and_wait(hosts, "pay INV-1 to ACME and wire INV-2 to ACME (outage o)")
    await bank.break_model("o", times=1)
    body = answers("t", *map(approve, rest))
    assert (await hosts.b.send(body)).code == "RUN_FAILED"

    assert (await hosts.c.send(answers("t", *map(approve, [*rest, *late])))).code == EXPIRED
    assert (await hosts.c.send(body)).code is None

    assert (await bank.paid(), await hosts.is_closed("t")) == ([("INV-1", "ACME")], True)


async def test_a_pause_in_which_everything_expired_ends_whatever_the_setting_says(hosts: Hosts, bank: Bank) -> None:
    _, late, _ = await ask_and_wait(hosts, "wire INV-1 to ACME")

    assert (await hosts.b.send(says("t", "hello"))).code is None

    assert (await hosts.c.send(answers("t", *map(approve, late)))).code == EXPIRED
    assert await bank.paid() == []
