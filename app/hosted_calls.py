"""Approved calls that the model's provider runs: their effect is the model request that carries the decision."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from agent_framework import ChatContext, ChatMiddleware, ChatResponse, ChatResponseUpdate, Content, Message
from agent_framework import ResponseStream as Stream

from app.answers import approval_digest, canonical
from app.effects import RunEffects
from app.errors import RunRefused
from app.tools import EffectCall
from app.transcript import result_text
from stores.records import ToolResult

_RESPONSE = "response"

Responses = Stream[ChatResponseUpdate, ChatResponse[Any]]


class HostedCalls(ChatMiddleware):
    """The agent's innermost chat middleware: it sees each request as it is sent, also one that is repeated.

    Approved calls begin before their decision is sent and are settled with the provider's whole response; where one is
    recorded, it stands for the request. What ends otherwise is in doubt: a second request could run the call twice.
    Of several requests in one run, the first alone carries the decisions.
    """

    def __init__(self, effects: RunEffects) -> None:
        self._effects = effects
        self._carried: set[str] = set()

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Let a request through that carries no decision of a hosted call; run any other as an effect.

        Raises RunRefused once a call of the run was refused: core would tell a stored conversation that it failed.
        """
        if self._effects.refusal is not None:
            raise RunRefused(self._effects.refusal)
        decisions = {str(each.id): each for each in _decisions(context.messages) if each.id not in self._carried}
        context.messages = _without(context.messages, self._carried)
        approved = {name: _digest(each) for name, each in decisions.items() if each.approved is True}
        kept = {name: self._effects.results[name] for name in approved if name in self._effects.results}
        left = {name: digest for name, digest in approved.items() if name not in kept}
        if left:
            context.messages = _without(context.messages, kept)
            context.result = _stream(self._after(kept, await self._sent(context, call_next, left), decisions))
        elif kept:
            context.result = _stream(self._after(kept, _nothing(), decisions))
        else:
            await call_next()
            self._carried |= decisions.keys()

    async def _sent(
        self, context: ChatContext, call_next: Callable[[], Awaitable[None]], digests: Mapping[str, str]
    ) -> AsyncIterator[ChatResponseUpdate]:
        """Send the request as the effect of its approved calls; answers once its response has begun to come."""
        coming: asyncio.Queue[ChatResponseUpdate | None] = asyncio.Queue()

        async def send(_effect: EffectCall) -> ToolResult:
            try:
                await call_next()
                return _result_of([update async for update in _passed_on(context.result, coming)])
            except Exception as error:
                raise ConnectionError("The provider's response broke off.") from error

        sending = self._effects.start(digests, send)
        sending.add_done_callback(lambda _: coming.put_nowait(None))
        first = await coming.get()

        async def updates() -> AsyncIterator[ChatResponseUpdate]:
            update = first
            while update is not None:
                yield update
                update = await coming.get()
            await asyncio.shield(sending)

        return updates()

    async def _after(
        self, kept: Mapping[str, ToolResult], coming: AsyncIterator[ChatResponseUpdate], decided: Collection[str]
    ) -> AsyncIterator[ChatResponseUpdate]:
        """Yield recorded responses, one of several calls once, and then what is coming."""
        said: list[ToolResult] = []
        for result in kept.values():
            if result not in said:
                said.append(result)
                for update in _recorded(result):
                    yield update
        async for update in coming:
            yield update
        self._carried |= set(decided)


def _decisions(messages: Sequence[Message]) -> list[Content]:
    contents = (content for message in messages for content in message.contents)
    return [each for each in contents if each.type == "function_approval_response" and is_hosted(each)]


def _without(messages: Sequence[Message], names: Collection[str]) -> list[Message]:
    """Return the messages without what these hosted calls were asked and answered with; a provider saw it before."""
    left: list[Message] = []
    for message in messages:
        contents = [each for each in message.contents if not (_is_of_an_approval(each) and each.id in names)]
        if len(contents) == len(message.contents):
            left.append(message)
        elif contents:
            shorter = copy.copy(message)
            shorter.contents = contents
            left.append(shorter)
    return left


def _is_of_an_approval(content: Content) -> bool:
    return content.type in ("function_approval_request", "function_approval_response") and is_hosted(content)


def is_hosted(content: Content) -> bool:
    """Say whether an approval, asked for or given, is of a call that the model's provider runs."""
    return content.function_call is not None and content.function_call.hosted is True


def _digest(decision: Content) -> str:
    """Return the digest of exactly what the provider is about to be told, to be held against the decision's."""
    call = decision.function_call
    assert call is not None, "a hosted decision has its call"
    return approval_digest(call.name or "", canonical(dict(call.parse_arguments() or {})))


async def _passed_on(
    response: object, to: asyncio.Queue[ChatResponseUpdate | None]
) -> AsyncIterator[ChatResponseUpdate]:
    """Pass updates on and yield a copy of each: middleware may change those that are passed on."""
    assert isinstance(response, Stream), "upstream's runs are streams"
    async for update in response:
        copied = ChatResponseUpdate.from_dict(update.to_dict())
        to.put_nowait(update)
        yield copied


def _result_of(updates: Sequence[ChatResponseUpdate]) -> ToolResult:
    response: ChatResponse[Any] = ChatResponse.from_updates(updates)
    return ToolResult(({"text": response.text, _RESPONSE: response.to_dict()},))


def _recorded(result: ToolResult) -> Sequence[ChatResponseUpdate]:
    """Return a recorded response; what an operator stated in place of one is its text."""
    response = next((each[_RESPONSE] for each in result.contents if _RESPONSE in each), None)
    if response is not None:
        return ChatResponse.from_dict(response).to_updates()
    return [ChatResponseUpdate(contents=[Content.from_text(result_text(result, ""))], role="assistant")]


async def _nothing() -> AsyncIterator[ChatResponseUpdate]:
    return
    yield


def _stream(updates: AsyncIterator[ChatResponseUpdate]) -> Responses:
    return Stream(updates, finalizer=ChatResponse.from_updates)
