"""The rule that hosts do not fail by themselves: who was cut off, or told of a failure, had met one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loadtests.history import Exchange
from loadtests.replies import STATUSES
from loadtests.threads import RUN_FAILED, STORE_UNAVAILABLE
from loadtests.troubles import Troubles

SHARE_MAX = 0.01
"""Of all requests: so many may fail without a fault of the nemesis, as a busy machine lets a store be late."""
FEW = 5
"""So few say nothing about a share."""
_FAILURES = frozenset({RUN_FAILED, STORE_UNAVAILABLE, *(f"HTTP {status}" for status in STATUSES)})


def failures_without_cause(all_of_them: Sequence[Exchange], troubles: Troubles) -> Iterator[str]:
    """Nearly every cut or failed request was at a replica, or needed a store, that something had befallen."""
    failed = [each for each in all_of_them if _has_failed(each) and not troubles.explain_failure(each)]
    if len(failed) > max(FEW, SHARE_MAX * len(all_of_them)):
        first = failed[0]
        told = first.replied.code or "cut"
        yield (
            f"{len(failed)} of {len(all_of_them)} requests failed, and nothing that they had met did; "
            f"the first is {first.sent.request}, which was {told} by {first.replied.replica or 'nobody known'}"
        )


def _has_failed(each: Exchange) -> bool:
    reply = each.replied
    return (reply.is_cut and not reply.has_left) or reply.code in _FAILURES
