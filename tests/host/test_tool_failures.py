"""What a failed tool means: an error that is recorded once, a repeat with the same key, or a stated doubt."""

from __future__ import annotations

import asyncio

import pytest

from stores.ports import Settled
from stores.records import EffectState, ToolResult
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, reject, says
from tests.host.hosts import Host, Hosts, key_of

DOUBT = "APPROVAL_OUTCOME_INDETERMINATE"
KEY = key_of("t")
TOOL_SECONDS = 0.3
TOO_LONG = "X" * 65


async def test_a_final_error_is_recorded_and_the_model_sees_it_once(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", f"wire INV-1 to {TOO_LONG}"))
    body = answers("t", approve(*asked.ids))

    answered = await hosts.b.send(body)

    # The tool takes no such payee, as the model chose it; the model is told that the call failed.
    assert answered.code is None
    assert len(answered.results) == 1
    assert answered.results[0].startswith("Error: ")
    assert answered.text.count("wire_transfer INV-1: Error: ") == 1
    repeated = await hosts.c.send(body)
    assert (repeated.is_replay, repeated.results, repeated.text) == (True, answered.results, answered.text)
    assert await bank.paid() == []
    assert (await hosts.c.send(says("t", "hello"))).code is None


async def test_what_did_not_happen_is_told_to_the_model_in_its_own_words(hosts: Hosts, bank: Bank) -> None:
    unreachable = await hosts.start(bank_url="http://127.0.0.1:9")
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    body = answers("t", approve(*asked.ids))

    answered = await unreachable.send(body)

    assert answered.results == ["Error: The bank could not be reached; nothing was wired."]
    assert (await hosts.c.send(body)).results == answered.results
    assert await bank.paid() == []


async def test_a_failed_call_does_not_hide_its_siblings_result(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", f"wire INV-1 to {TOO_LONG} and wire INV-2 to ACME"))

    answered = await hosts.b.send(answers("t", *map(approve, asked.ids)))

    assert "wire_transfer INV-1: Error: " in answered.text
    assert "wire_transfer INV-2: Wired INV-2 to ACME" in answered.text
    assert await bank.paid() == [("INV-2", "ACME")]


async def test_an_unsafe_call_that_timed_out_is_in_doubt_and_never_repeated(hosts: Hosts, bank: Bank) -> None:
    hasty = await hosts.start(tool_seconds=TOOL_SECONDS)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    await bank.delay("INV-1", 600)
    body = answers("t", approve(*asked.ids))

    doubtful = await hasty.send(body)

    assert (doubtful.code, doubtful.metadata["definite"]) == (DOUBT, False)
    assert asked.ids[0] in doubtful.message
    before = await hosts.dump()
    for host in (hosts.a, hosts.b, hosts.c):
        assert (await host.show("t")).states == ["indeterminate"]
        assert (await host.send(body)).code == DOUBT
        assert (await host.send({**body, "runId": f"another-{id(host)}"})).code == DOUBT
        assert (await host.send(says("t", "hello"))).code == DOUBT
    assert (await hosts.a.send(answers("t", reject(*asked.ids)))).code == "APPROVAL_RESUME_CONFLICT"
    assert await hosts.dump() == before
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_the_siblings_of_a_call_in_doubt_keep_their_results(hosts: Hosts, bank: Bank) -> None:
    hasty = await hosts.start(tool_seconds=TOOL_SECONDS)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME and pay INV-2 to ACME and wire INV-3 to ACME"))
    await bank.delay("INV-1", 600)
    body = answers("t", approve(asked.ids[0]), approve(asked.ids[1]), reject(asked.ids[2]))

    assert (await hasty.send(body)).code == DOUBT

    shown = await hosts.b.show("t")
    assert sorted(shown.states) == ["decided", "decided", "indeterminate"]
    rows = await hosts.b.stores.effects.read(KEY, interrupts=asked.ids)
    assert {name: row.state for name, row in rows.items()} == dict(
        zip(asked.ids, (EffectState.BEGUN, EffectState.SETTLED, EffectState.CLOSED), strict=True)
    )
    assert sorted(await bank.paid()) == [("INV-1", "ACME"), ("INV-2", "ACME")]


async def test_a_late_settle_ends_the_doubt_and_the_answer_goes_on(hosts: Hosts, bank: Bank) -> None:
    hasty = await hosts.start(tool_seconds=TOOL_SECONDS)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    await bank.delay("INV-1", 600)
    body = answers("t", approve(*asked.ids))
    await hasty.send(body)

    await settle_late(hosts.b, *asked.ids)
    answered = await hosts.c.send(body)

    assert (answered.code, answered.results) == (None, ["Wired after all."])
    assert "wire_transfer INV-1: Wired after all." in answered.text
    assert await bank.paid() == [("INV-1", "ACME")]
    assert (await hosts.a.send(body)).is_replay


async def test_a_late_settle_is_found_by_the_next_message_too(hosts: Hosts, bank: Bank) -> None:
    hasty = await hosts.start(tool_seconds=TOOL_SECONDS)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    await bank.delay("INV-1", 600)
    await hasty.send(answers("t", approve(*asked.ids)))
    await settle_late(hosts.b, *asked.ids)

    refused = await hosts.c.send(says("t", "hello"))

    assert (refused.code, (await hosts.a.show("t")).states) == ("APPROVAL_RESUME_REQUIRED", ["decided"])


async def test_a_late_settle_is_found_by_the_reconciler_too(hosts: Hosts, bank: Bank) -> None:
    hasty = await hosts.start(tool_seconds=TOOL_SECONDS)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    await bank.delay("INV-1", 600)
    body = answers("t", approve(*asked.ids))
    await hasty.send(body)
    await settle_late(hosts.b, *asked.ids)

    await hosts.make_due("t")

    await hosts.start(reconcile_seconds=0.05)
    await hosts.until(lambda: hosts.is_closed("t"))
    answered = await hosts.c.send(body)
    assert (answered.is_replay, answered.results) == (True, ["Wired after all."])


async def test_an_operators_word_that_nothing_happened_lets_the_call_run_again(hosts: Hosts, bank: Bank) -> None:
    hasty = await hosts.start(tool_seconds=TOOL_SECONDS)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    await bank.delay("INV-1", 600)
    body = answers("t", approve(*asked.ids))
    await hasty.send(body)
    await bank.delay("INV-1", 0)

    (row,) = (await hosts.b.stores.effects.read(KEY, interrupts=asked.ids)).values()
    stated = {"by": "operator", "evidence": "the bank has no such wire"}
    await hosts.b.stores.effects.resolve(
        KEY, interrupt_id=asked.ids[0], attempt=row.attempt or "", result=None, **stated
    )
    answered = await hosts.c.send(body)

    assert (answered.code, answered.results) == (None, ["Wired INV-1 to ACME, receipt wire-2."])


@pytest.mark.parametrize("is_late_only_once", [True, False], ids=["late once", "late always"])
async def test_an_idempotent_call_that_timed_out_is_repeated_with_its_key(
    hosts: Hosts, bank: Bank, is_late_only_once: bool
) -> None:
    hasty = await hosts.start(tool_seconds=TOOL_SECONDS)
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    await bank.delay("INV-1", 600)
    body = answers("t", approve(*asked.ids))

    if is_late_only_once:
        answering = asyncio.create_task(hasty.send(body))
        await hosts.until(bank.payments)
        await bank.delay("INV-1", 0)
        answered = await answering
    else:
        failed = await hasty.send(body)
        assert (failed.code, failed.metadata["definite"]) == ("RUN_FAILED", False)
        assert (await hosts.a.show("t")).states == ["decided"]
        await bank.delay("INV-1", 0)
        answered = await hosts.c.send(body)

    assert (answered.code, answered.results) == (None, ["Paid INV-1 to ACME, receipt payment-1."])
    assert [each["key"] for each in await bank.payments()] == asked.ids


async def test_a_run_whose_time_is_over_says_so_and_keeps_what_was_settled(hosts: Hosts, bank: Bank) -> None:
    brief = await hosts.start(run_seconds=TOOL_SECONDS, tool_seconds=30.0)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    await bank.delay("INV-1", 2 * TOOL_SECONDS)
    body = answers("t", approve(*asked.ids))

    failed = await brief.send(body)
    answered = await hosts.b.send(body)

    assert failed.code == "RUN_FAILED"
    assert (answered.code, answered.results) == (None, ["Wired INV-1 to ACME, receipt wire-1."])
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_transaction_is_not_kept_open_longer_than_the_lease(hosts: Hosts) -> None:
    if not hosts.is_transactional:
        pytest.skip("these stores offer no transactions to tools")
    brief = await hosts.start(lease_seconds=TOOL_SECONDS)
    asked = await hosts.a.send(says("t", "refund INV-1"))
    body = answers("t", approve(*asked.ids))
    brief.steps.stop_at("after-effect")

    failed = await brief.send(body)

    assert (failed.code, failed.metadata["definite"]) == ("RUN_FAILED", False)
    assert "demo_refunds: " not in await hosts.dump()
    assert (await hosts.answered(hosts.b, body, unless="APPROVAL_RESUME_IN_PROGRESS")).results == ["Refunded INV-1."]
    assert (await hosts.dump()).count("demo_refunds: ") == 1


async def settle_late(host: Host, interrupt_id: str) -> None:
    """Bring the result of the attempt that began the call, as its holder does when the far side answers at last."""
    row = (await host.stores.effects.read(KEY, interrupts=[interrupt_id]))[interrupt_id]
    assert row.attempt is not None
    result = ToolResult(({"type": "text", "text": "Wired after all."},))
    settled = await host.stores.effects.settle(KEY, interrupt_id=interrupt_id, attempt=row.attempt, result=result)
    assert settled == Settled(result)
