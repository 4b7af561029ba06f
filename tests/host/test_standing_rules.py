"""What a person approved for later calls too runs unasked: in its thread, for its tool as it was, and shown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from agent_framework import (
    Agent,
    ChatResponseUpdate,
    Content,
    Message,
    SupportsChatGetResponse,
    ToolApprovalMiddleware,
)

from app import standing
from app.agents.payments import PaymentTools
from app.agents.scripted import ScriptedChatClient
from app.tools import gated, unsafe
from tests.host.agents import serve
from tests.host.bank import Bank
from tests.host.bodies import ROADS, answers, approve, cancel, looks, reject, says
from tests.host.hosts import Hosts, key_of
from tests.host.ruled import give_rule, ruled, rules_of

NOTHING = "INV-0"


class TerseModel(ScriptedChatClient):
    """Calls a tool with no arguments where it is told to pay INV-0."""

    async def _updates(
        self, messages: Sequence[Message], options: Mapping[str, Any]
    ) -> AsyncIterator[ChatResponseUpdate]:
        async for update in super()._updates(messages, options):
            for content in update.contents:
                if content.type == "function_call" and NOTHING in str(content.arguments):
                    content.arguments = "{}"
            yield update


@pytest.fixture(autouse=True)
def _agent(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, ruled())


async def test_a_rule_for_a_tool_lets_its_next_call_run_in_the_same_run(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME then wire INV-2 to Bolt then look up INV-9"))

    answered = await hosts.b.send(answers("t", approve(*asked.ids, standingRule="tool")))

    assert (answered.code, answered.ids, answered.of("CUSTOM")) == (None, [], [])
    assert answered.results[:2] == ["Wired INV-1 to ACME, receipt wire-1.", "Wired INV-2 to Bolt, receipt wire-2."]
    assert "look_up_invoice INV-9: Invoice INV-9: " in answered.text
    assert await bank.paid() == [("INV-1", "ACME"), ("INV-2", "Bolt")]
    assert (await hosts.c.send(says("t", "hello"))).code is None


async def test_a_rule_outlives_its_run_and_is_shown_wherever_the_thread_is(hosts: Hosts, bank: Bank) -> None:
    interrupt = await give_rule(hosts, "wire INV-1 to ACME")

    shown = await hosts.c.show("t")
    later = await hosts.c.send(says("t", "wire INV-2 to Bolt"))

    rule = {"tool": "wire_transfer", "arguments": None, "interruptId": interrupt}
    assert shown.metadata["standingRules"] == later.metadata["standingRules"] == [rule]
    assert (later.ids, later.results) == ([], ["Wired INV-2 to Bolt, receipt wire-2."])
    assert (await hosts.b.show("t")).messages == later.messages


async def test_each_call_of_a_rule_has_a_row_of_its_own_and_a_repeat_of_its_run_replays_all(
    hosts: Hosts, bank: Bank
) -> None:
    await give_rule(hosts, "pay INV-1 to ACME")
    body = says("t", "pay INV-2 and INV-3 to ACME then pay INV-4 to ACME")

    ran = await hosts.a.send(body)
    replayed = await hosts.b.send(body)

    keys = [str(each["key"]) for each in await bank.payments()]
    rows = await hosts.c.stores.effects.read(key_of("t"), interrupts=keys)
    assert (len(set(keys)), {row.state.value for row in rows.values()}, len(rows)) == (4, {"settled"}, 4)
    assert (replayed.is_replay, replayed.results, replayed.text) == (True, ran.results, ran.text)
    assert rules_of(replayed) == rules_of(ran) == [("pay_invoice", None)]
    assert rules_of(replayed) == rules_of(ran) == [("pay_invoice", None)]
    assert len(ran.results) == 3
    assert await bank.calls() == 4
    assert (await hosts.c.send({**body, "messages": says("t", "other")["messages"]})).code == "RUN_ID_CONFLICT"


async def test_a_rule_for_one_exact_call_approves_no_other_of_its_tool(hosts: Hosts, bank: Bank) -> None:
    await give_rule(hosts, "wire INV-1 to ACME", "tool_with_arguments")

    again = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    other = await hosts.b.send(says("t", "wire INV-1 to Bolt"))

    assert rules_of(again) == [("wire_transfer", {"invoice": "INV-1", "payee": "ACME"})]
    assert (again.ids, len(other.ids)) == ([], 1)
    assert await bank.paid() == [("INV-1", "ACME"), ("INV-1", "ACME")]


async def test_a_rule_for_one_exact_call_is_for_the_arguments_that_were_edited(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    await hosts.b.send(answers("t", approve(*asked.ids, payee="Bolt", standingRule="tool_with_arguments")))

    as_shown = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    await hosts.a.send(answers("t", reject(*as_shown.ids)))
    as_edited = await hosts.b.send(says("t", "wire INV-1 to Bolt"))

    assert (len(as_shown.ids), as_edited.ids) == (1, [])
    assert await bank.paid() == [("INV-1", "Bolt"), ("INV-1", "Bolt")]


async def test_a_rule_for_a_call_without_arguments_is_for_no_call_with_some(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty set of arguments is none, and never any."""
    ran: list[str] = []

    @gated(unsafe())
    async def pay_invoice(invoice: str = "", payee: str = "") -> str:
        """Pay what is open."""
        ran.append(invoice)
        return "Paid."

    def build(client: SupportsChatGetResponse, tools: PaymentTools) -> Agent[Any]:
        return Agent(TerseModel(), name="payments", tools=[pay_invoice], middleware=[ToolApprovalMiddleware()])

    serve(monkeypatch, build)
    first, second = await hosts.start(), await hosts.start()
    asked = await first.send(says("t", "pay INV-0 to nobody"))
    given = await second.send(answers("t", approve(*asked.ids, standingRule="tool_with_arguments")))
    assert rules_of(given) == [("pay_invoice", {})]

    without = await first.send(says("t", "pay INV-0 to nobody"))
    with_some = await second.send(says("t", "pay INV-2 to ACME"))

    assert (without.ids, len(with_some.ids)) == ([], 1)
    assert ran == ["", ""]
    assert rules_of(await first.show("t")) == [("pay_invoice", {})]


async def test_a_rule_is_for_its_own_thread_and_scope_only(hosts: Hosts, bank: Bank) -> None:
    await give_rule(hosts, "wire INV-1 to ACME")

    elsewhere = await hosts.a.send(says("another", "wire INV-1 to ACME"))
    someone = await hosts.b.send(says("t", "wire INV-1 to ACME"), scope="bob")

    assert (len(elsewhere.ids), len(someone.ids)) == (1, 1)
    assert rules_of(elsewhere) == rules_of(someone) == rules_of(await hosts.c.show("t", scope="bob")) == []
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_rule_does_not_approve_a_tool_that_has_changed_since(
    hosts: Hosts, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt = await give_rule(hosts, "pay INV-1 to ACME")

    @gated(unsafe())
    async def pay_invoice(invoice: str, payee: str) -> str:
        """Pay an invoice."""
        return "Paid by the new version."

    def build(client: SupportsChatGetResponse, tools: PaymentTools) -> Agent[Any]:
        return Agent(client, name="payments", tools=[pay_invoice], middleware=[ToolApprovalMiddleware()])

    serve(monkeypatch, build)
    newer = await hosts.start()
    asked = await newer.send(says("t", "pay INV-2 to ACME"))
    before = rules_of(asked)
    answered = await newer.send(answers("t", approve(*asked.ids, standingRule="tool")))
    again = await newer.send(says("t", "pay INV-3 to ACME"))

    assert (len(asked.ids), before) == (1, [("pay_invoice", None)])
    assert [each["interruptId"] for each in answered.metadata["standingRules"]] == asked.ids != [interrupt]
    assert (again.ids, again.results) == ([], ["Paid by the new version."])
    assert await bank.paid() == [("INV-1", "ACME")]


@pytest.mark.parametrize(("decide", "paid"), [(approve, True), (reject, False), (cancel, False)])
async def test_calls_that_a_rule_approves_wait_for_those_that_a_person_answers(
    hosts: Hosts, bank: Bank, decide: Any, paid: bool
) -> None:
    await give_rule(hosts, "wire INV-1 to ACME")

    asked = await hosts.a.send(says("t", "wire INV-2 to ACME and pay INV-3 to ACME and look up INV-9"))

    shown = await hosts.c.show("t")
    assert len(asked.ids) == len(asked.of("CUSTOM")) == 1
    assert shown.interrupts == asked.interrupts
    assert sorted(shown.states) == ["decided", "pending"]
    assert await bank.paid() == [("INV-1", "ACME")]
    assert (await hosts.c.send(says("t", "hello"))).code == "APPROVAL_RESUME_REQUIRED"
    body = answers("t", decide(*asked.ids))
    answered = await hosts.b.send(body)
    assert (answered.code, answered.ids) == (None, [])
    assert "wire_transfer INV-2: Wired INV-2 to ACME" in answered.text
    assert "look_up_invoice INV-9: Invoice INV-9" in answered.text
    assert ("pay_invoice INV-3: Paid" in answered.text) == paid
    assert (await hosts.c.send(body)).is_replay
    wired = [("INV-1", "ACME"), ("INV-2", "ACME")]
    assert sorted(await bank.paid()) == [*wired, *([("INV-3", "ACME")] if paid else [])]
    assert (await hosts.c.send(says("t", "hello"))).code is None


async def test_a_rule_that_is_taken_back_approves_nothing_more(hosts: Hosts, bank: Bank) -> None:
    first = await give_rule(hosts, "wire INV-1 to ACME")
    second = await give_rule(hosts, "pay INV-2 to ACME")
    body = {**looks("t"), "forwardedProps": {"standingRules": {"revoke": [first, "unknown"]}}}

    revoked = await hosts.b.send(body)
    before = await hosts.dump_threads()
    again = await hosts.c.send(body)

    assert rules_of(revoked) == rules_of(again) == [("pay_invoice", None)]
    assert await hosts.dump_threads() == before
    asked = await hosts.a.send(says("t", "wire INV-3 to ACME"))
    assert len(asked.ids) == 1
    await hosts.a.send(answers("t", reject(*asked.ids)))
    last = says("t", "pay INV-4 to ACME", forwardedProps={"standingRules": {"revoke": [second]}})
    refused = await hosts.b.send(last)
    assert (len(refused.ids), rules_of(refused)) == (1, [])
    assert await bank.paid() == [("INV-2", "ACME"), ("INV-1", "ACME")]


async def test_a_rule_that_is_about_to_be_in_force_is_shown_and_can_not_be_taken_back_yet(
    hosts: Hosts, bank: Bank
) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME (outage o)"))
    body = answers("t", approve(*asked.ids, standingRule="tool"))
    await bank.break_model("o", times=1)
    assert (await hosts.b.send(body)).code == "RUN_FAILED"
    taken_back = {**looks("t"), "forwardedProps": {"standingRules": {"revoke": asked.ids}}}

    refused = await hosts.c.send(taken_back)

    assert refused.code == "THREAD_BUSY"
    [approval] = (await hosts.a.show("t")).metadata["approvals"]
    assert (approval["state"], approval["standingRule"]) == ("decided", "tool")
    assert (await hosts.b.send(body)).code is None
    assert rules_of(await hosts.c.send(taken_back)) == []


async def test_a_malformed_wish_to_take_rules_back_is_refused_whole(hosts: Hosts, bank: Bank) -> None:
    await give_rule(hosts, "wire INV-1 to ACME")

    refused = await hosts.b.send(says("t", "wire INV-2 to ACME", forwardedProps={"standingRules": {"revoke": "all"}}))

    assert refused.code == "APPROVAL_RESUME_INVALID"
    assert rules_of(await hosts.c.show("t")) == [("wire_transfer", None)]
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_rule_that_is_none_is_refused_and_decides_nothing(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))

    refused = await hosts.b.send(answers("t", approve(*asked.ids, standingRule="everything")))

    assert (refused.code, (await hosts.c.show("t")).ids) == ("APPROVAL_RESUME_INVALID", asked.ids)


async def test_an_agent_without_the_middleware_takes_no_rules(
    hosts: Hosts, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(monkeypatch, lambda client, tools: Agent(client, name="payments", tools=[tools.wire_transfer]))
    plain = await hosts.start()
    asked = await plain.send(says("t", "wire INV-1 to ACME"))

    refused = await plain.send(answers("t", approve(*asked.ids, standingRule="tool")))

    assert refused.code == "APPROVAL_RESUME_INVALID"
    assert "standingRule" not in str(asked.interrupts)
    assert await bank.paid() == []


@pytest.mark.parametrize("road", ["resume", "tool message"])
async def test_a_rule_is_part_of_the_answer_by_every_road(hosts: Hosts, bank: Bank, road: str) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    schema = asked.interrupts[0]["responseSchema"]["properties"]["standingRule"]
    assert schema["enum"] == ["tool", "tool_with_arguments"]
    with_rule = ROADS[road]("t", [approve(*asked.ids, standingRule="tool")])

    answered = await hosts.b.send(with_rule)

    assert rules_of(answered) == [("wire_transfer", None)]
    assert (await hosts.c.send(with_rule)).is_replay
    for other in (approve(*asked.ids), approve(*asked.ids, standingRule="tool_with_arguments")):
        assert (await hosts.c.send(ROADS[road]("t", [other]))).code == "APPROVAL_RESUME_CONFLICT"
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_code_may_approve_calls_by_itself_and_code_that_fails_approves_none(
    hosts: Hosts, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_small(call: Content) -> bool:
        return "INV-1" in str(call.arguments)

    def fails(call: Content) -> bool:
        raise RuntimeError("no such rule")

    serve(monkeypatch, ruled(fails, is_small))
    host, another = await hosts.start(), await hosts.start()

    approved = await host.send(says("t", "pay INV-1 to ACME"))
    asked = await host.send(says("t", "pay INV-2 to ACME"))
    answered = await another.send(answers("t", approve(*asked.ids)))

    assert (approved.code, approved.ids, approved.results) == (None, [], ["Paid INV-1 to ACME, receipt payment-1."])
    assert (len(asked.ids), rules_of(asked)) == (1, [])
    assert (answered.code, answered.ids, answered.results) == (None, [], ["Paid INV-2 to ACME, receipt payment-2."])
    assert await bank.paid() == [("INV-1", "ACME"), ("INV-2", "ACME")]


async def test_a_host_that_gates_more_than_the_one_that_asked_refuses_with_one_code_and_asks_no_second_time(
    hosts: Hosts, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stricter one would need an approval of the sibling too, which nobody was asked for."""
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME and look up INV-9"))

    @gated(unsafe())
    async def look_up_invoice(invoice: str) -> str:
        """Say what an invoice is about, to those who may know."""
        return "Secret."

    def build(client: SupportsChatGetResponse, tools: PaymentTools) -> Agent[Any]:
        return Agent(client, name="payments", tools=[tools.wire_transfer, look_up_invoice])

    serve(monkeypatch, build)
    stricter = await hosts.start()
    body = answers("t", approve(*asked.ids))

    refused = [await stricter.send(body) for _ in range(2)]

    assert [each.code for each in refused] == ["APPROVAL_RESUME_STALE"] * 2
    assert "Secret." not in str(refused)
    serve(monkeypatch, ruled())
    answered = await hosts.b.send(body)
    assert (answered.code, answered.ids) == (None, [])
    assert "look_up_invoice INV-9: Invoice INV-9" in answered.text
    assert await bank.paid() == [("INV-1", "ACME")]


@pytest.mark.parametrize("is_resume", [True, False])
async def test_a_model_that_calls_a_ruled_tool_for_ever_is_stopped(
    hosts: Hosts, bank: Bank, monkeypatch: pytest.MonkeyPatch, is_resume: bool
) -> None:
    monkeypatch.setattr(standing, "ROUNDS_MAX", 2)
    calls = " then ".join(f"wire INV-{number} to ACME" for number in range(1, 6))
    asked = await hosts.a.send(says("t", calls if is_resume else "wire INV-1 to ACME"))
    body = answers("t", approve(*asked.ids, standingRule="tool"))
    answered = await hosts.b.send(body)
    if not is_resume:
        assert answered.code is None
        body = says("t", calls)
        answered = await hosts.b.send(body)

    assert (answered.code, answered.metadata["definite"]) == ("LIMIT_EXCEEDED", False)
    assert len(await bank.wires()) == 3
    assert (await hosts.c.send(body)).is_replay
    assert await hosts.is_closed("t")
    assert (await hosts.c.send(says("t", "hello"))).code is None
    assert len(await bank.wires()) == 3
