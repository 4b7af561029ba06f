"""The four roads by which a decision reaches the host, read in one place and stripped from the input."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from app.answers import Entry
from app.errors import Code, Refusal
from app.upstream import strict_entries
from stores.records import Json


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
    return entries + spoken if is_answer or spoken else None


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
            entries.insert(0, Entry(call_id, "resolved", payload, "tool message"))
        else:
            kept.insert(0, message)
    input_data["messages"] = messages + kept
    return entries


def _client_call_ids(input_data: Mapping[str, Any], messages: Sequence[Any]) -> set[str]:
    names = {each.get("name") for each in input_data.get("tools") or [] if isinstance(each, dict)}
    calls = [
        call
        for message in messages
        if isinstance(message, dict)
        for call in message.get("toolCalls") or message.get("tool_calls") or []
        if isinstance(call, dict)
    ]
    return {str(call.get("id")) for call in calls if (call.get("function") or {}).get("name") in names}


def _is_tool_message(message: Any) -> bool:
    return isinstance(message, dict) and str(message.get("role", "")).lower() == "tool"


def _as_object(content: Any) -> Json | None:
    if isinstance(content, str):
        try:
            content = json.loads(content)
        except ValueError:
            return None
    return cast(Json, content) if isinstance(content, dict) else None
