"""The four roads by which a decision reaches the host, read in one place and stripped from the input."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast

from app.answers import SPOKEN_ROAD, Entry
from app.errors import Code, Refusal
from app.upstream import strict_entries
from stores.records import Json

_log = logging.getLogger(__name__)


def take_answers(input_data: Json) -> list[Entry] | Refusal | None:
    """Read all four roads of a decision and strip them from the input; None if no road carries one.

    The roads: `resume`, `forwardedProps.resume`, `forwardedProps.command.resume`, and trailing tool messages whose
    content is an object with `accepted`. Malformed answers of any road are a refusal of the whole request.
    """
    entries: list[Entry] = []
    is_answer = False
    for road, payload in _resume_roads(input_data):
        is_answer = True
        parsed, problem = strict_entries(payload)
        if problem is not None:
            return Refusal(Code.RESUME_INVALID, problem)
        entries += [Entry(each["interrupt_id"], each["status"], each["payload"], road) for each in parsed]
    spoken = _take_spoken_answers(input_data)
    if spoken:
        _log.warning("Translated a legacy AG-UI tool-message approval; clients should send resume entries instead")
    return entries + spoken if is_answer or spoken else None


def has_answers(input_data: Json) -> bool:
    """Say whether a road carries an answer, well-formed or not. The input stays as it is."""
    copy = dict(input_data)
    return bool(_resume_roads(copy)) or bool(_take_spoken_answers(copy))


def _resume_roads(input_data: Json) -> list[tuple[str, Any]]:
    roads: list[tuple[str, Any]] = [("resume", input_data.pop("resume", None))]
    for name in ("forwarded_props", "forwardedProps"):
        props = input_data.get(name)
        if not isinstance(props, dict):
            continue
        props = input_data[name] = dict(props)
        roads.append((f"{name}.resume", props.pop("resume", None)))
        command = props.get("command")
        if isinstance(command, dict):
            props["command"] = {key: value for key, value in command.items() if key != "resume"}
            roads.append((f"{name}.command.resume", command.get("resume")))
    return [(road, payload) for road, payload in roads if payload is not None]


def _take_spoken_answers(input_data: Json) -> list[Entry]:
    """Take trailing tool messages that answer an approval, unless they answer a call of the client's own tools."""
    messages = list(input_data.get("messages") or [])
    client_calls = _client_call_ids(input_data, messages)
    kept: list[Any] = []
    entries: list[Entry] = []
    while messages and _is_tool_message(messages[-1]):
        message = messages.pop()
        call_id = str(
            message.get("toolCallId") or message.get("tool_call_id") or message.get("actionExecutionId") or ""
        )
        payload = _as_object(message.get("content", message.get("result")))
        if payload is not None and "accepted" in payload and call_id not in client_calls:
            entries.insert(0, Entry(call_id, "resolved", payload, SPOKEN_ROAD))
        else:
            kept.insert(0, message)
    input_data["messages"] = messages + kept
    return entries


def _client_call_ids(input_data: Mapping[str, Any], messages: Sequence[Any]) -> set[str]:
    names = {str(each.get("name")) for each in _objects(input_data.get("tools"))}
    calls = [
        call
        for message in _objects(messages)
        for call in _objects(message.get("toolCalls") or message.get("tool_calls"))
    ]
    return {str(call.get("id")) for call in calls if _name_of(call.get("function")) in names}


def _name_of(function: Any) -> str | None:
    return str(function.get("name")) if isinstance(function, dict) else None


def _objects(values: Any) -> list[Json]:
    return [each for each in values if isinstance(each, dict)] if isinstance(values, Sequence) else []


def _is_tool_message(message: Any) -> bool:
    return isinstance(message, dict) and str(message.get("role", "")).lower() == "tool"


def _as_object(content: Any) -> Json | None:
    if isinstance(content, str):
        try:
            content = json.loads(content)
        except (ValueError, RecursionError):
            return None
    return cast(Json, content) if isinstance(content, dict) else None
