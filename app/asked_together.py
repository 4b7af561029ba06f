"""Shows upstream all approvals of one turn at once: it leaves the stream of a run after the first that it sees."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from agent_framework import AgentContext, AgentMiddleware, AgentResponse, AgentResponseUpdate, Content, ResponseStream

from app.hosted_calls import is_hosted


class AskedTogether(AgentMiddleware):
    """Holds approvals back, from the first hosted call on, until the turn is at its end.

    Those of hosted calls stream like words, in an update each; the agent's own calls are asked for after them.
    """

    async def process(self, context: AgentContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Put the stream of the run in its order."""
        await call_next()
        stream = context.result
        if isinstance(stream, ResponseStream):
            context.result = _with_asked_last(stream)


def _with_asked_last(
    stream: ResponseStream[AgentResponseUpdate, AgentResponse[Any]],
) -> ResponseStream[AgentResponseUpdate, AgentResponse[Any]]:
    async def updates() -> AsyncIterator[AgentResponseUpdate]:
        held: list[Content] = []
        last: AgentResponseUpdate | None = None
        async for update in stream:
            asked = [each for each in update.contents if _asks(each)]
            if not held and not any(is_hosted(each) for each in asked):
                yield update
                continue
            held += asked
            last = update if asked else last
            others = [each for each in update.contents if not _asks(each)]
            if others or not asked:
                yield _with(update, others)
        if last is not None:
            yield _with(last, held)

    return ResponseStream(updates(), finalizer=lambda _: stream.get_final_response())


def _asks(content: Content) -> bool:
    return content.type == "function_approval_request"


def _with(update: AgentResponseUpdate, contents: list[Content]) -> AgentResponseUpdate:
    changed = copy.copy(update)
    changed.contents = contents
    return changed
