"""What was executed, against what was approved and what was told of it: the rules about effects."""

from __future__ import annotations

from collections.abc import Iterator

from loadtests.cases import Case
from loadtests.threads import EXPIRED
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


def without_effect(case: Case) -> Iterator[str]:
    """Whether a client was told a result at once or in a replay: it is the one effect's."""
    for answer, each in case.taken:
        results = [result for result in each.replied.results if result.call_id == case.card.call_id]
        if answer.verdict is not Verdict.APPROVE or any(result.is_error for result in results):
            continue
        told = [result.content for result in results]
        if not case.effects:
            yield f"was answered {told} without an effect"
        elif case.effects[0].result not in (None, *told):
            yield f"was answered {told}, its effect is {case.effects[0].result!r}"


def definite_with_effect(case: Case) -> Iterator[str]:
    """A definite refusal speaks of all calls of the pause, and only a request that may have been taken has effects."""
    names = {card.interrupt_id for card in case.pause}
    for each in case.thread.exchanges:
        if each.replied.definite and any(answer.interrupt_id in names for answer in each.sent.answers):
            happened = [effect for effect in case.effects if effect.at is not None and effect.at <= each.sent.at]
            if happened:
                yield f"{each.replied.code} was definite for {each.sent.request}, after {happened}"
    for effect in case.effects:
        before = [each for _, each in case.approvals if effect.at is None or each.sent.at <= effect.at]
        if before and all(each.replied.definite for each in before):
            yield f"every approval was definitely refused, and yet: {effect}"


def failed_with_effect(case: Case) -> Iterator[str]:
    """A tool's error says of a transaction that it was rolled back."""
    if case.card.kind is not EffectKind.TRANSACTIONAL or not case.effects:
        return
    for _, each in case.taken:
        if any(result.call_id == case.card.call_id and result.is_error for result in each.replied.results):
            yield f"{each.replied.request} was told that it failed, and yet: {case.effects}"


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
