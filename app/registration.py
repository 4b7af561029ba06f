"""What an agent must be to be served: its gated tools run under the guard, and their effects can be kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from agent_framework import Agent, FunctionInvocationLayer, FunctionTool, RawAgent

from app.argument_fit import misfits_of
from app.gated_tools import UNKNOWN, GatedTool, hosted_name
from app.tools import EffectDeclaration, declared_effect, unsafe
from app.unguarded import hosted_label, problem_with, tools_of
from stores.ports import Stores
from stores.records import EffectKind

_log = logging.getLogger(__name__)


class Registration:
    """The rules that an agent and its tools must keep to on this host.

    `claim_seconds` is how long after its claim a call may still start.
    """

    def __init__(self, stores: Stores, *, claim_seconds: float, is_development: bool) -> None:
        self._stores = stores
        self._claim_seconds = claim_seconds
        self._is_development = is_development

    def built_by(self, build: Callable[[], Agent[Any]]) -> Agent[Any]:
        """Return a newly built agent. Raises TypeError for a builder that hands out one agent for several runs."""
        agent = build()
        if build() is agent:
            raise TypeError(
                f"Agent '{agent.name}' is built once for all runs, so what one run is given would reach the next. "
                "Build a new Agent in every call; what is costly to make may be shared by them."
            )
        return agent

    def check(self, agent: object) -> Mapping[str, GatedTool]:
        """Return the gated tools of an agent, or refuse it.

        Raises TypeError or ValueError naming what is wrong and the way out: its tools would run outside the guard, or
        their effects can not be kept by this ledger.
        """
        return self.check_tools(tools_of(_guarded(agent)), agent=_guarded(agent))

    def check_tools(self, tools: Iterable[object], *, agent: RawAgent[Any]) -> Mapping[str, GatedTool]:
        """Return the gated ones of these tools of an agent, or refuse them as `check` does."""
        gated: dict[str, GatedTool] = {}
        for tool in tools:
            problem = problem_with(tool, agent=agent)
            if problem is not None:
                raise ValueError(problem)
            declared = declared_effect(tool)
            if isinstance(tool, FunctionTool) and declared.kind is not EffectKind.NONE:
                self._check_effect(tool.name, declared)
                gated[tool.name] = self._gated(tool, declared)
            label = hosted_label(tool)
            if label is not None:
                gated[hosted_name(label)] = self.hosted(label)
        return gated

    def hosted(self, label: str) -> GatedTool:
        """Return what a hosted tool is taken for: unsafe. Raises ValueError if the ledger can not keep its effects."""
        self._check_durable(
            f"The hosted tool '{label}' needs an approval, and the effect ledger may lose what it acknowledged: after "
            "a failover its call could be approved twice. Set AGUI_EFFECTS_STORE=sql, or let the model's provider run "
            "it without an approval."
        )
        return UNKNOWN

    def asked(self, name: str, tools: Iterable[object]) -> GatedTool | None:
        """Return an ungated tool among these, for a call of it that the agent's middleware asked a person about.

        Nobody has declared its effect, so it is unsafe. Raises ValueError as `check_tools`.
        """
        found = next((each for each in tools if isinstance(each, FunctionTool) and each.name == name), None)
        if found is None or found.declaration_only:
            return None
        self._check_effect(name, unsafe())
        return self._gated(found, unsafe())

    def _check_effect(self, name: str, declared: EffectDeclaration) -> None:
        if declared.kind is EffectKind.TRANSACTIONAL and not self._stores.transactional:
            raise ValueError(
                f"Tool '{name}' is transactional, but the effect ledger is not in an SQL database. "
                "Declare another kind, or set AGUI_EFFECTS_STORE=sql."
            )
        if declared.key_lifetime_seconds is not None and declared.key_lifetime_seconds <= self._claim_seconds:
            raise ValueError(
                f"The key of tool '{name}' lives {declared.key_lifetime_seconds:g} s, and a call may still start "
                f"{self._claim_seconds:g} s after its claim (AGUI_RUN_SECONDS and AGUI_CLAIM_MARGIN_SECONDS). "
                "Shorten those, or declare the tool unsafe."
            )
        if declared.kind is EffectKind.UNSAFE:
            self._check_durable(
                f"Tool '{name}' is unsafe, and the effect ledger may lose what it acknowledged: after a failover the "
                "tool could run twice. Set AGUI_EFFECTS_STORE=sql, or declare the tool idempotent, or transactional "
                "(in SQL)."
            )

    def _check_durable(self, problem: str) -> None:
        if self._stores.durable:
            return
        if not self._is_development:
            raise ValueError(problem)
        _log.warning("%s Outside development this host would not start.", problem)

    def _gated(self, tool: FunctionTool, declared: EffectDeclaration) -> GatedTool:
        """Shorten a key's lifetime by a claim: it is judged when a claim is made, and the call may start at its end."""
        lifetime_seconds = declared.key_lifetime_seconds
        if lifetime_seconds is not None:
            lifetime_seconds -= self._claim_seconds
        return GatedTool(declared.kind, lifetime_seconds, declared.expires_seconds, partial(misfits_of, tool))


def _guarded(agent: object) -> Agent[Any]:
    """Return the agent, or refuse it since its tools would run outside the guard."""
    if not isinstance(agent, Agent) or not isinstance(agent.client, FunctionInvocationLayer):
        raise TypeError(
            f"{type(agent).__name__} runs its tools by itself, outside the approval guard. "
            "Serve an agent_framework Agent over a function-invoking chat client."
        )
    if _overrides(agent, "run"):
        raise TypeError(
            f"{type(agent).__name__} has a run() of its own, so its tools may run outside the approval guard. "
            "Serve an agent_framework Agent, and put what run() adds into an AgentMiddleware of it."
        )
    if _overrides(agent.client, "get_response"):
        raise TypeError(
            f"{type(agent.client).__name__} has a get_response() of its own, so it may run tools outside the approval "
            "guard. Override _inner_get_response() instead, or put what it adds into a ChatMiddleware of the agent."
        )
    if agent.client.function_middleware:
        raise TypeError(
            f"The chat client of agent '{agent.name}' has function middleware, which stands outside the approval "
            "guard. Give it to the agent instead: Agent(..., middleware=[...])."
        )
    return agent


def _overrides(value: object, method: str) -> bool:
    """Say whether a method comes from elsewhere than agent-framework's own packages."""
    owner = next((each for each in type(value).__mro__ if method in vars(each)), None)
    return method in vars(value) or owner is None or not owner.__module__.startswith("agent_framework")
