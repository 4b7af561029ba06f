"""What was executed, against what was approved and what was told of it: the rules about effects."""

from __future__ import annotations

from collections.abc import Iterator

from loadtests.cases import Case
from loadtests.history import Replied, Result
from loadtests.shown import NOT_RUN
from loadtests.threads import EXPIRED, NEVER
from stores.records import EffectKind, Verdict


def unapproved(case: Case) -> Iterator[str]:
    """Nothing happens before somebody had approved it."""
    for effect in case.effects:
        if not any(effect.at is None or each.sent.at <= effect.at for _, each in case.approvals):
            yield f"{effect}, and nobody had approved it"


def repeated(case: Case) -> Iterator[str]:
    """It happens once at most."""
    if len(case.effects) > 1:
        yield f"{len(case.effects)} effects of one {case.card.kind.value} call"


def altered(case: Case) -> Iterator[str]:
    """It happens with the arguments that were approved."""
    taken = {answer.arguments for answer, _ in case.taken if answer.verdict is Verdict.APPROVE}
    approved = taken or {answer.arguments for answer, _ in case.approvals}
    for effect in case.effects:
        if approved and effect.arguments not in approved:
            yield f"executed with {effect.arguments}, approved were {sorted(approved)}"


def other_key(case: Case) -> Iterator[str]:
    """The far side recognises a repeat by it."""
    for effect in case.effects:
        is_keyless = effect.key is None and case.card.kind is not EffectKind.IDEMPOTENT
        if effect.key != case.name and not is_keyless:
            yield f"was asked for with the key {effect.key!r}"


def called_again(case: Case) -> Iterator[str]:
    """A far side that knows the key forgives a second call, but nothing else than a failure is a reason for it."""
    since = min((each.sent.at for _, each in case.approvals), default=NEVER)
    until = min((each.replied.at for _, each in case.taken), default=NEVER)
    for effect in case.effects:
        if effect.calls > 1 and not case.troubles.have_met(case.asked, since, until):
            yield f"was asked for {effect.calls} times, and nothing that it had met had failed before its end"


def without_effect(case: Case) -> Iterator[str]:
    """Whether a client was told a result at once, in a replay or by a page: it is the one effect's, and comes after."""
    successes = list(_successes(case))
    for result, reply in successes:
        if not case.effects:
            yield f"{reply.request} was told {result.content!r}, and there is no effect"
        elif case.effects[0].result not in (None, result.content):
            yield f"{reply.request} was told {result.content!r}, its effect is {case.effects[0].result!r}"
    first_told_at = min((reply.at for _, reply in successes), default=NEVER)
    for effect in case.effects:
        if effect.at is not None and effect.at > first_told_at:
            yield f"its result was told before its effect, {effect}"


def told_nothing(case: Case) -> Iterator[str]:
    """Whoever decides is told each call's result, and what the agent says of it, or asks next."""
    for answer, each in case.taken:
        reply = each.replied
        if answer.verdict is not Verdict.CANCEL and not any(_told(case, reply)):
            yield f"{reply.request} was answered without a result"
        # What it asks next may have expired when it is told again.
        if answer.verdict is Verdict.APPROVE and not (reply.text or reply.cards or reply.is_replay):
            yield f"{reply.request} was answered without a word"


def told_otherwise(case: Case) -> Iterator[str]:
    """An approved call is told its result, or its failure; one that nobody approved is told that it did not run."""
    for answer, each in case.taken:
        for result in _told(case, each.replied):
            is_not_run = result.content in NOT_RUN
            if is_not_run is (answer.verdict is Verdict.APPROVE):
                yield f"{each.replied.request} was told {result.content!r}, and the answer was: {answer.verdict.value}"


def definite_with_effect(case: Case) -> Iterator[str]:
    """A definite refusal speaks of all calls of the pause, and only a request that may have been taken has effects."""
    names = {card.interrupt_id for card in case.pause}
    # Of a transaction nobody knows when it happened; whoever was told its result knows that it had.
    first_told_at = min((reply.at for _, reply in _successes(case)), default=NEVER)
    for each in case.thread.exchanges:
        if each.replied.definite and any(answer.interrupt_id in names for answer in each.sent.answers):
            happened = [effect for effect in case.effects if (effect.at or first_told_at) <= each.sent.at]
            if happened:
                yield f"{each.replied.code} was definite for {each.sent.request}, after {happened}"
    for effect in case.effects:
        before = [each for _, each in case.approvals if effect.at is None or each.sent.at <= effect.at]
        if before and all(each.replied.definite for each in before):
            yield f"every approval was definitely refused, and yet: {effect}"


def failed_with_effect(case: Case) -> Iterator[str]:
    """Who tells that a call failed knows that nothing happened, and what had failed.

    So the tools of the load are made: what they do not know they leave open, and what can be made again is.
    """
    since = min((each.sent.at for _, each in case.approvals), default=NEVER)
    for each in case.thread.exchanges:
        for result in _told(case, each.replied):
            if not result.is_error:
                continue
            if case.effects:
                yield f"{each.replied.request} was told {result.content!r}, and yet: {case.effects}"
            elif case.card.kind is not EffectKind.UNSAFE:
                yield f"{each.replied.request} was told {result.content!r}, of a call that can be made again"
            elif not case.troubles.have_met(case.asked, since, each.replied.at):
                yield f"{each.replied.request} was told {result.content!r}, and nothing that it had met failed"


def ended_with_effect(case: Case) -> Iterator[str]:
    """What was rejected or cancelled, or approved only after its time, does not happen."""
    ends = {answer.verdict.value for answer, _ in case.taken if answer.verdict is not Verdict.APPROVE}
    sent = [each.sent.at for _, each in case.approvals]
    if sent and min(sent) > case.card.expires_at:
        ends.add("its time")
    if case.effects and ends:
        yield f"was ended by {sorted(ends)}, and yet: {case.effects}"


def expired_with_effect(case: Case) -> Iterator[str]:
    """What was said to be expired does not happen."""
    if case.effects and any(each.replied.code == EXPIRED for _, each in case.answered):
        yield f"was said to be expired, and yet: {case.effects}"


def rerun(case: Case) -> Iterator[str]:
    """An unsafe call that a dead replica had begun is not made again, and nobody knows its result."""
    left_at = case.left_begun_at
    if left_at is None or case.card.kind is not EffectKind.UNSAFE:
        return
    if any(effect.at is not None and effect.at > left_at for effect in case.effects):
        yield "ran again after its replica had died between begin and settle"
    if case.taken:
        yield "was answered although its replica died between begin and settle"


def _successes(case: Case) -> Iterator[tuple[Result, Replied]]:
    for each in case.thread.exchanges:
        for result in _told(case, each.replied):
            if not result.is_error and result.content not in NOT_RUN:
                yield result, each.replied


def _told(case: Case, reply: Replied) -> Iterator[Result]:
    return (result for result in (*reply.results, *reply.page) if result.call_id == case.card.call_id)
