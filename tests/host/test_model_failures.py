"""A model that fails after a tool costs no effect: the same answer, sent again anywhere, goes on from the results."""

from __future__ import annotations

import pytest

from tests.host.bank import Bank
from tests.host.bodies import answers, approve, reject, says
from tests.host.hosts import Hosts

DOES = {
    "idempotent": ("pay INV-1 to ACME", "Paid INV-1 to ACME, receipt payment-1."),
    "unsafe": ("wire INV-1 to ACME", "Wired INV-1 to ACME, receipt wire-1."),
    "transactional": ("refund INV-1", "Refunded INV-1."),
}


@pytest.mark.parametrize("kind", DOES)
@pytest.mark.parametrize("failures", [1, 2])
async def test_the_same_answer_goes_on_after_the_model_failed(
    hosts: Hosts, bank: Bank, kind: str, failures: int
) -> None:
    if kind == "transactional" and not hosts.is_transactional:
        pytest.skip("these stores offer no transactions to tools")
    words, result = DOES[kind]
    asked = await hosts.a.send(says("t", f"{words} (outage o)"))
    body = answers("t", approve(*asked.ids))
    await bank.break_model("o", times=failures)

    for host in (hosts.b, hosts.c)[:failures]:
        failed = await host.send(body)
        assert (failed.code, failed.metadata["definite"]) == ("RUN_FAILED", False)
        assert (await hosts.a.show("t")).states == ["decided"]
    finished = await hosts.a.send(body)

    assert (finished.code, finished.is_replay) == (None, False)
    assert finished.results == [result]
    assert f"INV-1: {result}" in finished.text
    assert await effects_of(hosts, bank) == 1
    assert (await hosts.b.send(body)).is_replay
    assert await bank.calls() == (0 if kind == "transactional" else 1)


@pytest.mark.parametrize("failures", [1, 2])
async def test_a_mixed_batch_goes_on_after_the_model_failed(hosts: Hosts, bank: Bank, failures: int) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 and INV-2 to ACME and look up INV-9 (outage o)"))
    body = answers("t", approve(asked.ids[0]), reject(asked.ids[1]))
    await bank.break_model("o", times=failures)

    for host in (hosts.b, hosts.c)[:failures]:
        assert (await host.send(body)).code == "RUN_FAILED"
    finished = await hosts.a.send(body)

    assert finished.code is None
    assert "pay_invoice INV-1: Paid INV-1 to ACME, receipt payment-1." in finished.text
    assert "pay_invoice INV-2: Error: Tool call invocation was rejected by user." in finished.text
    assert "look_up_invoice INV-9: Invoice INV-9: " in finished.text
    assert await bank.paid() == [("INV-1", "ACME")]
    assert await bank.calls() == 1
    assert (await hosts.c.send(says("t", "hello"))).code is None


async def test_other_decisions_are_refused_while_an_answer_waits_to_be_sent_again(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME (outage o)"))
    await bank.break_model("o", times=1)
    await hosts.b.send(answers("t", approve(*asked.ids)))

    rejected = await hosts.c.send(answers("t", reject(*asked.ids)))
    new = await hosts.c.send(says("t", "hello"))

    assert (rejected.code, rejected.metadata["definite"]) == ("APPROVAL_RESUME_CONFLICT", False)
    assert (new.code, new.metadata["definite"]) == ("APPROVAL_RESUME_REQUIRED", False)
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_an_answer_may_be_sent_again_under_another_run_id(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME (outage o)"))
    await bank.break_model("o", times=1)
    body = answers("t", approve(*asked.ids))
    await hosts.b.send(body)

    finished = await hosts.c.send({**body, "runId": "another"})

    assert (finished.code, finished.results) == (None, ["Wired INV-1 to ACME, receipt wire-1."])
    assert await bank.paid() == [("INV-1", "ACME")]
    assert (await hosts.a.send(body)).is_replay


async def test_a_plain_run_whose_model_failed_may_be_sent_again(hosts: Hosts, bank: Bank) -> None:
    body = says("t", "look up INV-1 then pay INV-2 to ACME (outage o)")
    await bank.break_model("o", times=1)

    failed = await hosts.a.send(body)
    assert failed.code == "RUN_FAILED"
    assert (await hosts.b.show("t")).messages == []

    asked = await hosts.b.send(body)
    assert len(asked.ids) == 1
    assert [message["role"] for message in asked.messages].count("user") == 1


async def test_a_failed_plain_run_leaves_the_thread_to_other_messages(hosts: Hosts, bank: Bank) -> None:
    await bank.break_model("o", times=1)
    assert (await hosts.a.send(says("t", "look up INV-1 (outage o)"))).code == "RUN_FAILED"

    assert "look_up_invoice INV-2" in (await hosts.b.send(says("t", "look up INV-2"))).text


async def effects_of(hosts: Hosts, bank: Bank) -> int:
    """Count what really happened: at the bank, and in the hosts' own database."""
    return len(await bank.paid()) + (await hosts.dump()).count("demo_refunds: ")
