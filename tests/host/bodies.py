"""What clients send: messages, answers to interrupts, and the four roads those may come by."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

Json = dict[str, Any]


def says(thread: str, words: str, **fields: Any) -> Json:
    """Return a user's message that starts a run."""
    return _body(thread, [{"id": f"message-{uuid4().hex}", "role": "user", "content": words}], fields)


def looks(thread: str) -> Json:
    """Return what a client sends to show a thread: no message and no answer."""
    return _body(thread, [], {})


def answers(thread: str, *entries: Json, **fields: Any) -> Json:
    """Return a resume with these entries."""
    return _body(thread, [], {"resume": list(entries), **fields})


def approve(interrupt: str, **payload: Any) -> Json:
    """Return the entry that approves an interrupt, with edited arguments in its payload or none."""
    return resolve(interrupt, {"approved": True, **payload})


def reject(interrupt: str) -> Json:
    """Return the entry that rejects an interrupt."""
    return resolve(interrupt, {"approved": False})


def cancel(interrupt: str) -> Json:
    """Return the entry that cancels an interrupt."""
    return {"interruptId": interrupt, "status": "cancelled"}


def resolve(interrupt: str, payload: Any) -> Json:
    """Return an entry with any payload."""
    return {"interruptId": interrupt, "status": "resolved", "payload": payload}


def _by_resume(thread: str, entries: Sequence[Json]) -> Json:
    return answers(thread, *entries)


def _by_forwarded_props(thread: str, entries: Sequence[Json]) -> Json:
    return _body(thread, [], {"forwardedProps": {"resume": list(entries)}})


def _by_command(thread: str, entries: Sequence[Json]) -> Json:
    return _body(thread, [], {"forwardedProps": {"command": {"resume": list(entries)}}})


def _by_tool_message(thread: str, entries: Sequence[Json]) -> Json:
    """A tool message knows no status, and calls the verdict `accepted`."""
    messages = [
        {
            "id": f"message-{uuid4().hex}",
            "role": "tool",
            "toolCallId": entry["interruptId"],
            "content": json.dumps(_spoken(entry.get("payload"))),
        }
        for entry in entries
    ]
    return _body(thread, messages, {})


def _spoken(payload: Any) -> Any:
    if not isinstance(payload, dict):
        return {"accepted": payload}
    return {"accepted": payload.get("approved"), **{key: value for key, value in payload.items() if key != "approved"}}


Road = Callable[[str, Sequence[Json]], Json]

ROADS: dict[str, Road] = {
    "resume": _by_resume,
    "forwardedProps": _by_forwarded_props,
    "command": _by_command,
    "tool message": _by_tool_message,
}
"""How an answer may reach a host."""


def _body(thread: str, messages: Sequence[Json], fields: Json) -> Json:
    return {"threadId": thread, "runId": f"run-{uuid4().hex}", "messages": list(messages), **fields}
