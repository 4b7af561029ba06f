"""An approval that nobody answered in time ends without effect, and its thread goes on."""

from __future__ import annotations

import asyncio

from stores.records import EffectState
from tests.host.answers import Answer
from tests.host.bank import Bank
from tests.host.bodies import answers, approve, cancel, reject, says
from tests.host.hosts import Host, Hosts, key_of

EXPIRED = "APPROVAL_RESUME_EXPIRED"
APPROVAL_SECONDS = 0.05
EXPIRED_TEXT = "The approval expired before it was answered; the call was not run."


async def ask_and_wait(hosts: Hosts, host: Host, words: str) -> Answer:
    """Ask, and wait until the store's clock has passed the expiry of what was asked."""
    asked = await host.send(says("t", words))

    async def is_past() -> bool:
        loaded = await hosts.loaded("t")
        return all(each.expires_at < loaded.now for each in loaded.record.occurrences)

    await hosts.until(is_past)
    return asked


async def test_an_answer_that_comes_too_late_is_refused_and_changes_nothing(hosts: Hosts, bank: Bank) -> None:
    brief = await hosts.start(approval_seconds=APPROVAL_SECONDS)
    asked = await ask_and_wait(hosts, brief, "wire INV-1 to ACME")
    before = await hosts.dump()

    for decide in (approve, reject):
        refused = await hosts.b.send(answers("t", decide(*asked.ids)))
        assert (refused.code, refused.metadata["definite"]) == (EXPIRED, hosts.is_certain)

    assert (await hosts.c.show("t")).ids == []
    assert (await hosts.dump(), await bank.paid()) == (before, [])


async def test_the_next_message_closes_what_expired_and_goes_on(hosts: Hosts, bank: Bank) -> None:
    brief = await hosts.start(approval_seconds=APPROVAL_SECONDS)
    asked = await ask_and_wait(hosts, brief, "wire INV-1 to ACME and pay INV-2 to ACME")

    # The model refuses a history in which a call has no result.
    went_on = await hosts.b.send(says("t", "look up INV-3"))

    assert "look_up_invoice INV-3" in went_on.text
    tool_messages = [message["content"] for message in went_on.messages if message["role"] == "tool"]
    assert tool_messages[:2] == [EXPIRED_TEXT, EXPIRED_TEXT]
    late = await hosts.c.send(answers("t", *map(approve, asked.ids)))
    assert (late.code, late.metadata["definite"]) == (EXPIRED, hosts.is_certain)
    assert await bank.paid() == []


async def test_the_reconciler_closes_what_expired(hosts: Hosts, bank: Bank) -> None:
    brief = await hosts.start(approval_seconds=APPROVAL_SECONDS)
    asked = await ask_and_wait(hosts, brief, "wire INV-1 to ACME")

    await hosts.start(reconcile_seconds=0.02)
    await hosts.until(lambda: hosts.is_closed("t"))

    rows = await hosts.a.stores.effects.read(key_of("t"), interrupts=asked.ids)
    assert [(row.state, row.why) for row in rows.values()] == [(EffectState.CLOSED, "expired")]
    shown = await hosts.b.show("t")
    assert (shown.ids, shown.messages[-1]["content"]) == ([], EXPIRED_TEXT)
    assert (await hosts.b.send(says("t", "hello"))).code is None
    assert (await hosts.c.send(answers("t", approve(*asked.ids)))).code == EXPIRED
    assert await bank.paid() == []


async def test_what_expired_may_still_be_cancelled_or_is_reported_as_expired(hosts: Hosts) -> None:
    brief = await hosts.start(approval_seconds=APPROVAL_SECONDS)
    asked = await ask_and_wait(hosts, brief, "wire INV-1 to ACME")

    assert (await hosts.b.send(answers("t", cancel(*asked.ids)))).code in {None, EXPIRED}

    assert (await hosts.c.send(says("t", "hello"))).code is None


async def test_an_answer_in_time_does_not_expire_while_it_is_carried_out(hosts: Hosts, bank: Bank) -> None:
    brief = await hosts.start(approval_seconds=1.0)
    asked = await brief.send(says("t", "wire INV-1 to ACME (outage o)"))
    await bank.break_model("o", times=1)
    body = answers("t", approve(*asked.ids))
    stop = hosts.b.steps.stop_at("before-effect")
    answering = asyncio.create_task(hosts.b.send(body))
    await stop.wait()
    await hosts.until(lambda: is_past_expiry(hosts))

    stop.go.set()
    assert (await answering).code == "RUN_FAILED"
    assert (await hosts.c.send(body)).code is None
    assert await bank.paid() == [("INV-1", "ACME")]


async def is_past_expiry(hosts: Hosts) -> bool:
    loaded = await hosts.loaded("t")
    return all(each.expires_at < loaded.now for each in loaded.record.occurrences)
