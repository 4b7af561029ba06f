"""The demo's agent, which takes standing rules, and what its threads are given them with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_framework import Agent, SupportsChatGetResponse, ToolApprovalMiddleware

from app.agents.payments import PaymentTools
from tests.host.agents import Build
from tests.host.answers import Answer
from tests.host.bodies import answers, approve, says
from tests.host.hosts import Hosts

Callback = Callable[[Any], Any]


def ruled(*callbacks: Callback) -> Build:
    """Return a builder of the demo's agent with upstream's middleware, and the callbacks that it is given."""

    def build(client: SupportsChatGetResponse, tools: PaymentTools) -> Agent[Any]:
        offered = [tools.look_up_invoice, tools.pay_invoice, tools.wire_transfer]
        middleware = ToolApprovalMiddleware(auto_approval_rules=callbacks)
        return Agent(client, name="payments", tools=offered, middleware=[middleware])

    return build


async def give_rule(hosts: Hosts, words: str, reach: str = "tool", *, thread: str = "t") -> str:
    """Let a person approve one call and give a rule with it; answers the interrupt that it is known by."""
    asked = await hosts.a.send(says(thread, words))
    answered = await hosts.b.send(answers(thread, approve(*asked.ids, standingRule=reach)))
    assert answered.code is None, answered.message
    return asked.ids[0]


def rules_of(answer: Answer) -> list[tuple[str, Any]]:
    """Return the tool and arguments of each rule that was shown."""
    return [(each["tool"], each["arguments"]) for each in answer.metadata.get("standingRules", [])]
