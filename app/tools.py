"""What the author of a tool needs: declare the kind of its effect, and get the key or connection that kind is given.

The five lines to remember:
1. A gated tool is `unsafe` unless declared otherwise: once begun and not settled, it waits for a person.
2. `idempotent`: hand `effect_of(context).idempotency_key` to the far side; the call may be repeated with the same key.
3. `transactional`: write through `effect_of(context).connection` only; nothing outside that transaction is protected.
4. Raise `DidNotHappen` where you know that nothing happened; any other exception is a final answer the model sees.
5. Time-outs, lost connections and cancellation are open: nobody knows, so idempotent is retried, unsafe is in doubt.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from agent_framework import FunctionInvocationContext, FunctionTool, tool

from stores.records import EffectKind

_EFFECT_PROPERTY = "agui_effect"


class DidNotHappen(Exception):
    """Raised by a tool that knows its effect did not and will not happen; the model reads the message."""


class OutsideApprovedCall(Exception):
    """A tool asked for what only an approved call is given."""


@dataclass(frozen=True, slots=True)
class EffectDeclaration:
    """The kind of a tool's effect; `key_lifetime_seconds` is how long the far side recognises a key.

    `expires_seconds` is how long an approval of the tool may be answered, None for the host's setting.
    """

    kind: EffectKind
    key_lifetime_seconds: float | None = None
    expires_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class EffectCall:
    """What a gated tool is given for one approved call.

    `idempotency_key` is stable over every repeat of this call, on any replica. `connection` is the SQL connection of
    a transactional tool's transaction, otherwise None.
    """

    idempotency_key: str
    connection: Any = None


def idempotent(*, key_lifetime_seconds: float) -> EffectDeclaration:
    """Declare that the far side recognises an idempotency key for at least `key_lifetime_seconds`."""
    return EffectDeclaration(EffectKind.IDEMPOTENT, key_lifetime_seconds)


def transactional() -> EffectDeclaration:
    """Declare that the whole effect is written through the given connection."""
    return EffectDeclaration(EffectKind.TRANSACTIONAL)


def unsafe() -> EffectDeclaration:
    """Declare that a repeat can be a second effect. The default of gated tools."""
    return EffectDeclaration(EffectKind.UNSAFE)


def gated(
    effect: EffectDeclaration, *, expires_seconds: float | None = None
) -> Callable[[Callable[..., Any]], FunctionTool]:
    """Turn a function into a tool that a person must approve, with its effect declared.

    `expires_seconds` is how long they may take, where it is not what AGUI_APPROVAL_SECONDS says. Raises ValueError if
    that is no time, or has no end.
    """
    if expires_seconds is not None and not 0 < expires_seconds < math.inf:
        raise ValueError(f"An approval can not be open for {expires_seconds:g} s.")
    declared = replace(effect, expires_seconds=expires_seconds)
    return tool(approval_mode="always_require", additional_properties={_EFFECT_PROPERTY: declared})


def declared_effect(function: Any) -> EffectDeclaration:
    """Return a tool's declaration: as declared, else `unsafe` if it is gated and `none` if it is not."""
    declared = (getattr(function, "additional_properties", None) or {}).get(_EFFECT_PROPERTY)
    if isinstance(declared, EffectDeclaration):
        return declared
    is_gated = getattr(function, "approval_mode", None) == "always_require"
    return EffectDeclaration(EffectKind.UNSAFE if is_gated else EffectKind.NONE)


def give_effect(context: FunctionInvocationContext, call: EffectCall) -> None:
    """Hand an approved call what its kind is given; only the guard calls this."""
    context.metadata[_EFFECT_PROPERTY] = call


def effect_of(context: FunctionInvocationContext) -> EffectCall:
    """Return what this approved call was given. Raises OutsideApprovedCall elsewhere."""
    call: EffectCall | None = context.metadata.get(_EFFECT_PROPERTY)
    if call is None:
        raise OutsideApprovedCall(
            "This tool runs outside an approved call: it has no idempotency key and no connection."
        )
    return call
