"""Makes a newly built agent ready for one run: what must stand around its tools is put there."""

from __future__ import annotations

from collections.abc import Sequence

from agent_framework import Agent, ToolApprovalMiddleware

from app.call_ids import OwnCallIds
from app.effects import RunEffects
from app.guard import ApprovalGuard
from app.provided_tools import ProvidedTools
from app.upstream import middleware_of
from stores.records import Occurrence


def prepared(agent: Agent, effects: RunEffects, occurrences: Sequence[Occurrence], provided: ProvidedTools) -> Agent:
    """Return the agent with the guard outermost, call ids that differ, and its context providers watched.

    `occurrences` are those this run's claim decides.
    """
    if agent.context_providers or any(each.provided for each in occurrences):
        agent.context_providers = [*agent.context_providers, provided]
    # Upstream's middleware for standing rules keeps them in the session and asks one question at a time: the host does
    # its work instead (`app/standing.py`).
    kept = [each for each in middleware_of(agent) if not isinstance(each, ToolApprovalMiddleware)]
    agent.middleware = [ApprovalGuard(effects), OwnCallIds(), *kept]
    return agent
