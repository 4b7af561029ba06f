"""What a client was shown for one POST, from the events of its stream to the words of a history. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any

from app.answers import canonical
from deploy.agui_client import Reply
from loadtests.banked import KINDS
from loadtests.history import Card, Replied, Result

NEVER = float("inf")
REJECTED = "Error: Tool call invocation was rejected by user."
"""How upstream words the result of a call that a person rejected: told of an approved call, it would be a lie."""
_ERROR = "Error"
"""How upstream begins the result of a call that failed."""


def replied(request: str, told: Reply, *, at: float, first_event_at: float | None = None) -> Replied:
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
    )


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
    return Result(event["toolCallId"], content, content.startswith(_ERROR) and content != REJECTED)
