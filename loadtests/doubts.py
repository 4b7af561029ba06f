"""Rules about doubts: each has a cause, of an unsafe call that was approved, and few come of what merely was near."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loadtests.cases import Case
from loadtests.threads import IN_DOUBT, NEVER
from loadtests.troubles import Cause
from stores.records import EffectKind

NEAR_SHARE_MAX = 0.1
"""Of the unsafe pauses that met a failing replica or store, and were not known to be hit, so many may be in doubt; in
six runs it was none or one, of up to 290."""
NEAR_FEW = 5
"""So few say nothing about a share."""


def needless_doubt(case: Case) -> Iterator[str]:
    """Only a failure between the first approval and the report explains it; a late result may end it again."""
    unsafe = _unsafe(case)
    approved_at = _approved_at(case)
    for _, each in case.answered:
        if each.replied.code != IN_DOUBT or not unsafe:
            continue
        if approved_at > each.replied.at:
            yield "is in doubt, and nobody had approved an unsafe call of its pause"
        elif case.troubles.cause_of_doubt(case.asked, approved_at, each.replied.at) is None:
            yield "is in doubt, and nothing that it had met failed since it was approved"


def doubt_of_safe_calls(case: Case) -> Iterator[str]:
    """A record that lost its decisions can not tell any more what was begun: even a safe call may be in doubt then."""
    is_in_doubt = any(each.replied.code == IN_DOUBT for _, each in case.answered)
    if is_in_doubt and not _unsafe(case):
        yield "is in doubt, and no call of its pause is unsafe"


def too_many_doubts(found: Sequence[Case]) -> Iterator[str]:
    """A failure nearby may leave a call in doubt; a host that takes it for a reason each time is broken."""
    near = doubted = 0
    for case in _one_of_each_pause(found):
        ends = [
            each.replied.at for _, each in case.answered if each.replied.is_finished or _is_doubt(each.replied.code)
        ]
        approved_at = _approved_at(case)
        if not ends or approved_at > min(ends):
            continue
        if case.troubles.cause_of_doubt(case.asked, approved_at, min(ends)) is Cause.NEAR:
            near += 1
            doubted += any(_is_doubt(each.replied.code) for _, each in case.answered)
    if doubted > max(NEAR_FEW, NEAR_SHARE_MAX * near):
        yield f"{doubted} of {near} pauses that a failure was near to are in doubt"


def _one_of_each_pause(found: Sequence[Case]) -> list[Case]:
    pauses = {frozenset(card.interrupt_id for card in case.pause): case for case in found if _unsafe(case)}
    return list(pauses.values())


def _unsafe(case: Case) -> list[str]:
    return [card.interrupt_id for card in case.pause if card.kind is EffectKind.UNSAFE]


def _approved_at(case: Case) -> float:
    """Return when the first approval of an unsafe call of its pause was sent."""
    return min((each.sent.at for _, each in case.thread.approvals(_unsafe(case))), default=NEVER)


def _is_doubt(code: str | None) -> bool:
    return code == IN_DOUBT
