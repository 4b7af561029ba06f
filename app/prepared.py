"""Makes a newly built agent ready for one run: what must stand around its tools is put there."""

from __future__ import annotations

from collections.abc import Sequence

from agent_framework import Agent

from app.effects import RunEffects
from app.guard import ApprovalGuard
from stores.records import Occurrence


def prepared(agent: Agent, effects: RunEffects, occurrences: Sequence[Occurrence]) -> Agent:
    """Return the agent with the guard outermost; `occurrences` are those this run's claim decides."""
    agent.middleware = [ApprovalGuard(effects), *(agent.middleware or [])]
    return agent
