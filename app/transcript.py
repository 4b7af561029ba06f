"""What a run says and a thread shows: collapsed events for replays, and snapshots of calls that will not run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast
from uuid import uuid4

from ag_ui.core import BaseEvent, EventType

from app.result_ids import result_id
from stores.records import Json, Snapshot, ToolResult

_KEPT = {EventType.TOOL_CALL_RESULT, EventType.TOOL_CALL_START, EventType.TEXT_MESSAGE_START}
_DELTAS = {EventType.TEXT_MESSAGE_CONTENT: "messageId", EventType.TOOL_CALL_ARGS: "toolCallId"}
_ENDS = {EventType.TEXT_MESSAGE_END, EventType.TOOL_CALL_END}

LEFT_TEXT = "The calls of this turn were ended; this one has no result."


class Transcript:
    """Collects a run's messages, tool calls and results; deltas of one message or call become one."""

    def __init__(self) -> None:
        self._events: list[Json] = []
        self._open: dict[tuple[EventType, str], Json] = {}

    def add(self, event: BaseEvent) -> None:
        """Take one event of the stream; what a replay does not repeat is passed over."""
        if event.type in _KEPT or event.type in _ENDS:
            self._events.append(_dump(event))
        elif event.type in _DELTAS:
            self._add_delta(_dump(event), event.type)

    def events(self) -> tuple[Json, ...]:
        """Return the collapsed events, as JSON."""
        return tuple(self._events)

    def _add_delta(self, delta: Json, kind: EventType) -> None:
        name = (kind, str(delta[_DELTAS[kind]]))
        earlier = self._open.get(name)
        if earlier is None:
            self._open[name] = delta
            self._events.append(delta)
        else:
            earlier["delta"] += delta["delta"]


def _dump(event: BaseEvent) -> Json:
    fields: Json = event.model_dump(mode="json", by_alias=True, exclude_none=True)
    fields.pop("timestamp", None)
    return fields


def open_interrupts(
    interrupts: Sequence[Mapping[str, Any]], *, pause_id: str, expires_at: Mapping[str, float]
) -> tuple[Json, ...]:
    """Return a pause's interrupts as they are stored and shown: with their expiry and the pause they belong to."""
    shown: list[Json] = []
    for interrupt in interrupts:
        interrupt_id = str(interrupt.get("id") or interrupt.get("interruptId"))
        if interrupt_id not in expires_at:
            continue
        until = datetime.fromtimestamp(expires_at[interrupt_id], UTC).isoformat()
        metadata = {**cast(Json, interrupt.get("metadata") or {}), "agui": {"pauseId": pause_id}}
        shown.append({**interrupt, "expiresAt": until, "metadata": metadata})
    return tuple(shown)


def result_text(result: ToolResult | None, otherwise: str) -> str:
    """Return what a transcript says of a call: the text of its result, or `otherwise` if it has none."""
    if result is None:
        return otherwise
    texts = [str(content["text"]) for content in result.contents if content.get("text")]
    return "\n".join(texts) or ("Error: Function failed." if result.is_error else "")


def close_calls(snapshot: Snapshot, texts: Mapping[str, str]) -> Snapshot:
    """Return a snapshot without interrupts in which each named open call has a result that says why it did not run.

    So has each call beside them that was held back until they are answered: providers take no call without a result.
    """
    messages: list[Json] = []
    for place, message in enumerate(snapshot.messages):
        messages.append(message)
        calls = [str(call.get("id")) for call in message.get("toolCalls") or message.get("tool_calls") or []]
        if texts.keys().isdisjoint(calls):
            continue
        left = [call_id for call_id in calls if not _has_result(call_id, snapshot.messages[place:])]
        if texts.keys().isdisjoint(left):
            continue
        for call_id in left:
            content = texts.get(call_id, LEFT_TEXT)
            message_id = result_id(snapshot.pause_id, call_id) if snapshot.pause_id else uuid4().hex
            messages.append({"id": message_id, "role": "tool", "toolCallId": call_id, "content": content})
    return replace(snapshot, messages=tuple(messages), interrupts=(), pause_id=None)


def _has_result(call_id: str, messages: Sequence[Json]) -> bool:
    """Say whether a call has its result; upstream keeps a message's names as they are sent or in snake case."""
    results = (message for message in messages if message.get("role") == "tool")
    return any(call_id in (message.get("toolCallId"), message.get("tool_call_id")) for message in results)
