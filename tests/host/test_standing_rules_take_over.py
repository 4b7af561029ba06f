"""A run that standing rules carry on may die, freeze or fail between two calls: each has one effect all the same."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from agent_framework import Agent, SupportsChatGetResponse, ToolApprovalMiddleware

from app.agents.payments import PaymentTools
from stores.ports import Stores
from tests.host.agents import serve
from tests.host.answers import Answer
from tests.host.back_doors import HeldUp, apart
from tests.host.bank import Bank
from tests.host.bodies import Json, answers, approve, cancel, says
from tests.host.hosts import Host, Hosts, Stop
from tests.host.ruled import give_rule, ruled, rules_of

LEASE_SECONDS = 0.3
"""An observer's lease: the other hosts said once that they live, and are dead to it when this has passed."""
IN_PROGRESS = "APPROVAL_RESUME_IN_PROGRESS"
DOUBT = "APPROVAL_OUTCOME_INDETERMINATE"
FIRST, SECOND = "Paid INV-1 to ACME, receipt payment-1.", "Paid INV-2 to Bolt, receipt payment-2."
PAID = [("INV-1", "ACME"), ("INV-2", "Bolt")]


@pytest.fixture(autouse=True)
def _agent(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, ruled())


async def stop_in_second_round(host: Host, body: Json, step: str) -> tuple[Stop, asyncio.Task[Answer]]:
    """Let a host carry out what a person approved, and freeze it at a step of the call that a rule approves then."""
    first = host.steps.stop_at("before-model")
    answering = asyncio.create_task(host.send(body))
    await first.wait()
    second = host.steps.stop_at(step)
    first.go.set()
    await second.wait()
    return second, answering


async def asked_for_two(hosts: Hosts, verb: str = "pay", *, outage: str = "") -> Json:
    """Return the answer that approves the first of two calls, with a rule that approves the second."""
    asked = await hosts.a.send(says("t", f"{verb} INV-1 to ACME then {verb} INV-2 to Bolt{outage}"))
    return answers("t", approve(*asked.ids, standingRule="tool"))


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("before-claim", marks=pytest.mark.slow),
        "after-claim",
        pytest.param("before-effect", marks=pytest.mark.slow),
        "after-effect",
        "before-finish",
    ],
)
async def test_what_a_rule_approved_is_carried_on_with_one_effect_after_its_host_died(
    hosts: Hosts, bank: Bank, step: str
) -> None:
    body = await asked_for_two(hosts)
    _, answering = await stop_in_second_round(hosts.b, body, step)

    await hosts.start(lease_seconds=LEASE_SECONDS, reconcile_seconds=0.02)
    await hosts.until(lambda: hosts.is_closed("t"))

    replayed = await hosts.c.send(body)
    assert (replayed.is_replay, replayed.results) == (True, [FIRST, SECOND])
    assert f"pay_invoice INV-2: {SECOND}" in replayed.text
    assert rules_of(await hosts.c.show("t")) == [("pay_invoice", None)]
    hosts.b.steps.let_go()
    assert (await answering).code == IN_PROGRESS
    assert await bank.paid() == PAID
    assert (await hosts.c.send(says("t", "hello"))).code is None


async def test_a_plain_run_that_a_rule_carries_on_keeps_its_id_and_input_over_a_take_over(
    hosts: Hosts, bank: Bank
) -> None:
    await give_rule(hosts, "pay INV-1 to ACME")
    body = says("t", "pay INV-2 to Bolt")
    stop = hosts.b.steps.stop_at("after-claim")
    answering = asyncio.create_task(hosts.b.send(body))
    await stop.wait()
    busy = await hosts.c.send(body)

    await hosts.start(lease_seconds=LEASE_SECONDS, reconcile_seconds=0.02)
    await hosts.until(lambda: hosts.is_closed("t"))

    replayed = await hosts.c.send(body)
    stop.go.set()
    assert (busy.code, (await answering).code) == ("RUN_IN_PROGRESS", "RUN_IN_PROGRESS")
    assert (replayed.is_replay, replayed.results) == (True, [SECOND])
    words = [message["content"] for message in replayed.messages if message["role"] == "user"]
    assert words == ["pay INV-1 to ACME", "pay INV-2 to Bolt"]
    assert await bank.paid() == PAID


async def test_an_unsafe_call_that_a_rule_approved_and_that_had_begun_is_in_doubt(hosts: Hosts, bank: Bank) -> None:
    body = await asked_for_two(hosts, "wire")
    _, answering = await stop_in_second_round(hosts.b, body, "after-effect")

    observer = await hosts.start(lease_seconds=LEASE_SECONDS, reconcile_seconds=0.02)
    await hosts.until(lambda: in_doubt(hosts))

    assert (await hosts.c.send(body)).code == DOUBT
    hosts.b.steps.let_go()
    assert (await answering).code == IN_PROGRESS
    answered = await hosts.answered(observer, body, unless=IN_PROGRESS)
    assert answered.code is None
    assert await bank.paid() == PAID
    assert len(await bank.wires()) == 2


async def test_a_transactional_call_that_a_rule_approved_is_carried_on_with_one_effect(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not hosts.is_transactional:
        pytest.skip("these stores offer no transactions to tools")

    def build(client: SupportsChatGetResponse, tools: PaymentTools) -> Agent[Any]:
        return Agent(client, name="payments", tools=[tools.refund_invoice], middleware=[ToolApprovalMiddleware()])

    serve(monkeypatch, build)
    host = await hosts.start()
    asked = await host.send(says("t", "refund INV-1 then refund INV-2"))
    body = answers("t", approve(*asked.ids, standingRule="tool"))
    _, answering = await stop_in_second_round(host, body, "after-claim")

    observer = await hosts.start(lease_seconds=LEASE_SECONDS, reconcile_seconds=0.02)
    await hosts.until(lambda: hosts.is_closed("t"))

    host.steps.let_go()
    assert (await answering).code == IN_PROGRESS
    assert (await observer.send(body)).results == ["Refunded INV-1.", "Refunded INV-2."]
    assert (await hosts.dump()).count("demo_refunds: ") == 2


async def in_doubt(hosts: Hosts) -> bool:
    return (await hosts.c.show("t")).states == ["indeterminate"]


@pytest.mark.parametrize("ids", [None, "new"], ids=["no message ids", "new message ids"])
async def test_words_that_are_sent_again_under_other_ids_are_not_said_again(
    hosts: Hosts, bank: Bank, ids: str | None
) -> None:
    await give_rule(hosts, "pay INV-1 to ACME")
    body = says("t", "pay INV-2 to Bolt (outage o)")
    await bank.break_model("o", times=2)

    def sent_again() -> Json:
        [message] = body["messages"]
        said = {name: value for name, value in message.items() if name != "id"}
        return {**body, "messages": [{**said, "id": uuid4().hex} if ids else said]}

    failed, again = await hosts.b.send(sent_again()), await hosts.c.send(sent_again())
    answered = await hosts.a.send(sent_again())

    assert (failed.code, again.code, answered.code) == ("RUN_FAILED", "RUN_FAILED", None)
    assert await bank.paid() == PAID
    shown = await hosts.b.show("t")
    assert [each["content"] for each in shown.messages if each["role"] == "user"] == [
        "pay INV-1 to ACME",
        "pay INV-2 to Bolt (outage o)",
    ]


@pytest.mark.parametrize("is_resume", [True, False], ids=["resume", "plain run"])
async def test_the_same_request_continues_a_run_whose_model_failed_after_a_rule(
    hosts: Hosts, bank: Bank, is_resume: bool
) -> None:
    if is_resume:
        body = await asked_for_two(hosts, outage=" (outage o)")
    else:
        await give_rule(hosts, "pay INV-1 to ACME")
        body = says("t", "pay INV-2 to Bolt (outage o)")
    if is_resume:
        stop, answering = await stop_in_second_round(hosts.b, body, "after-effect")
        await bank.break_model("o", times=2)
        stop.go.set()
        failed = await answering
    else:
        await bank.break_model("o", times=2)
        failed = await hosts.b.send(body)

    repeated = await hosts.c.send(body)
    other = {**body, "runId": "another"} if is_resume else says("t", "hello")
    shown = await hosts.a.show("t")
    refused = None if is_resume else await hosts.a.send(other)
    answered = await hosts.a.send(other if is_resume else body)

    assert (failed.code, repeated.code, shown.states) == ("RUN_FAILED", "RUN_FAILED", ["decided"])
    assert refused is None or refused.code == "APPROVAL_RESUME_REQUIRED"
    assert (answered.code, answered.is_replay) == (None, False)
    assert f"pay_invoice INV-2: {SECOND}" in answered.text
    replayed = await hosts.b.send(body)
    assert (replayed.is_replay, replayed.results) == (True, [FIRST, SECOND] if is_resume else [SECOND])
    assert await bank.paid() == PAID
    assert await bank.calls() == 2


async def test_the_same_answer_under_any_run_id_is_in_progress_while_a_rule_carries_it_on(
    hosts: Hosts, bank: Bank
) -> None:
    body = await asked_for_two(hosts)
    stop, answering = await stop_in_second_round(hosts.b, body, "after-claim")

    same, renamed = await hosts.c.send(body), await hosts.a.send({**body, "runId": "another"})
    other = await hosts.c.send(answers("t", approve(body["resume"][0]["interruptId"])))
    revoked = await hosts.c.send(
        says("t", "hello", forwardedProps={"standingRules": {"revoke": [body["resume"][0]["interruptId"]]}})
    )

    stop.go.set()
    assert (await answering).results == [FIRST, SECOND]
    assert [each.code for each in (same, renamed, other, revoked)] == [
        IN_PROGRESS, IN_PROGRESS, "APPROVAL_RESUME_CONFLICT", "THREAD_BUSY"
    ]  # fmt: skip
    assert await bank.paid() == PAID


@pytest.mark.parametrize("is_sent", [True, False])
async def test_a_lost_reply_to_the_write_that_carries_a_run_on_costs_no_effect(
    hosts: Hosts, bank: Bank, is_sent: bool
) -> None:
    """The holder freezes in the very write; an observer with a ledger of its own carries on what it finds."""
    made: list[HeldUp] = []
    await give_rule(hosts, "pay INV-1 to ACME")

    def decorate(stores: Stores) -> Stores:
        made.append(HeldUp(stores.threads, "save", is_sent))
        held: Any = made[0]
        return apart(replace(stores, threads=held))

    holder = await hosts.start(decorate=decorate)
    body = says("t", "pay INV-2 to Bolt")
    answering = asyncio.create_task(holder.send(body))
    await made[0].is_reached()

    await hosts.start(decorate=apart, lease_seconds=LEASE_SECONDS, reconcile_seconds=0.02)
    await hosts.until(lambda: no_claim(hosts))
    made[0].go.set()
    late = await answering
    # To the observer every host is dead: it may take this repeat over too.
    answered = await hosts.answered(hosts.c, body, unless=IN_PROGRESS)

    assert late.code == ("RUN_IN_PROGRESS" if is_sent else "THREAD_BUSY")
    assert (answered.code, answered.results) == (None, [SECOND])
    assert await bank.paid() == PAID


async def no_claim(hosts: Hosts) -> bool:
    return (await hosts.loaded("t")).record.claim is None


async def test_a_run_that_a_rule_carried_on_and_that_fails_for_good_can_be_left(hosts: Hosts, bank: Bank) -> None:
    failing = await hosts.start(reconcile_retries_max=1)
    await give_rule(hosts, "pay INV-1 to ACME")
    await bank.break_model("o", times=9)
    body = says("t", "pay INV-2 to Bolt (outage o)")
    for _ in range(2):
        assert (await failing.send(body)).code == "RUN_FAILED"
    (approval,) = (await hosts.c.show("t")).metadata["approvals"]

    left = await failing.send(answers("t", cancel(approval["interruptId"])))

    assert left.code is None
    assert await hosts.is_closed("t")
    assert (await hosts.c.send(body)).is_replay
    assert await bank.paid() == PAID
