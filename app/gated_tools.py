"""What this version of an agent knows of a gated tool, and whether an approval still fits it. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from app.answers import canonical
from app.errors import Code, Refusal
from stores.records import Decision, EffectKind, Json, Occurrence, OccurrenceState

TOGETHER = ""
"""What stands for an argument's name where only some of them together do not fit."""


def _no_misfits(_arguments: Json) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class GatedTool:
    """One gated tool: the kind of its effect, how long its key and its approvals live, and which arguments it refuses.

    `misfits` answers the name of each argument that the tool's schema does not take, with the reason, without its
    value. `expires_seconds` is None where the host's setting counts.
    """

    kind: EffectKind
    key_lifetime_seconds: float | None = None
    expires_seconds: float | None = None
    misfits: Callable[[Json], Mapping[str, str]] = _no_misfits


UNKNOWN = GatedTool(EffectKind.UNSAFE)
"""What a call is taken for whose tool cannot be seen: nothing may be repeated."""


def name_of(asked: Occurrence) -> str:
    """Return what the tool of a call is known by among the gated tools."""
    return asked.tool if asked.hosted_by is None else hosted_name(asked.hosted_by)


def hosted_name(label: str) -> str:
    """Return what a hosted tool is known by: its calls may have the names of tools that run here."""
    return f"hosted:{label}"


def unfit(asked: Occurrence, decision: Decision, tool: GatedTool | None) -> Refusal | None:
    """Refuse an approval that the tool of this version can not carry out as it was given.

    An edit that does not fit is the fault of the answer. Arguments that do not fit any more as they were shown, or were
    approved by an earlier request, are the fault of a changed tool; those that never did go to the tool, whose error
    tells the model.
    """
    names = (asked.interrupt_id,)
    if tool is None or tool.kind is not asked.kind:
        message = f"Approved tool '{asked.tool}' is temporarily unavailable; retry the approval later."
        return Refusal(Code.TOOL_UNAVAILABLE, message, names)
    shown, approved = (cast(Json, json.loads(text)) for text in (asked.arguments, decision.arguments))
    edited = {name for name in approved if name not in shown or canonical(approved[name]) != canonical(shown[name])}
    for name, reason in sorted(tool.misfits(approved).items()):
        is_edit = name in edited or (name == TOGETHER and bool(edited))
        if is_edit and asked.state is OccurrenceState.PENDING:
            what = f"a value for '{name}'" if name else "edited arguments"
            message = f"The answer for interruptId '{asked.interrupt_id}' has {what} that its tool refuses ({reason})."
            return Refusal(Code.RESUME_INVALID_RESPONSE, message, names)
        if is_edit or asked.is_valid:
            what = f"the argument '{name}'" if name else "these arguments"
            message = f"Approved tool '{asked.tool}' takes {what} no more ({reason}); reject or cancel the call."
            return Refusal(Code.TOOL_UNAVAILABLE, message, names)
    return None
