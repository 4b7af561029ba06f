"""Faults that others met in public with stored threads, as they would show here; `tests/README.md` has the table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from app.steps import Step
from stores.ports import Stores
from stores.sql.threads import SqlThreadStore
from tests.host.bank import Bank
from tests.host.bodies import Json, answers, approve, cancel, reject, says
from tests.host.hosts import Hosts
from tests.host.strict import exchanges
from tests.stores.pools import checked_out

ON_THE_ROAD = (Step.CLAIM, Step.EFFECT, Step.SETTLE, Step.MODEL, Step.FINISH, Step.ANSWER)
STEPS = [f"{when}-{step}" for step in ON_THE_ROAD for when in ("before", "after")]


@pytest.mark.parametrize("decide", [approve, reject, cancel])
async def test_a_thread_goes_on_from_its_stored_history_alone(
    hosts: Hosts, bank: Bank, decide: Callable[[str], Json]
) -> None:
    """Case 41: the model refuses a history with a call that has no result, and so does `exchanges`."""
    asked = await hosts.a.send(says("t", "wire INV-1 and INV-2 to ACME and look up INV-9"))
    await hosts.a.send(answers("t", *map(decide, asked.ids)))
    found = exchanges((await hosts.b.show("t")).messages)

    after = await hosts.b.send(says("t", "look up INV-3"))

    assert [tool for tool, _ in found] == ["wire_transfer", "wire_transfer", "look_up_invoice"]
    assert after.code is None
    assert exchanges(after.messages)[:3] == found
    assert exchanges((await hosts.c.show("t")).messages) == exchanges(after.messages)


async def test_a_turn_that_calls_more_after_its_approval_is_stored_in_order(hosts: Hosts, bank: Bank) -> None:
    """Case 49."""
    words = "look up INV-7 then pay INV-1 to ACME then look up INV-8 and look up INV-9 then wire INV-2 to Bolt"
    asked = await hosts.a.send(says("t", words))
    asked_again = await hosts.b.send(answers("t", approve(*asked.ids)))
    await hosts.c.send(answers("t", approve(*asked_again.ids)))

    shown = await hosts.a.show("t")

    calls = ["look_up_invoice", "pay_invoice", "look_up_invoice", "look_up_invoice", "wire_transfer"]
    found = exchanges(shown.messages)
    assert [tool for tool, _ in found] == calls
    assert [invoice for _, result in found for invoice in result.split() if invoice.startswith("INV-")] == [
        *("INV-7:", "INV-1", "INV-8:", "INV-9:", "INV-2")
    ]
    assert [message["role"] for message in shown.messages].count("user") == 1


@pytest.mark.parametrize("words", ["pay INV-1-{} to ACME", "wire INV-1-{} to ACME"])
async def test_a_client_that_leaves_at_any_step_costs_nothing_of_what_is_saved(
    hosts: Hosts, bank: Bank, words: str
) -> None:
    """Case 52: the run goes on in full, and no connection of the stores stays lent out."""
    host = hosts.b

    async def leave(step: str) -> None:
        asked = await hosts.a.send(says(step, words.format(step)))
        body = answers(step, approve(*asked.ids))
        stop = host.steps.stop_at(step)
        reading = asyncio.create_task(host.post(body))
        await stop.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        stop.go.set()
        await hosts.until(lambda: hosts.is_closed(step))
        repeated = await hosts.answered(hosts.c, body, unless="APPROVAL_RESUME_IN_PROGRESS")
        assert (repeated.code, repeated.is_replay) == (None, True)
        assert exchanges((await hosts.c.show(step)).messages)[0][1] == repeated.results[0]

    for step in STEPS:
        await leave(step)

    assert sorted(await bank.paid()) == sorted((f"INV-1-{step}", "ACME") for step in STEPS)
    await hosts.until(lambda: has_all_connections(host.stores))


async def has_all_connections(stores: Stores) -> bool:
    """Whether no connection is lent out, where they are lent out for more than one call."""
    return not isinstance(stores.threads, SqlThreadStore) or checked_out(stores) == 0
