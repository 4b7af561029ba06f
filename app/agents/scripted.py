"""A chat model that follows the user's words to the letter: for demos and tests, with no key and no network."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Collection, Mapping, Sequence
from typing import Any, Literal

import httpx
from agent_framework import (
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatOptions,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)
from agent_framework.exceptions import ChatClientException

from app.agents.instructions import Call, Instructions, Step, read_instructions
from app.agents.turns import Exchange, Turn, read_turn

_ABILITIES = (
    'I can "look up INV-9", "pay INV-1 and INV-2 to ACME", "refund INV-0" and "wire INV-3 to ACME". ',
    'Join what belongs together with "and", what comes later with "then".',
)
_OUTAGE_SECONDS = 5.0


class ScriptedChatClient(
    FunctionInvocationLayer[ChatOptions[None]],
    ChatMiddlewareLayer[ChatOptions[None]],
    BaseChatClient[ChatOptions[None]],
):
    """Decides each step from the history it is given and nothing else, so any replica can go on."""

    OTEL_PROVIDER_NAME = "scripted"

    def __init__(self, *, bank_url: str = "") -> None:
        super().__init__()
        self._bank_url = bank_url

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse[Any]] | ResponseStream[ChatResponseUpdate, ChatResponse[Any]]:
        updates = self._updates(messages, options)
        return self._build_response_stream(updates) if stream else _collected(updates)

    async def _updates(
        self, messages: Sequence[Message], options: Mapping[str, Any]
    ) -> AsyncIterator[ChatResponseUpdate]:
        turn = read_turn(messages)
        instructions = read_instructions(turn.words)
        if instructions.outage is not None and turn.exchanges:
            await self._fail_during(instructions.outage)
        contents = _reply(instructions, turn, offered=_offered(options))
        message_id = f"msg_{_digest(turn.place, turn.words, len(turn.exchanges))}"
        finish_reason: Literal["tool_calls", "stop"] = "tool_calls" if contents[-1].type == "function_call" else "stop"
        for ordinal, content in enumerate(contents, start=1):
            yield ChatResponseUpdate(
                contents=[content],
                role="assistant",
                message_id=message_id,
                model="scripted",
                finish_reason=finish_reason if ordinal == len(contents) else None,
            )

    async def _fail_during(self, outage: str) -> None:
        """Raise as a provider's client does if the bank says that this outage is on."""
        if not self._bank_url:
            raise ValueError("AGUI_BANK_URL is not set: there is no bank to ask about an outage.")
        async with httpx.AsyncClient(timeout=_OUTAGE_SECONDS) as bank:
            answer = await bank.post(f"{self._bank_url}/outages/{outage}/take")
        if answer.raise_for_status().json().get("down") is True:
            raise ChatClientException("The model's service is unavailable.")


async def _collected(updates: AsyncIterator[ChatResponseUpdate]) -> ChatResponse[Any]:
    return ChatResponse.from_updates([update async for update in updates])


def _reply(instructions: Instructions, turn: Turn, *, offered: Collection[str]) -> list[Content]:
    step = _next_step(instructions, turn.exchanges)
    missing = sorted({call.tool for call in step if call.tool not in offered})
    if not step or missing:
        return _answer(turn.exchanges, missing)
    return [
        Content.from_function_call(
            f"call_{ordinal}" if instructions.reuse_call_ids else _call_id(turn, ordinal, call),
            call.tool,
            arguments=json.dumps(call.arguments),
        )
        for ordinal, call in enumerate(step, start=1)
    ]


def _next_step(instructions: Instructions, exchanges: Sequence[Exchange]) -> Step:
    """Return the first step that was not called yet, or none. Raises ValueError if the history shows other calls."""
    called = [exchange.tool for exchange in exchanges]
    for step in instructions.steps:
        if not called:
            return step
        expected = [call.tool for call in step]
        if sorted(called[: len(step)]) != sorted(expected):
            raise ValueError(f"The history has calls of {called} where this model called {expected}.")
        called = called[len(step) :]
    return ()


def _offered(options: Mapping[str, Any]) -> set[str]:
    if options.get("tool_choice") == "none":
        return set()
    return {str(getattr(tool, "name", "")) for tool in options.get("tools") or ()}


def _answer(exchanges: Sequence[Exchange], missing: Sequence[str]) -> list[Content]:
    lines = [f"\n{exchange.tool} {exchange.invoice}: {exchange.result}" for exchange in exchanges]
    if missing:
        lines.append(f"\nI have no tool for the rest: {', '.join(missing)}.")
    return [Content.from_text(text) for text in (("Here is what came of it.", *lines) if lines else _ABILITIES)]


def _call_id(turn: Turn, ordinal: int, call: Call) -> str:
    return f"call_{_digest(turn.place, len(turn.exchanges), ordinal, call.tool, call.arguments)}"


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]
