"""What a client was shown for one POST, from the events of its stream to the words of a history. Pure."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any

from app.answers import canonical
from app.end_texts import REJECTED_TEXT
from app.upkeep import CANCELLED_TEXT, EXPIRED_TEXT
from deploy.agui_client import Json, Reply
from loadtests.banked import KINDS
from loadtests.history import Card, Replied, Result

NEVER = float("inf")
INVOICE = re.compile(r"INV-[\w-]+")
"""The names of invoices: the load's own tell whose they are."""
NOT_RUN = frozenset({REJECTED_TEXT, CANCELLED_TEXT, EXPIRED_TEXT})
"""What is told as the result of a call that nobody approved: told of an approved call, it would be a lie."""
_ERROR = "Error"
"""How upstream begins the result of a call that failed."""


def replied(
    request: str, told: Reply, *, at: float, first_event_at: float | None = None, has_left: bool = False
) -> Replied:
    """Return how a POST ended; a refusal by HTTP alone has the code `HTTP 503` and the like, and is never definite."""
    outcome = told.end.get("outcome") or {}
    is_refused = told.status not in (0, HTTPStatus.OK)
    return Replied(
        at,
        request,
        code=f"HTTP {told.status}" if is_refused else told.code,
        definite=told.metadata.get("definite") is True,
        is_cut=told.is_cut,
        is_replay=told.is_replay,
        is_paused=outcome.get("type") == "interrupt",
        results=tuple(_result(event) for event in told.events if event["type"] == "TOOL_CALL_RESULT"),
        text=told.text,
        cards=tuple(card(each) for each in told.interrupts),
        open=tuple(each["interruptId"] for each in told.metadata.get("approvals", [])),
        status=told.status,
        replica=told.replica,
        first_event_at=first_event_at,
        page=_page(told),
        names=names_in(_whole(told.events)),
        has_left=has_left and told.is_cut,
    )


def names_in(what: object) -> tuple[str, ...]:
    """Return the invoices that any part of something that is sent or told speaks of, each once."""
    return tuple(sorted(set(INVOICE.findall(json.dumps(what)))))


def card(interrupt: Mapping[str, Any]) -> Card:
    """Return an approval as it is asked for. Raises KeyError for a tool that is not gated."""
    call = interrupt["metadata"]["agent_framework"]["function_call"]
    arguments = call["arguments"]
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    expires_at = interrupt.get("expiresAt")
    return Card(
        interrupt["id"],
        interrupt["toolCallId"],
        call["name"],
        KINDS[call["name"]],
        canonical(arguments),
        datetime.fromisoformat(expires_at).timestamp() if expires_at else NEVER,
    )


def _result(event: Mapping[str, Any]) -> Result:
    content = str(event["content"])
    return Result(event["toolCallId"], content, content.startswith(_ERROR) and content not in NOT_RUN)


def _whole(events: Sequence[Json]) -> list[object]:
    """Return what events speak of, with what came in parts put together: a part may end within a name."""
    parts: defaultdict[object, str] = defaultdict(str)
    rest: list[object] = []
    for event in events:
        if "delta" in event and isinstance(event["delta"], str):
            parts[event.get("messageId") or event.get("toolCallId")] += event["delta"]
        else:
            rest.append(event)
    return [*rest, *parts.values()]


def _page(told: Reply) -> tuple[Result, ...]:
    """Return the results in the last picture of the thread that a reply has."""
    pictures = [event["messages"] for event in told.events if event["type"] == "MESSAGES_SNAPSHOT"]
    messages = pictures[-1] if pictures else ()
    return tuple(_result(each) for each in messages if each["role"] == "tool")
