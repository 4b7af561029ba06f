"""What is executed fits the tool as it is now: an edit is held to its schema before anything is claimed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from agent_framework import Agent, SupportsChatGetResponse
from pydantic import Field

from app.agents.payments import PaymentTools
from app.tools import gated, unsafe
from tests.host.agents import serve
from tests.host.bank import Bank
from tests.host.bodies import ROADS, Json, answers, approve, cancel, reject, says
from tests.host.hosts import Host, Hosts

TOO_LONG = "Mallory" * 10
"""More than the 64 characters that a payee may have."""
UNAVAILABLE = "APPROVAL_TOOL_UNAVAILABLE"


@gated(unsafe())
async def strict(invoice: str, payee: Literal["ACME"]) -> str:
    """Wire to one payee only."""
    return f"Wired {invoice} to {payee}, strictly."


@gated(unsafe())
async def renamed(invoice: str, recipient: str = "Mallory") -> str:
    """Wire, with an argument of another name."""
    return f"Wired {invoice} to {recipient}."


@gated(unsafe())
async def longer(invoice: str, payee: str, reason: Annotated[str, Field(min_length=1)]) -> str:
    """Wire, with one argument more."""
    return f"Wired {invoice} to {payee} for {reason}."


async def with_tool(hosts: Hosts, monkeypatch: pytest.MonkeyPatch, tool: Any) -> Host:
    """Start a host of a later version, whose `wire_transfer` is this."""
    monkeypatch.setattr(tool, "name", "wire_transfer")

    def build(client: SupportsChatGetResponse, tools: PaymentTools) -> Agent[Any]:
        return Agent(client, "", name="payments", tools=[tools.look_up_invoice, tools.pay_invoice, tool])

    serve(monkeypatch, build)
    return await hosts.start()


def edits(entry_id: str) -> list[Json]:
    return [
        approve(entry_id, payee=TOO_LONG),
        approve(entry_id, editedArgs={"invoice": "INV-1", "payee": TOO_LONG}),
        approve(entry_id, payee=""),
    ]


@pytest.mark.parametrize("road", ROADS)
async def test_an_edit_that_the_tool_does_not_take_is_refused_and_changes_nothing(
    hosts: Hosts, bank: Bank, road: str
) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    before = await hosts.dump()

    for entry in edits(*asked.ids):
        refused = await hosts.b.send(ROADS[road]("t", [entry]))
        assert (refused.code, refused.metadata["definite"]) == ("APPROVAL_RESUME_INVALID_RESPONSE", hosts.is_certain)
        assert ("'payee'" in refused.message, "Mallory" in refused.message) == (True, False)

    assert await hosts.dump() == before
    assert (await hosts.c.send(ROADS[road]("t", [approve(*asked.ids, payee="Globex")]))).code is None
    assert await bank.paid() == [("INV-1", "Globex")]


async def test_one_bad_edit_refuses_the_whole_batch(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME and pay INV-2 to ACME"))

    refused = await hosts.b.send(answers("t", approve(asked.ids[0]), approve(asked.ids[1], payee=TOO_LONG)))

    assert refused.code == "APPROVAL_RESUME_INVALID_RESPONSE"
    assert (await hosts.c.show("t")).states == ["pending", "pending"]
    assert await bank.paid() == []


@pytest.mark.parametrize(
    ("tool", "argument", "leave"), [(strict, "payee", cancel), (renamed, "payee", reject), (longer, "reason", cancel)]
)
async def test_a_call_that_a_later_version_does_not_take_as_it_was_shown_is_not_reinterpreted(
    hosts: Hosts, bank: Bank, monkeypatch: pytest.MonkeyPatch, tool: Any, argument: str, leave: Any
) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to Globex"))
    later = await with_tool(hosts, monkeypatch, tool)
    before = await hosts.dump_threads()

    refused = await later.send(answers("t", approve(*asked.ids)))

    assert (refused.code, f"'{argument}'" in refused.message) == (UNAVAILABLE, True)
    assert "Globex" not in refused.message
    assert await hosts.dump_threads() == before
    left = await later.send(answers("t", leave(*asked.ids)))
    assert (left.code, await hosts.is_closed("t"), await bank.paid()) == (None, True, [])
    assert (await later.send(says("t", "hello"))).code is None


async def test_an_edit_may_make_a_call_fit_a_later_version(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to Globex"))
    later = await with_tool(hosts, monkeypatch, strict)

    answered = await later.send(answers("t", approve(*asked.ids, payee="ACME")))

    assert answered.results == ["Wired INV-1 to ACME, strictly."]


async def test_a_decision_that_a_later_version_can_not_carry_out_any_more_is_left_by_a_cancel(
    hosts: Hosts, bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME (outage o)"))
    await bank.break_model("o", times=1)
    body = answers("t", approve(*asked.ids, payee="Globex"))
    assert (await hosts.b.send(body)).code == "RUN_FAILED"
    later = await with_tool(hosts, monkeypatch, strict)

    assert (await later.send(body)).code == UNAVAILABLE
    assert (await later.send(answers("t", cancel(*asked.ids)))).code is None

    # It had run before the deploy: that is how it ends.
    assert "Wired INV-1 to Globex" in (await later.show("t")).messages[-1]["content"]
    assert await bank.paid() == [("INV-1", "Globex")]


async def test_a_call_that_never_fitted_goes_to_its_tool_which_tells_the_model(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", f"wire INV-1 to {TOO_LONG}"))

    answered = await hosts.b.send(answers("t", approve(*asked.ids)))

    assert (answered.code, len(answered.results), await bank.paid()) == (None, 1, [])
    assert answered.results[0].startswith("Error")


async def test_an_edit_may_mend_a_call_that_never_fitted(hosts: Hosts, bank: Bank) -> None:
    asked = await hosts.a.send(says("t", f"wire INV-1 to {TOO_LONG}"))

    assert (await hosts.b.send(answers("t", approve(*asked.ids, payee="ACME")))).code is None

    assert await bank.paid() == [("INV-1", "ACME")]
