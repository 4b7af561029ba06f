"""Any host shows a thread as the live stream showed it, and showing it changes nothing in any store."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from stores.records import ToolResult
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, looks, says
from tests.host.hosts import Hosts, key_of


async def test_every_host_shows_the_card_that_the_live_stream_showed(hosts: Hosts) -> None:
    live = await hosts.a.send(says("t", "pay INV-1 to ACME and wire INV-2 to Bolt"))

    for host in (hosts.a, hosts.b, hosts.c):
        shown = await host.show("t")
        assert shown.interrupts == live.interrupts
        assert shown.messages == live.messages
        assert shown.states == ["pending", "pending"]


async def test_a_card_says_what_to_approve_how_and_until_when(hosts: Hosts) -> None:
    await hosts.a.send(says("t", "pay INV-1 to ACME"))

    (card,) = (await hosts.b.show("t")).interrupts

    assert card["id"].startswith("af-call-")
    assert card["reason"] == "tool_call"
    assert card["toolCallId"].startswith("call_")
    assert card["responseSchema"]["properties"]["approved"]["type"] == "boolean"
    assert "editedArgs" in card["responseSchema"]["properties"]
    left = datetime.fromisoformat(card["expiresAt"]) - datetime.now(UTC)
    assert timedelta(hours=23, minutes=55) < left <= timedelta(hours=24)
    assert card["metadata"]["agui"]["pauseId"]


async def test_showing_a_thread_changes_nothing_in_any_store(hosts: Hosts) -> None:
    asked = await hosts.a.send(says("paused", "pay INV-1 to ACME"))
    answered = await hosts.a.send(says("answered", "wire INV-2 to ACME"))
    await hosts.a.send(answers("answered", approve(*answered.ids)))
    before = await hosts.dump()
    assert all(name in before for name in (*asked.ids, "INV-1", "INV-2"))

    for host in (hosts.a, hosts.b, hosts.c):
        for thread in ("paused", "answered", "never seen"):
            await host.show(thread)
            await host.show(thread, scope="bob")

    assert await hosts.dump() == before


async def test_showing_a_thread_changes_nothing_however_far_its_approval_got(hosts: Hosts, bank: Bank) -> None:
    brief = await hosts.start(approval_seconds=0.05)
    hasty = await hosts.start(tool_seconds=0.3)
    await brief.send(says("expired", "pay INV-1 to ACME"))
    decided = await hosts.a.send(says("decided", "wire INV-2 to ACME (outage o)"))
    doubtful = await hosts.a.send(says("in doubt", "wire INV-3 to ACME"))
    await bank.break_model("o", times=1)
    await bank.delay("INV-3", 600)
    assert (await hosts.a.send(answers("decided", approve(*decided.ids)))).code == "RUN_FAILED"
    assert (await hasty.send(answers("in doubt", approve(*doubtful.ids)))).code == "APPROVAL_OUTCOME_INDETERMINATE"
    await hosts.until(lambda: is_past_expiry(hosts, "expired"))
    before, paid = await hosts.dump(), await bank.paid()

    # What nobody has closed yet is still recorded as pending; it is shown for what it is.
    for host in (hosts.a, hosts.b, hosts.c):
        for thread, state in {"expired": "expired", "decided": "decided", "in doubt": "indeterminate"}.items():
            shown = await host.show(thread)
            assert (shown.code, shown.ids, shown.states) == (None, [], [state])
            foreign = await host.show(thread, scope="bob")
            assert (foreign.code, foreign.ids, foreign.states, foreign.messages) == (None, [], [], [])

    assert (await hosts.dump(), await bank.paid()) == (before, paid)


async def is_past_expiry(hosts: Hosts, thread: str) -> bool:
    loaded = await hosts.loaded(thread)
    return all(each.expires_at < loaded.now for each in loaded.record.occurrences)


async def test_an_answered_thread_shows_its_answer_and_no_card(hosts: Hosts) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    answered = await hosts.b.send(answers("t", approve(*asked.ids)))

    shown = await hosts.c.show("t")

    assert (shown.ids, shown.states) == ([], [])
    assert shown.messages == answered.messages
    assert [message["role"] for message in shown.messages] == ["user", "assistant", "tool", "assistant"]


async def test_another_scope_sees_nothing_of_a_thread(hosts: Hosts) -> None:
    await hosts.a.send(says("t", "pay INV-1 to ACME"))

    shown = await hosts.a.show("t", scope="bob")
    unknown = await hosts.a.show("never seen", scope="bob")

    assert [event["type"] for event in shown.events] == ["RUN_STARTED", "RUN_FINISHED"]
    assert [event["type"] for event in unknown.events] == [event["type"] for event in shown.events]


async def test_a_thread_whose_answer_is_being_carried_out_shows_it_as_running(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    stop = hosts.b.steps.stop_at("before-effect")
    answering = asyncio.create_task(hosts.b.send(answers("t", approve(*asked.ids))))
    await stop.wait()

    shown = await hosts.c.show("t")

    assert (shown.ids, shown.states) == ([], ["running"])
    assert shown.metadata["approvals"][0]["decision"] == "approve"
    assert await bank.paid() == []
    stop.go.set()
    assert (await answering).code is None


async def test_a_thread_whose_holder_is_taken_for_dead_shows_its_answer_as_waiting(hosts: Hosts) -> None:
    observer = await hosts.start(lease_seconds=0.3)
    asked = await hosts.a.send(says("t", "pay INV-1 to ACME"))
    stop = hosts.b.steps.stop_at("before-effect")
    answering = asyncio.create_task(hosts.b.send(answers("t", approve(*asked.ids))))
    await stop.wait()

    async def is_waiting() -> bool:
        return (await observer.show("t")).states == ["decided"]

    await hosts.until(is_waiting)
    # Who has not watched it for a lease does not call it dead.
    assert (await hosts.c.show("t")).states == ["running"]
    stop.go.set()
    assert (await answering).code is None


async def test_a_doubt_that_a_late_result_ended_is_shown_as_ended_before_anybody_writes_it(
    hosts: Hosts, bank: Bank
) -> None:
    hasty = await hosts.start(tool_seconds=0.3)
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    await bank.delay("INV-1", 600)
    await hasty.send(answers("t", approve(*asked.ids)))
    assert (await hosts.b.show("t")).states == ["indeterminate"]
    (row,) = (await hosts.a.stores.effects.read(key_of("t"), interrupts=asked.ids)).values()
    assert row.attempt is not None
    await hosts.a.stores.effects.settle(
        key_of("t"), interrupt_id=asked.ids[0], attempt=row.attempt, result=ToolResult()
    )
    before = await hosts.dump()

    assert (await hosts.b.show("t")).states == ["decided"]

    assert await hosts.dump() == before


async def test_a_request_without_messages_only_looks_even_where_nothing_is(hosts: Hosts) -> None:
    before = await hosts.dump()

    shown = await hosts.a.send({**looks("t"), "state": {"any": "thing"}, "forwardedProps": {"command": {}}})

    assert [event["type"] for event in shown.events] == ["RUN_STARTED", "RUN_FINISHED"]
    assert await hosts.dump() == before
