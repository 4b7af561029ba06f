"""Reads the message history a model is given, as strictly as providers do: every call has exactly one result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_framework import Content, Message


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call that the model made, and the text that came back."""

    tool: str
    invoice: str
    result: str


@dataclass(frozen=True, slots=True)
class Turn:
    """The newest user message, by its words and its place, and all that was called since."""

    words: str
    place: str
    exchanges: tuple[Exchange, ...]


def read_turn(messages: Sequence[Message]) -> Turn:
    """Return the turn to go on with. Raises ValueError for a history that a provider would refuse."""
    calls: list[Content] = []
    results: list[Content | None] = []
    open_calls: dict[str, int] = {}
    words, place, first_call = "", "", 0
    for count, message in enumerate(messages, start=1):
        # A user message without words carries approvals, not a new turn.
        if message.role == "user" and message.text.strip():
            words, place, first_call = message.text, f"{count}:{message.message_id}", len(calls)
        for content in message.contents:
            if content.type == "function_call":
                _open_call(content, open_calls, at=len(calls))
                calls.append(content)
                results.append(None)
            elif content.type == "function_result":
                results[_close_call(content, open_calls)] = content
    if open_calls:
        raise ValueError(f"The history has calls without a result: {', '.join(sorted(open_calls))}.")
    pairs = zip(calls[first_call:], results[first_call:], strict=True)
    return Turn(words, place, tuple(_exchange(call, result) for call, result in pairs if result is not None))


def _open_call(call: Content, open_calls: dict[str, int], *, at: int) -> None:
    if call.call_id is None or call.call_id in open_calls:
        raise ValueError(f"The history has a call without an id of its own: {call.call_id}.")
    open_calls[call.call_id] = at


def _close_call(result: Content, open_calls: dict[str, int]) -> int:
    if result.call_id is None or result.call_id not in open_calls:
        raise ValueError(f"The history has a result without a call that waits for it: {result.call_id}.")
    return open_calls.pop(result.call_id)


def _exchange(call: Content, result: Content) -> Exchange:
    arguments = call.parse_arguments() or {}
    return Exchange(tool=str(call.name), invoice=str(arguments.get("invoice", "")), result=str(result.result or ""))
