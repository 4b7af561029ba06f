"""Tools that context providers offer run by run: seen before anything of a run executes, and held to the same rules."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent_framework import (
    AgentSession,
    ChatMiddleware,
    ContextProvider,
    FunctionMiddleware,
    RawAgent,
    SessionContext,
    SupportsAgentRun,
)

from app.errors import Code, Refusal, RunRefused
from app.gated_tools import GatedTool, unfit
from app.registration import Registration
from app.unguarded import tools_of
from stores.records import Occurrence, Verdict

_log = logging.getLogger(__name__)


class ProvidedTools(ContextProvider):
    """The last context provider of one run, which looks at what the others offered; it offers nothing itself."""

    def __init__(
        self, registration: Registration, own: Mapping[str, GatedTool], occurrences: Sequence[Occurrence]
    ) -> None:
        super().__init__("provided-tools")
        self.gated: Mapping[str, GatedTool] = {}
        self.innermost: Sequence[FunctionMiddleware | ChatMiddleware] = ()
        self._registration = registration
        self._own = own
        self._occurrences = occurrences

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Note the gated tools of this run. Raises RunRefused if one can not be served, or an approved one is gone."""
        assert isinstance(agent, RawAgent), "no other agent is registered"
        tools = [*tools_of(agent), *context.tools]
        try:
            self.gated = self._registration.check_tools(context.tools, agent=agent)
            asked = {each.tool: self._registration.asked(each.tool, tools) for each in self._approved()}
        except ValueError as error:
            _log.error("A context provider's tool can not be served: %s", error)
            message = "A context provider of this agent offers a tool that this host can not serve."
            raise RunRefused(Refusal(Code.RUN_FAILED, message)) from error
        for each in self._approved():
            assert each.decision is not None, "approved calls have one"
            refusal = unfit(each, each.decision, self.gated.get(each.tool) or asked[each.tool])
            if refusal is not None:
                raise RunRefused(replace(refusal, interrupts=tuple(each.interrupt_id for each in self._occurrences)))
        context.extend_middleware(self.source_id, self.innermost)

    def _approved(self) -> list[Occurrence]:
        """Return the approved calls of tools that could not be looked at before the claim, as the agent's own are."""
        here = [each for each in self._occurrences if each.hosted_by is None]
        unseen = [each for each in here if each.provided and each.tool not in self._own]
        return [each for each in unseen if each.decision is not None and each.decision.verdict is Verdict.APPROVE]

    async def after_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Take the state away that every provider is given: what stays in a session is stored with its thread."""
        session.state.pop(self.source_id, None)
