"""Says why a call of a mixed answer did not run: upstream has one sentence for all, that the user rejected it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import Any

from ag_ui.core import BaseEvent, MessagesSnapshotEvent, ToolCallResultEvent, ToolMessage
from agent_framework import ChatContext, ChatMiddleware, Content, Message

from app.upkeep import CANCELLED_TEXT, EXPIRED_TEXT
from stores.records import Json, Occurrence, Verdict

REJECTED_TEXT = "Error: Tool call invocation was rejected by user."
"""Upstream's sentence."""

_TEXTS = {Verdict.CANCEL: CANCELLED_TEXT, Verdict.EXPIRE: EXPIRED_TEXT}


class EndTexts(ChatMiddleware):
    """Puts the right sentence where the model, the client and the thread's picture would have upstream's."""

    def __init__(self, occurrences: Sequence[Occurrence]) -> None:
        self._texts = {
            each.call_id: _TEXTS[each.decision.verdict]
            for each in occurrences
            if each.decision is not None and each.decision.verdict in _TEXTS
        }

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Tell the model."""
        if self._texts:
            context.messages = [self._in_message(each) for each in context.messages]
        await call_next()

    def in_event(self, event: BaseEvent) -> BaseEvent:
        """Return an event as the client is told it."""
        match event:
            case ToolCallResultEvent():
                return event.model_copy(update={"content": self._text(event.tool_call_id, event.content)})
            case MessagesSnapshotEvent():
                return event.model_copy(update={"messages": [self._in_model(each) for each in event.messages]})
            case _:
                return event

    def in_messages(self, messages: Sequence[Json]) -> tuple[Json, ...]:
        """Return the messages of a picture as they are stored."""
        return tuple(self._in_picture(each) for each in messages)

    def _text(self, call_id: object, said: Any) -> Any:
        return self._texts.get(str(call_id), said) if said == REJECTED_TEXT else said

    def _in_message(self, message: Message) -> Message:
        if not any(each.type == "function_result" and each.call_id in self._texts for each in message.contents):
            return message
        told = copy(message)
        told.contents = [self._in_content(each) for each in message.contents]
        return told

    def _in_content(self, content: Content) -> Content:
        if content.type != "function_result" or content.result != REJECTED_TEXT or content.call_id is None:
            return content
        return Content.from_function_result(content.call_id, result=self._text(content.call_id, content.result))

    def _in_model(self, message: Any) -> Any:
        if not isinstance(message, ToolMessage):
            return message
        return message.model_copy(update={"content": self._text(message.tool_call_id, message.content)})

    def _in_picture(self, message: Json) -> Json:
        if message.get("role") != "tool":
            return message
        call_id = message.get("toolCallId") or message.get("tool_call_id")
        return {**message, "content": self._text(call_id, message.get("content"))}
