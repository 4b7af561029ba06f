"""Reads which standing rules a request takes back: `forwardedProps.standingRules.revoke`, by their interrupt ids."""

from __future__ import annotations

from collections.abc import Mapping

from app.errors import Code, Refusal
from stores.records import Json


def revoked_by(input_data: Json) -> tuple[str, ...] | Refusal:
    """Return the interrupts whose rules shall hold no longer; none where the request names none."""
    interrupts: list[str] = []
    for name in ("forwarded_props", "forwardedProps"):
        props = input_data.get(name)
        asked = props.get("standingRules") if isinstance(props, Mapping) else None
        if asked is None:
            continue
        named = asked.get("revoke") if isinstance(asked, Mapping) else None
        if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
            message = "forwardedProps.standingRules must be an object whose `revoke` is a list of interruptIds."
            return Refusal(Code.RESUME_INVALID, message)
        interrupts += named
    return tuple(interrupts)
