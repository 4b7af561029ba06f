"""A pause that lost a part, or whose tool is gone, fails closed: it names what is missing and can be cancelled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from uuid import uuid4

import pytest

from app.answers import approval_digest, canonical
from stores.ports import Batch, Began, Change, Loaded, Reservation, Reserved, Saved, Stores
from stores.records import Bag, Decision, EffectKind, Occurrence, OccurrenceState, ToolResult, Verdict
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, cancel, reject, says
from tests.host.hosts import Hosts, key_of

STALE = "APPROVAL_RESUME_STALE"


def change_of(loaded: Loaded) -> Change:
    return Change(loaded.record.version, uuid4().hex, loaded.record)


def without_pause_id(loaded: Loaded) -> Change:
    return replace(change_of(loaded), record=replace(loaded.record, pause_id=None))


def with_another_snapshot(loaded: Loaded) -> Change:
    assert loaded.snapshot is not None
    return replace(change_of(loaded), snapshot=replace(loaded.snapshot, pause_id="another"))


def with_another_bag(loaded: Loaded) -> Change:
    return replace(change_of(loaded), bag=Bag())


BREAKS: dict[str, Callable[[Loaded], Change]] = {
    "approval record": without_pause_id,
    "snapshot": with_another_snapshot,
    "tool_approval bag": with_another_bag,
}


@pytest.mark.parametrize("part", BREAKS)
async def test_a_pause_that_lost_a_part_is_stale_and_can_only_be_cancelled(hosts: Hosts, bank: Bank, part: str) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    await write(hosts, BREAKS[part](await hosts.loaded("t")))
    before = await hosts.dump()

    for decide in (approve, reject):
        refused = await hosts.b.send(answers("t", decide(*asked.ids)))
        assert (refused.code, refused.metadata["definite"]) == (STALE, hosts.is_certain)
        assert part in refused.message
    assert (await hosts.b.send(says("t", "hello"))).code == "APPROVAL_RESUME_REQUIRED"
    assert await hosts.dump() == before

    assert (await hosts.c.send(answers("t", cancel(*asked.ids)))).code is None
    assert (await hosts.c.send(says("t", "hello"))).code is None
    assert await bank.paid() == []


async def test_an_approval_of_a_tool_that_is_gone_waits_for_the_tool(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    loaded = await hosts.loaded("t")
    await write(hosts, with_tool(loaded, "wire_by_fax"))
    before = await hosts.dump()

    refused = await hosts.b.send(answers("t", approve(*asked.ids)))

    assert (refused.code, refused.metadata["definite"]) == ("APPROVAL_TOOL_UNAVAILABLE", hosts.is_certain)
    assert "wire_by_fax" in refused.message
    assert await hosts.dump() == before
    await write(hosts, with_tool(await hosts.loaded("t"), "wire_transfer"))
    assert (await hosts.b.send(answers("t", approve(*asked.ids)))).code is None
    assert await bank.paid() == [("INV-1", "ACME")]


async def test_a_version_without_a_tool_refuses_its_approval_and_another_takes_it(hosts: Hosts) -> None:
    if not hosts.is_transactional:
        pytest.skip("these stores offer no transactions to tools")
    asked = await hosts.a.send(says("t", "refund INV-1"))
    body = answers("t", approve(*asked.ids))
    older = await hosts.start(decorate=without_transactions)

    assert (await older.send(body)).code == "APPROVAL_TOOL_UNAVAILABLE"

    assert (await hosts.b.send(body)).results == ["Refunded INV-1."]


async def test_a_call_that_differs_from_what_was_approved_does_not_run(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    (occurrence,) = (await hosts.loaded("t")).record.occurrences
    digest = approval_digest(occurrence.tool, occurrence.arguments)
    other = Decision(Verdict.APPROVE, canonical({"invoice": "INV-1", "payee": "Mallory"}), digest)
    decided = partial(replace, state=OccurrenceState.DECIDED, decision=other)
    await write(hosts, with_occurrences(await hosts.loaded("t"), decided))
    await reserve(hosts, asked.ids[0], digest)

    refused = await hosts.b.send(answers("t", approve(*asked.ids)))

    assert (refused.code, "differs" in refused.message) == (STALE, True)
    assert await bank.paid() == []


async def test_a_decided_call_without_its_effect_row_does_not_run_and_a_cancel_ends_in_doubt(
    hosts: Hosts, bank: Bank
) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    await decide_behind_their_back(hosts)
    before = await hosts.dump()

    refused = await hosts.b.send(answers("t", approve(*asked.ids)))

    assert (refused.code, "effect row" in refused.message, refused.metadata["definite"]) == (STALE, True, False)
    assert await hosts.dump() == before
    doubted = await hosts.c.send(answers("t", cancel(*asked.ids)))
    assert (doubted.code, doubted.metadata["definite"]) == ("APPROVAL_OUTCOME_INDETERMINATE", False)
    assert await bank.paid() == []


async def test_a_decided_thread_that_can_not_go_on_is_left_by_cancelling_it(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    digest = await decide_behind_their_back(hosts)
    await reserve(hosts, asked.ids[0], digest)
    assert (await hosts.b.send(answers("t", cancel(*asked.ids)))).code == "APPROVAL_RESUME_CONFLICT"

    await write(hosts, with_tool(await hosts.loaded("t"), "wire_by_fax"))
    left = await hosts.c.send(answers("t", cancel(*asked.ids)))

    assert (left.code, left.metadata.get("replay")) == (None, None)
    assert (await hosts.a.send(answers("t", cancel(*asked.ids)))).metadata["replay"] is True
    assert (await hosts.a.send(answers("t", approve(*asked.ids)))).code == "APPROVAL_RESUME_CONFLICT"
    assert (await hosts.b.send(says("t", "hello"))).code is None
    assert await bank.paid() == []


async def test_a_settled_call_keeps_its_result_when_its_stuck_thread_is_cancelled(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    digest = await decide_behind_their_back(hosts)
    attempt = await reserve(hosts, asked.ids[0], digest)
    key = key_of("t")
    result = ToolResult(({"type": "text", "text": "Wired long ago."},))
    effects = hosts.a.stores.effects
    assert isinstance(await effects.begin(key, interrupt_id=asked.ids[0], attempt=attempt), Began)
    await effects.settle(key, interrupt_id=asked.ids[0], attempt=attempt, result=result)
    await write(hosts, with_tool(await hosts.loaded("t"), "wire_by_fax"))

    assert (await hosts.c.send(answers("t", cancel(*asked.ids)))).code is None

    snapshot = (await hosts.loaded("t")).snapshot
    assert snapshot is not None
    assert "Wired long ago." in [message.get("content") for message in snapshot.messages]
    assert (await hosts.b.send(says("t", "hello"))).code is None


async def decide_behind_their_back(hosts: Hosts) -> str:
    """Record an approval as a claim would that was dropped; answers its digest."""
    (occurrence,) = (await hosts.loaded("t")).record.occurrences
    digest = approval_digest(occurrence.tool, occurrence.arguments)
    decision = Decision(Verdict.APPROVE, occurrence.arguments, digest)
    decided = partial(replace, state=OccurrenceState.DECIDED, decision=decision)
    await write(hosts, with_occurrences(await hosts.loaded("t"), decided))
    return digest


async def reserve(hosts: Hosts, interrupt_id: str, digest: str) -> str:
    """Put the ledger row of a decision in place, free like that of a dropped claim; answers its attempt."""
    attempt = uuid4().hex
    batch = Batch(attempt, "gone", 0.0, (Reservation(interrupt_id, EffectKind.UNSAFE, digest),))
    answers_of = await hosts.a.stores.effects.reserve(key_of("t"), batch=batch)
    assert isinstance(answers_of[interrupt_id], Reserved)
    return attempt


def with_tool(loaded: Loaded, tool: str) -> Change:
    return with_occurrences(loaded, lambda each: replace(each, tool=tool))


def with_occurrences(loaded: Loaded, change: Callable[[Occurrence], Occurrence]) -> Change:
    occurrences = tuple(map(change, loaded.record.occurrences))
    return replace(change_of(loaded), record=replace(loaded.record, occurrences=occurrences))


def without_transactions(stores: Stores) -> Stores:
    return replace(stores, transactional=False)


async def write(hosts: Hosts, change: Change) -> None:
    """Change a thread behind the hosts' back."""
    assert isinstance(await hosts.a.stores.threads.save(key_of("t"), change=change), Saved)
