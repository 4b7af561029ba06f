"""One decision wins a pause, and from then on no reply says otherwise: rules about what requests were told, in time."""

from __future__ import annotations

from collections.abc import Iterator

from loadtests.cases import Case
from loadtests.history import Answer, Exchange
from loadtests.threads import CONFLICT, EXPIRED, IN_DOUBT, IN_PROGRESS, NEVER, Thread
from stores.records import Verdict

STILL_OPEN = frozenset({IN_PROGRESS, IN_DOUBT, EXPIRED, "APPROVAL_RESUME_MISSING_INTERRUPT", "APPROVAL_RESUME_STALE"})
"""What is only said of a pause that has not come to its end."""


def contradicted(case: Case) -> Iterator[str]:
    """After a client was told an end, no request that is sent then is told another, or that there is none yet."""
    thread = case.thread
    for answer, each in case.answered:
        names = [each_answer.interrupt_id for each_answer in each.sent.answers]
        is_over = all(thread.taken_at.get(name, each.sent.at) < each.sent.at for name in names)
        if is_over and each.replied.code in STILL_OPEN:
            yield f"{each.sent.request} was told {each.replied.code} of what had been answered before"
        if each.replied.is_finished and thread.expired_at.get(case.name, each.sent.at) < each.sent.at:
            yield f"{each.sent.request} was answered {answer.verdict.value} after it was said to be expired"


def expired_under_way(case: Case) -> Iterator[str]:
    """A decision that a replica was carrying out in time is recorded soon: then its time counts no more.

    Where the ledger is a store of its own, a replica may fail when it has reserved the calls and claimed nothing.
    """
    under_way = [
        each.replied.at
        for _, each in case.answered
        if each.replied.code == IN_PROGRESS and each.replied.at < case.card.expires_at
    ]
    first_asked_at = min((each.sent.at for _, each in case.answered), default=NEVER)
    for _, each in case.answered:
        if each.replied.code != EXPIRED:
            continue
        until = each.replied.at
        if case.troubles.had_claimed(case.asked, first_asked_at, min(until, case.card.expires_at)):
            yield f"{each.sent.request} was told that it expired, and its decision had been recorded in time"
        elif any(at < each.sent.at for at in under_way) and not case.troubles.have_met(
            case.asked, first_asked_at, until
        ):
            yield f"{each.sent.request} was told that it expired, and it had been under way in time"


def lying_conflict(case: Case) -> Iterator[str]:
    """A conflict means another decision than this one: one that somebody had sent, or that came with its time."""
    for _, each in case.answered:
        answers = [answer for answer in each.sent.answers if answer.interrupt_id in case.thread.cards]
        if each.replied.code != CONFLICT or len(answers) < len(each.sent.answers):
            continue
        if all(_is_the_only_one(case.thread, answer, each) for answer in answers):
            yield f"{each.sent.request} conflicts with what nobody had sent"
        elif all(_is_taken(case.thread, answer) for answer in answers):
            yield f"{each.sent.request} conflicts with the very decision that was taken"


def _is_the_only_one(thread: Thread, answer: Answer, each: Exchange) -> bool:
    if each.replied.at >= thread.cards[answer.interrupt_id].expires_at:
        return False  # Time may have decided.
    others = (other for other, sent in thread.answers[answer.interrupt_id] if sent.sent.at < each.replied.at)
    return all(other == answer for other in others)


def _is_taken(thread: Thread, answer: Answer) -> bool:
    # A thread that can not go on may be left by a cancel that was refused while it could.
    ends = (other for other, sent in thread.answers[answer.interrupt_id] if sent.replied.is_finished)
    return answer.verdict is not Verdict.CANCEL and answer in ends
