"""A model whose provider runs a tool of its own once a person approves it, and what it was sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_framework import Agent, ChatResponseUpdate, Content, Message, SupportsChatGetResponse
from agent_framework.exceptions import ChatClientException

from app.agents.payments import PaymentTools
from app.agents.scripted import ScriptedChatClient
from tests.host.agents import Build

CRM = {"type": "mcp", "server_label": "crm", "require_approval": "always"}


@dataclass(slots=True)
class ProviderSide:
    """What the provider was asked over all runs, and how it behaves.

    `breaks` are its next responses that break off, by how many updates came before; None is a whole one. `looks_up`:
    after a decision it calls a tool of the agent. `tools` and `options` are what the agent has, and asks of it.
    """

    decisions: list[tuple[str, bool]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    requests: list[list[str]] = field(default_factory=list)
    conversations: list[str | None] = field(default_factory=list)
    breaks: list[int | None] = field(default_factory=list)
    looks_up: bool = False
    label: str | None = "crm"
    name: str | None = None
    asks: int = 0
    tools: list[Any] = field(default_factory=lambda: [CRM])
    options: dict[str, Any] = field(default_factory=lambda: {"store": True})

    @property
    def ran(self) -> list[str]:
        """The calls that the provider ran: one for each approval that it was sent."""
        return [name for name, is_approved in self.decisions if is_approved]

    def note(self, contents: Sequence[Content], conversation: str | None) -> None:
        """Note one request; its approved calls run."""
        self.requests.append([content.type for content in contents])
        self.conversations.append(conversation)
        for content in contents:
            if content.type == "function_approval_response":
                self.decisions.append((str(content.id), content.approved is True))
            elif content.type == "function_result":
                self.results.append(str(content.result))


class HostingClient(ScriptedChatClient):
    """Asks a person once for each `delete` in the user's words, and calls a tool of the agent for `wire`."""

    def __init__(self, side: ProviderSide) -> None:
        super().__init__()
        self._side = side

    async def _updates(
        self, messages: Sequence[Message], options: Mapping[str, Any]
    ) -> AsyncIterator[ChatResponseUpdate]:
        side = self._side
        contents = [content for message in messages for content in message.contents]
        side.note(contents, options.get("conversation_id"))
        left = side.breaks.pop(0) if side.breaks else None
        for content in self._reply(contents):
            if left == 0:
                break
            left = None if left is None else left - 1
            yield ChatResponseUpdate(
                contents=[content],
                role="assistant",
                message_id=f"message-{len(side.requests)}",
                conversation_id=f"conversation-{len(side.requests)}" if options.get("store") else None,
            )
        if left is not None:
            raise ChatClientException("The provider's response broke off.")

    def _reply(self, contents: Sequence[Content]) -> list[Content]:
        decisions = [content for content in contents if content.type == "function_approval_response"]
        results = [content for content in contents if content.type == "function_result"]
        if decisions and self._side.looks_up:
            return [Content.from_function_call("call-look", "look_up_invoice", arguments={"invoice": "INV-1"})]
        if decisions or results:
            done = [f"{each.id}: {'deleted' if each.approved else 'left alone'}. " for each in decisions]
            return [Content.from_text(text) for text in ["Done. ", *done, *(str(each.result) for each in results)]]
        words = str(contents[-1].text)
        wires = [self._wire()] if "wire" in words else []
        return [self._ask() for _ in range(words.count("delete"))] + wires or [Content.from_text("Hello. ")]

    def _ask(self) -> Content:
        self._side.asks += 1
        name = self._side.name or f"hosted-{self._side.asks}"
        call = Content.from_function_call(
            f"call-{self._side.asks}", "crm_delete", arguments={"who": "Ann"}, hosted=True, server_name=self._side.label
        )
        return Content.from_function_approval_request(id=name, function_call=call)

    def _wire(self) -> Content:
        arguments = {"invoice": "INV-1", "payee": "ACME"}
        return Content.from_function_call("call-wire", "wire_transfer", arguments=arguments)


def hosting(side: ProviderSide) -> Build:
    """Return a builder of an agent over this provider."""

    def build(_client: SupportsChatGetResponse, own: PaymentTools) -> Agent[Any]:
        tools = [*side.tools, own.look_up_invoice, own.wire_transfer]
        return Agent(HostingClient(side), "", name="payments", tools=tools, default_options=side.options)

    return build
