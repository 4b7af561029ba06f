"""The rule that hosts do not fail by themselves: who was cut off, or told of a failure, had met one, and few had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loadtests.cases import Case
from loadtests.codes import FAILED, busy_for_nothing
from loadtests.history import Exchange, Result
from loadtests.troubles import Troubles

SHARE_MAX = 0.01
"""Of all requests: so many may fail without a fault of the nemesis, as a busy machine lets a store be late."""
FEW = 5
"""So few say nothing about a share."""
ALL_SHARE_MAX = 1 / 3
"""Of all requests: so many may fail in all. Where a replica is killed every few seconds it is one of twenty."""


def failures_without_cause(all_of_them: Sequence[Exchange], troubles: Troubles) -> Iterator[str]:
    """Nearly every cut or failed request was at a replica, or needed a store, that something had befallen.

    That a thread is busy which nobody keeps busy is such a failure, too.
    """
    of_all = [each for each in all_of_them if _has_failed(each)]
    if len(of_all) > max(FEW, ALL_SHARE_MAX * len(all_of_them)):
        yield f"{len(of_all)} of {len(all_of_them)} requests failed"
    candidates = (*of_all, *busy_for_nothing(all_of_them))
    failed = [each for each in candidates if not troubles.explain_failure(each)]
    if len(failed) > max(FEW, SHARE_MAX * len(all_of_them)):
        first = failed[0]
        told = first.replied.code or "cut"
        yield (
            f"{len(failed)} of {len(all_of_them)} requests failed, and nothing that they had met did; "
            f"the first is {first.sent.request}, which was {told} by {first.replied.replica or 'nobody known'}"
        )


def too_many_told_failures(found: Sequence[Case]) -> Iterator[str]:
    """An unsafe call may be told as failed where its far side could not be reached: hardly ever."""
    failed = [
        case.name
        for case in found
        if any(result.is_error and result.call_id == case.card.call_id for result in _results(case))
    ]
    if len(failed) > FEW:
        yield f"{len(failed)} calls were told as failed; the first is {failed[0]}"


def _results(case: Case) -> Iterator[Result]:
    return (result for _, each in case.answered for result in each.replied.results)


def _has_failed(each: Exchange) -> bool:
    reply = each.replied
    return (reply.is_cut and not reply.has_left) or reply.code in FAILED
