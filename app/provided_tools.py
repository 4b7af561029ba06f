"""Tools that context providers offer run by run: seen before anything of a run executes, and held to the same rules."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent_framework import AgentSession, ContextProvider, RawAgent, SessionContext, SupportsAgentRun

from app.errors import Code, Refusal, RunRefused
from app.gated_tools import GatedTool, unfit
from app.registration import Registration
from stores.records import Occurrence, Verdict

_log = logging.getLogger(__name__)


class ProvidedTools(ContextProvider):
    """The last context provider of one run, which looks at what the others offered; it offers nothing itself."""

    def __init__(
        self, registration: Registration, own: Mapping[str, GatedTool], occurrences: Sequence[Occurrence]
    ) -> None:
        super().__init__("provided-tools")
        self.gated: Mapping[str, GatedTool] = {}
        self._registration = registration
        self._own = own
        self._occurrences = occurrences

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Note the gated tools of this run. Raises RunRefused if one can not be served, or an approved one is gone."""
        assert isinstance(agent, RawAgent), "no other agent is registered"
        try:
            self.gated = self._registration.check_tools(context.tools, agent=agent)
        except ValueError as error:
            _log.error("A context provider's tool can not be served: %s", error)
            message = "A context provider of this agent offers a tool that this host can not serve."
            raise RunRefused(Refusal(Code.RUN_FAILED, message)) from error
        for each in self._occurrences:
            # The agent's own tools were looked at before the claim.
            is_approved = each.decision is not None and each.decision.verdict is Verdict.APPROVE
            if each.decision is None or not is_approved or not each.provided or each.tool in self._own:
                continue
            refusal = unfit(each, each.decision, self.gated.get(each.tool))
            if refusal is not None:
                raise RunRefused(replace(refusal, interrupts=tuple(each.interrupt_id for each in self._occurrences)))

    async def after_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Take the state away that every provider is given: what stays in a session is stored with its thread."""
        session.state.pop(self.source_id, None)
