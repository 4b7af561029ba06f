"""An approval asked on one host is decided on another, and each call gets the decision that was made for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.host.bank import Bank
from tests.host.bodies import ROADS, answers, approve, cancel, reject, says
from tests.host.hosts import Hosts

REJECTED = "Error: Tool call invocation was rejected by user."
PAID_1 = "Paid INV-1 to ACME, receipt payment-1."


async def test_an_approval_asked_on_one_host_is_carried_out_on_another(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))

    answered = await hosts.b.send(answers("t", approve(*asked.ids)))

    assert answered.results == [PAID_1]
    assert f"pay_invoice INV-1: {PAID_1}" in answered.text
    paid = {"key": asked.ids[0], "invoice": "INV-1", "payee": "ACME", "receipt": "payment-1", "calls": 1}
    [payment] = await bank.payments()
    assert payment == {**paid, "at": payment["at"]}


@pytest.mark.parametrize("road", ROADS)
async def test_an_approval_is_taken_by_each_road(hosts: Hosts, bank: Bank, road: str) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))

    answered = await hosts.b.send(ROADS[road]("t", [approve(*asked.ids)]))

    assert (answered.code, answered.results) == (None, [PAID_1])
    assert await bank.paid() == [("INV-1", "ACME")]


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"editedArgs": {"invoice": "INV-7", "payee": "Bolt"}}, id="as a whole"),
        pytest.param({"invoice": "INV-7", "payee": "Bolt"}, id="beside the verdict"),
    ],
)
async def test_edited_arguments_are_what_is_executed(hosts: Hosts, bank: Bank, edit: dict[str, Any]) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))

    answered = await hosts.b.send(answers("t", approve(*asked.ids, **edit)))

    assert answered.results == ["Paid INV-7 to Bolt, receipt payment-1."]
    assert await bank.paid() == [("INV-7", "Bolt")]


async def test_one_edited_argument_leaves_the_others_as_they_were_shown(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))

    await hosts.b.send(answers("t", approve(*asked.ids, payee="Bolt")))

    assert await bank.paid() == [("INV-1", "Bolt")]


async def test_a_rejected_call_does_not_run_and_the_model_is_told_so(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))

    answered = await hosts.b.send(answers("t", reject(*asked.ids)))

    assert answered.results == [REJECTED]
    assert f"wire_transfer INV-1: {REJECTED}" in answered.text
    assert await bank.paid() == []


async def test_a_cancelled_call_does_not_run_and_the_thread_goes_on_elsewhere(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))

    cancelled = await hosts.b.send(answers("t", cancel(*asked.ids)))
    assert (cancelled.code, cancelled.ids) == (None, [])
    assert (await hosts.c.show("t")).ids == []

    # The model refuses a history in which a call has no result.
    again = await hosts.c.send(says("t", "pay INV-2 to ACME"))
    await hosts.a.send(answers("t", approve(*again.ids)))
    assert await bank.paid() == [("INV-2", "ACME")]


@pytest.mark.parametrize("words", ["wire INV-1 to ACME and look up INV-9", "wire INV-1 to ACME (reuse call ids)"])
async def test_a_cancelled_call_says_in_the_transcript_that_it_did_not_run(hosts: Hosts, words: str) -> None:
    earlier = await hosts.a.send(says("t", "wire INV-0 to ACME (reuse call ids)"))
    await hosts.b.send(answers("t", approve(*earlier.ids)))
    asked = await hosts.a.send(says("t", words))

    await hosts.b.send(answers("t", cancel(*asked.ids)))

    shown = await hosts.c.show("t")
    (call_id,) = [card["toolCallId"] for card in asked.interrupts]
    results = [message["content"] for message in shown.messages if message.get("toolCallId") == call_id]
    assert results[-1] == "The approval was cancelled; the call was not run."
    after = await hosts.c.send(says("t", "look up INV-3"))
    assert "look_up_invoice INV-3: Invoice INV-3: " in after.text


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "in reverse"])
async def test_two_gated_calls_and_an_ungated_one_get_their_own_results(
    hosts: Hosts, bank: Bank, order: tuple[int, int]
) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME and look up INV-9 and wire INV-2 to Bolt"))
    assert len(asked.ids) == 2
    assert "look_up_invoice" not in str(asked.interrupts)

    answered = await hosts.b.send(answers("t", *(approve(asked.ids[each]) for each in order)))

    assert answered.code is None
    assert "pay_invoice INV-1: Paid INV-1 to ACME" in answered.text
    assert "look_up_invoice INV-9: Invoice INV-9: " in answered.text
    assert "wire_transfer INV-2: Wired INV-2 to Bolt" in answered.text
    assert await bank.paid() == [("INV-1", "ACME"), ("INV-2", "Bolt")]

    after = await hosts.c.send(says("t", "look up INV-3"))
    assert "look_up_invoice INV-3: Invoice INV-3: " in after.text


@pytest.mark.parametrize("is_first_approved", [True, False])
@pytest.mark.parametrize("sibling", ["", " and look up INV-9"], ids=["alone", "with an ungated sibling"])
async def test_a_batch_may_mix_approval_and_rejection(
    hosts: Hosts, bank: Bank, is_first_approved: bool, sibling: str
) -> None:
    asked = await hosts.a.send(says("t", f"pay INV-1 and INV-2 to ACME{sibling}"))
    first, second = asked.ids
    entries = [approve(first), reject(second)] if is_first_approved else [reject(first), approve(second)]

    answered = await hosts.b.send(answers("t", *entries))

    paid, rejected = ("INV-1", "INV-2") if is_first_approved else ("INV-2", "INV-1")
    assert (answered.code, answered.ids) == (None, [])
    assert f"pay_invoice {paid}: Paid {paid} to ACME" in answered.text
    assert f"pay_invoice {rejected}: {REJECTED}" in answered.text
    assert ("look_up_invoice INV-9" in answered.text) == bool(sibling)
    assert await bank.paid() == [(paid, "ACME")]
    assert (await hosts.c.send(says("t", "hello"))).code is None


async def test_a_batch_may_mix_approval_and_cancellation(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 and INV-2 to ACME"))

    answered = await hosts.b.send(answers("t", approve(asked.ids[0]), cancel(asked.ids[1])))

    assert (answered.code, answered.ids) == (None, [])
    assert "pay_invoice INV-1: Paid INV-1 to ACME" in answered.text
    assert await bank.paid() == [("INV-1", "ACME")]
    assert (await hosts.c.send(says("t", "hello"))).code is None


async def test_a_turn_may_ask_again_after_an_answer(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME then wire INV-2 to Bolt"))

    asked_again = await hosts.b.send(answers("t", approve(*asked.ids)))
    assert asked_again.results == [PAID_1]
    assert len(asked_again.ids) == 1
    assert asked_again.ids != asked.ids
    assert (await hosts.c.show("t")).interrupts == asked_again.interrupts

    answered = await hosts.c.send(answers("t", approve(*asked_again.ids)))
    assert "wire_transfer INV-2: Wired INV-2 to Bolt" in answered.text
    assert await bank.paid() == [("INV-1", "ACME"), ("INV-2", "Bolt")]


async def test_approving_one_call_approves_no_later_one_with_the_same_provider_id(hosts: Hosts, bank: Bank) -> None:
    first = await hosts.a.send(says("t", "pay INV-1 to ACME (reuse call ids)"))
    approval = answers("t", approve(*first.ids))
    await hosts.b.send(approval)
    second = await hosts.a.send(says("t", "pay INV-2 to ACME (reuse call ids)"))
    assert first.interrupts[0]["toolCallId"] == second.interrupts[0]["toolCallId"] == "call_1"
    assert first.ids != second.ids

    assert (await hosts.c.send(approval)).is_replay

    assert await bank.paid() == [("INV-1", "ACME")]
    assert (await hosts.c.show("t")).ids == second.ids


async def test_what_a_thread_approved_approves_nothing_in_another(hosts: Hosts, bank: Bank) -> None:
    here = await hosts.a.send(says("here", "pay INV-1 to ACME"))
    await hosts.a.send(says("there", "pay INV-1 to ACME"))

    refused = await hosts.b.send(answers("there", approve(*here.ids)))

    assert refused.code == "APPROVAL_RESUME_NOT_FOUND"
    assert await bank.paid() == []
