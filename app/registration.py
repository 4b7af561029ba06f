"""What an agent must be to be served: its gated tools run under the guard, and their effects can be kept."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from agent_framework import Agent, FunctionInvocationLayer, FunctionTool, RawAgent

from app.tools import EffectDeclaration, declared_effect
from stores.ports import Stores
from stores.records import EffectKind

_log = logging.getLogger(__name__)


def check_agent(agent: object, stores: Stores, *, claim_seconds: float, is_development: bool) -> None:
    """Refuse an agent whose tools would run outside the guard, or whose effects this ledger can not keep.

    `claim_seconds` is how long after its claim a call may still start. Raises TypeError or ValueError naming what is
    wrong and the way out.
    """
    if not isinstance(agent, RawAgent) or not isinstance(agent.client, FunctionInvocationLayer):
        raise TypeError(
            f"{type(agent).__name__} runs its tools by itself, outside the approval guard. "
            "Serve an agent_framework Agent over a function-invoking chat client."
        )
    for name, declared in declared_effects(agent).items():
        if declared.kind is EffectKind.TRANSACTIONAL and not stores.transactional:
            raise ValueError(
                f"Tool '{name}' is transactional, but the effect ledger is not in an SQL database. "
                "Declare another kind, or set AGUI_EFFECTS_STORE=sql."
            )
        if declared.key_lifetime_seconds is not None and declared.key_lifetime_seconds <= claim_seconds:
            raise ValueError(
                f"The key of tool '{name}' lives {declared.key_lifetime_seconds:g} s, and a call may still start "
                f"{claim_seconds:g} s after its claim (AGUI_RUN_SECONDS and AGUI_CLAIM_MARGIN_SECONDS). "
                "Shorten those, or declare the tool unsafe."
            )
        if declared.kind is EffectKind.UNSAFE and not stores.durable:
            problem = (
                f"Tool '{name}' is unsafe, and the effect ledger may lose what it acknowledged: after a failover the "
                "tool could run twice. Set AGUI_EFFECTS_STORE=sql, or declare the tool idempotent, or transactional "
                "(in SQL)."
            )
            if not is_development:
                raise ValueError(problem)
            _log.warning("%s Outside development this host would not start.", problem)


def declared_effects(agent: Agent | RawAgent) -> Mapping[str, EffectDeclaration]:
    """Return the declared effect of each gated tool of an agent, by name."""
    tools = agent.default_options.get("tools") or []
    declared = {tool.name: declared_effect(tool) for tool in tools if isinstance(tool, FunctionTool)}
    return {name: effect for name, effect in declared.items() if effect.kind is not EffectKind.NONE}
