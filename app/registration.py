"""What an agent must be to be served: its gated tools run under the guard, and their effects can be kept."""

from __future__ import annotations

from collections.abc import Mapping

from agent_framework import Agent, FunctionInvocationLayer, FunctionTool, RawAgent

from app.tools import EffectDeclaration, declared_effect
from stores.records import EffectKind


def check_agent(agent: object, *, is_transactional: bool) -> None:
    """Refuse an agent whose tools would run outside the guard, or whose effects this ledger can not keep.

    Raises TypeError or ValueError naming what is wrong and the way out.
    """
    if not isinstance(agent, RawAgent) or not isinstance(agent.client, FunctionInvocationLayer):
        raise TypeError(
            f"{type(agent).__name__} runs its tools by itself, outside the approval guard. "
            "Serve an agent_framework Agent over a function-invoking chat client."
        )
    for name, declared in declared_effects(agent).items():
        if declared.kind is EffectKind.TRANSACTIONAL and not is_transactional:
            raise ValueError(
                f"Tool '{name}' is transactional, but the effect ledger is not in an SQL database. "
                "Declare another kind, or set AGUI_STORES=sql."
            )


def declared_effects(agent: Agent | RawAgent) -> Mapping[str, EffectDeclaration]:
    """Return the declared effect of each gated tool of an agent, by name."""
    tools = agent.default_options.get("tools") or []
    declared = {tool.name: declared_effect(tool) for tool in tools if isinstance(tool, FunctionTool)}
    return {name: effect for name, effect in declared.items() if effect.kind is not EffectKind.NONE}
