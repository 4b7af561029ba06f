"""A tool that runs at the model's provider can not be approved here, even if it only turns up in the model's answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from agent_framework import Agent, ChatResponseUpdate, Content, Message, SupportsChatGetResponse

from app.agents.payments import PaymentTools
from app.agents.scripted import ScriptedChatClient
from tests.host.agents import serve
from tests.host.bodies import says
from tests.host.hosts import Hosts


class Provider(ScriptedChatClient):
    """A model whose provider asks before it calls a tool of its own, if the user speaks of one."""

    async def _updates(
        self, messages: Sequence[Message], options: Mapping[str, Any]
    ) -> AsyncIterator[ChatResponseUpdate]:
        if messages[-1].text != "delete it":
            async for update in super()._updates(messages, options):
                yield update
            return
        call = Content.from_function_call("call-1", "crm_delete", arguments="{}", hosted=True)
        asked = Content.from_function_approval_request(id="hosted-1", function_call=call)
        yield ChatResponseUpdate(contents=[asked], role="assistant", message_id="m1", model="scripted")


async def test_a_hosted_call_that_needs_an_approval_fails_the_run_and_leaves_no_card(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(client: SupportsChatGetResponse, tools: PaymentTools) -> Agent[Any]:
        return Agent(Provider(), "", name="payments", tools=[tools.look_up_invoice])

    serve(monkeypatch, build)

    failed = await hosts.a.send(says("t", "delete it"))

    assert (failed.code, "crm_delete" in failed.message, failed.interrupts) == ("RUN_FAILED", True, [])
    assert "hosted-1" not in str(failed.events)
    assert (await hosts.is_closed("t"), (await hosts.b.show("t")).ids) == (True, [])
    assert (await hosts.c.send(says("t", "hello"))).code is None
