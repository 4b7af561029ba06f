"""A stored history read as a strict provider reads it: every call has one result, at once, and nothing else has one."""

from __future__ import annotations

from collections.abc import Sequence

from tests.host.answers import Json


def exchanges(messages: Sequence[Json]) -> list[tuple[str, str]]:
    """Return tool and result of every call, in the order of the calls; fails where a provider would refuse."""
    found: list[tuple[str, str]] = []
    waiting: dict[str, int] = {}
    for message in messages:
        if message["role"] == "tool":
            assert message["toolCallId"] in waiting, f"{message['toolCallId']} has a result and no call that waits"
            place = waiting.pop(message["toolCallId"])
            found[place] = (found[place][0], str(message["content"]))
            continue
        assert not waiting, f"before a {message['role']} message there is no result of {sorted(waiting)}"
        for call in message.get("toolCalls") or []:
            assert call["id"] not in waiting, f"two calls of one message are both {call['id']}"
            waiting[call["id"]] = len(found)
            found.append((call["function"]["name"], ""))
    assert not waiting, f"at the end there is no result of {sorted(waiting)}"
    return found
