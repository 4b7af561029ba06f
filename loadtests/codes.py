"""Rules about refusals: each fits what was sent, and who is told that a thread is busy was not alone there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.errors import Code
from loadtests.history import Exchange, Intent
from loadtests.statuses import UNINFORMATIVE
from loadtests.threads import CONFLICT, EXPIRED, IN_DOUBT, IN_PROGRESS, NOT_FOUND, Found, threads_of

BUSY = frozenset({IN_PROGRESS, str(Code.RUN_IN_PROGRESS), str(Code.THREAD_BUSY)})
"""Another run has this thread, or this very one is under way."""
FAILED = UNINFORMATIVE - {Code.LIMIT_EXCEEDED}
"""What may be told of anything while something fails; `failing.py` judges whether something did."""
_TO_AN_ANSWER = frozenset({*BUSY, CONFLICT, EXPIRED, IN_DOUBT, NOT_FOUND})
"""That a card is not found is judged by the rule about what is lost."""
_TO_A_STRANGER = frozenset({NOT_FOUND})


def unfit(all_of_them: Sequence[Exchange]) -> Found:
    """The users of a load send nothing that is malformed, or too much: all that is left are these refusals."""
    for each in all_of_them:
        code = each.replied.code
        if each.sent.intent is None or code is None or code in FAILED:
            continue
        if code not in _fitting(each):
            approval = each.sent.answers[0].interrupt_id if each.sent.answers else ""
            yield approval, f"{each.sent.request}, to {each.sent.intent}, was told {code}"


def busy_for_nothing(all_of_them: Sequence[Exchange]) -> Iterator[Exchange]:
    """Return the requests that were told that a thread is busy, and that no other request can have kept so."""
    for thread in threads_of(all_of_them).values():
        for each in thread.exchanges:
            if each.replied.code in BUSY and not any(_may_keep_busy(other, each) for other in thread.exchanges):
                yield each


def _fitting(each: Exchange) -> frozenset[str]:
    sent = each.sent
    if sent.intent in {Intent.FORGE, Intent.INTRUDE}:
        return _TO_A_STRANGER
    if sent.answers:
        return _TO_AN_ANSWER
    return frozenset() if sent.looks else BUSY


def _may_keep_busy(other: Exchange, each: Exchange) -> bool:
    """Whether a run of another request may have been under way: it was, or nobody was told how it ended."""
    if other is each or other.sent.looks or other.sent.at > each.replied.at:
        return False
    reply = other.replied
    has_no_end = reply.is_cut or reply.code in FAILED or reply.code == IN_DOUBT
    # It may be told itself, in the end, that another one has the thread: as a run that was frozen is.
    outlasts = other.sent.at <= each.sent.at and reply.at >= each.replied.at
    return has_no_end or (reply.code is None and reply.at >= each.sent.at) or (reply.code in BUSY and outlasts)
