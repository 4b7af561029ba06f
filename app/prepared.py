"""Makes a newly built agent ready for one run: what must stand around its tools is put there."""

from __future__ import annotations

from collections.abc import Sequence

from agent_framework import Agent, ChatMiddleware, FunctionMiddleware, ToolApprovalMiddleware

from app.asked_together import AskedTogether
from app.call_ids import OwnCallIds
from app.called import Gates, GoesThroughGate
from app.effects import RunEffects
from app.end_texts import EndTexts
from app.guard import ApprovalGuard
from app.hosted_calls import HostedCalls
from app.provided_tools import ProvidedTools
from app.upstream import middleware_of
from stores.records import Occurrence


def prepared(
    agent: Agent, effects: RunEffects, occurrences: Sequence[Occurrence], provided: ProvidedTools, ends: EndTexts
) -> Agent:
    """Return the agent with a guard outermost for tools and one innermost for requests, and its providers watched.

    `occurrences` are those this run's claim decides; `ends` says of those that were given up why they did not run.
    """
    gates = Gates()
    innermost: list[FunctionMiddleware | ChatMiddleware] = [GoesThroughGate(gates), HostedCalls(effects)]
    if agent.context_providers or any(each.provided for each in occurrences):
        # It also puts the innermost middleware there, inside that of the other providers.
        provided.innermost, innermost = innermost, []
        agent.context_providers = [*agent.context_providers, provided]
    # Upstream's middleware for standing rules keeps them in the session and asks one question at a time: the host does
    # its work instead (`app/standing.py`).
    kept = [each for each in middleware_of(agent) if not isinstance(each, ToolApprovalMiddleware)]
    agent.middleware = [AskedTogether(), ApprovalGuard(effects, gates), OwnCallIds(), ends, *kept, *innermost]
    return agent
