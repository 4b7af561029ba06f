"""One id for the message that holds a call's result: live, repeated, in every picture, after any failure. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from ag_ui.core import BaseEvent, Message, MessagesSnapshotEvent, ToolCallResultEvent, ToolCallStartEvent, ToolMessage

from app.answers import digest
from stores.records import Json, Snapshot

_CHARACTERS = 32
_TOO_MANY = ""
"""Instead of an id, for what is not shown."""


def result_id(pause_id: str, call_id: str, ordinal: int = 0) -> str:
    """Return the id of the result of a call that a pause ended with; `ordinal` tells calls of one id apart."""
    return digest("result", pause_id, call_id, str(ordinal))[:_CHARACTERS]


class ResultIds:
    """The ids of the results of one run. `snapshot` is the thread's before it.

    Upstream draws a new id for the result of an approved call whenever it says it, and pictures a rejected one twice.
    Here the id follows from the pause, so that who carries the same resume out again, after a failure or on another
    replica, says it under the same id; and a result is pictured as often as it was said.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._pause_id = snapshot.pause_id
        self._started: set[str] = set()
        self._said: dict[str, list[str]] = {}
        self._ids: dict[str, list[str]] = {}
        for message in snapshot.messages:
            if message.get("role") == "tool":
                self._ids.setdefault(_call_id(message), []).append(str(message.get("id")))

    def in_event(self, event: BaseEvent) -> BaseEvent:
        """Return an event of the run with the ids that its results have."""
        match event:
            case ToolCallStartEvent():
                self._started.add(event.tool_call_id)
            case ToolCallResultEvent():
                return event.model_copy(update={"message_id": self._say(event)})
            case MessagesSnapshotEvent():
                return event.model_copy(update={"messages": self._in_models(event.messages)})
            case _:
                pass
        return event

    def in_messages(self, messages: Sequence[Json]) -> tuple[Json, ...]:
        """Return messages of a picture with the ids that their results have."""
        results = [(str(each.get("id")), _call_id(each)) for each in messages if each.get("role") == "tool"]
        ids = iter(self._settled(results))
        named = [(each, next(ids)) if each.get("role") == "tool" else (each, each.get("id")) for each in messages]
        return tuple(_renamed(each, name) for each, name in named if name is not _TOO_MANY)

    def _in_models(self, messages: Sequence[Message]) -> list[Message]:
        ids = iter(self._settled([(each.id, each.tool_call_id) for each in messages if isinstance(each, ToolMessage)]))
        named = [(each, next(ids) if isinstance(each, ToolMessage) else each.id) for each in messages]
        return [each.model_copy(update={"id": name}) for each, name in named if name is not _TOO_MANY]

    def _say(self, event: ToolCallResultEvent) -> str:
        call_id, said = event.tool_call_id, self._said.setdefault(event.tool_call_id, [])
        is_of_pause = self._pause_id is not None and call_id not in self._started
        said.append(result_id(cast(str, self._pause_id), call_id, len(said)) if is_of_pause else event.message_id)
        self._ids.setdefault(call_id, []).append(said[-1])
        return said[-1]

    def _settled(self, results: Sequence[tuple[str, str]]) -> Iterable[str]:
        """Give each result the id it is known by; those under unknown ids, in their order, the ids that are left.

        One that is too many has none: this run said the results of its call, and all of them are there.
        """
        taken = {message_id for message_id, _ in results}
        left = {call: iter([each for each in ids if each not in taken]) for call, ids in self._ids.items()}
        for message_id, call_id in results:
            is_known = message_id in self._ids.get(call_id, ())
            otherwise = _TOO_MANY if call_id in self._said else message_id
            yield message_id if is_known else next(left.get(call_id, iter(())), otherwise)


def _renamed(message: Json, name: Any) -> Json:
    return message if message.get("id") == name else {**message, "id": name}


def _call_id(message: Json) -> str:
    return str(message.get("toolCallId") or message.get("tool_call_id"))
