"""Refusals that say nothing about an approval: of a host that is full, or drains, or has lost its store."""

from __future__ import annotations

from app.errors import Code

STATUSES = frozenset({429, 502, 503, 504})
"""Refusals by HTTP alone that a client knows: a full scope, a full or draining replica, the load balancer's own."""
UNINFORMATIVE = frozenset(
    {Code.STORE_UNAVAILABLE, Code.RUN_FAILED, Code.LIMIT_EXCEEDED, *(f"HTTP {status}" for status in STATUSES)}
)
"""Refusals that say nothing about whether there is such an approval."""
