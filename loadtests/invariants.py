"""What must be true of every history, whatever failed in it: pure functions that name the approval and the broken rule.

`violations` is the judge of the state machines and of the chaos checker alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from loadtests.history import Answer, Card, Effect, Event, Exchange, Fault, Replied, exchanges
from stores.records import EffectKind, Verdict

NOT_FOUND = "APPROVAL_RESUME_NOT_FOUND"
EXPIRED = "APPROVAL_RESUME_EXPIRED"
IN_DOUBT = "APPROVAL_OUTCOME_INDETERMINATE"
REQUIRED = "APPROVAL_RESUME_REQUIRED"


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that was broken for one approval; "" where no approval is known that it could belong to."""

    approval: str
    rule: str
    what: str


@dataclass(frozen=True, slots=True)
class Case:
    """One approval with all that concerns it: its thread's exchanges, those of others that name it, its effects."""

    card: Card
    shown_at: float
    thread: tuple[Exchange, ...]
    siblings: tuple[Card, ...]
    foreign: tuple[Exchange, ...]
    faults: tuple[Fault, ...]
    effects: tuple[Effect, ...]

    @property
    def answered(self) -> list[tuple[Answer, Exchange]]:
        """Every answer to it from its own thread, with what became of the request."""
        found = ((each.answer_to(self.card.interrupt_id), each) for each in self.thread)
        return [(answer, each) for answer, each in found if answer is not None]

    @property
    def taken(self) -> list[tuple[Answer, Exchange]]:
        """The answers to it whose run came to its end."""
        return [(answer, each) for answer, each in self.answered if each.replied.is_finished]

    @property
    def approvals(self) -> list[tuple[Answer, Exchange]]:
        """The answers that approve it."""
        return [(answer, each) for answer, each in self.answered if answer.verdict is Verdict.APPROVE]

    def is_ended(self, interrupt_id: str, before: float) -> bool:
        """Whether a client of the thread knew by then how this approval or a sibling ended."""
        ends = (each.replied for each in self.thread if each.answer_to(interrupt_id))
        return any(reply.at < before and (reply.is_finished or reply.code == EXPIRED) for reply in ends)


def violations(history: Sequence[Event], effects: Sequence[Effect]) -> list[Violation]:
    """Return every rule that a history breaks, with the effects that an independent counter has."""
    cases, unknown = _cases(history, effects)
    found = [Violation("", "no effect without an approval", f"nobody was asked for {each}") for each in unknown]
    for case in cases:
        for rule, check in RULES.items():
            found += (Violation(case.card.interrupt_id, rule, what) for what in check(case))
    return found


def _unapproved(case: Case) -> Iterator[str]:
    for effect in case.effects:
        if not any(effect.at is None or each.sent.at <= effect.at for _, each in case.approvals):
            yield f"{effect}, and nobody had approved it"


def _repeated(case: Case) -> Iterator[str]:
    if len(case.effects) > 1:
        yield f"{len(case.effects)} effects of one {case.card.kind.value} call"


def _altered(case: Case) -> Iterator[str]:
    taken = {answer.arguments for answer, _ in case.taken if answer.verdict is Verdict.APPROVE}
    approved = taken or {answer.arguments for answer, _ in case.approvals}
    for effect in case.effects:
        if approved and effect.arguments not in approved:
            yield f"executed with {effect.arguments}, approved were {sorted(approved)}"


def _without_effect(case: Case) -> Iterator[str]:
    for answer, each in case.taken:
        results = [result for result in each.replied.results if result.call_id == case.card.call_id]
        if answer.verdict is not Verdict.APPROVE or any(result.is_error for result in results):
            continue
        told = [result.content for result in results]
        if not case.effects:
            yield f"was answered {told} without an effect"
        elif case.effects[0].result not in (None, *told):
            yield f"was answered {told}, its effect is {case.effects[0].result!r}"


def _definite_with_effect(case: Case) -> Iterator[str]:
    for _, each in case.answered:
        happened = [effect for effect in case.effects if effect.at is not None and effect.at <= each.sent.at]
        if each.replied.definite and happened:
            yield f"{each.replied.code} was definite, after {happened}"
    if case.effects and case.approvals and all(each.replied.definite for _, each in case.approvals):
        yield f"every approval was definitely refused, and yet: {case.effects}"


def _ended_with_effect(case: Case) -> Iterator[str]:
    ends = {answer.verdict.value for answer, _ in case.taken if answer.verdict is not Verdict.APPROVE}
    ends |= {EXPIRED for _, each in case.answered if each.replied.code == EXPIRED}
    sent = [each.sent.at for _, each in case.approvals]
    if sent and min(sent) > case.card.expires_at:
        ends.add("its time")
    if case.effects and ends:
        yield f"was ended by {sorted(ends)}, and yet: {case.effects}"


def _other_replay(case: Case) -> Iterator[str]:
    told = {(each.replied.results, each.replied.text) for _, each in case.taken}
    if len(told) > 1:
        yield f"was answered in {len(told)} ways: {sorted(map(str, told))}"
    runs = [each.sent.request for _, each in case.taken if not each.replied.is_replay]
    if len(runs) > 1:
        yield f"was carried out for each of {runs}"


def _conflict_taken(case: Case) -> Iterator[str]:
    taken = {(answer.verdict.value, answer.arguments) for answer, _ in case.taken}
    if len(taken) > 1:
        yield f"different decisions were taken: {sorted(taken)}"


def _rerun(case: Case) -> Iterator[str]:
    left_at = min((each.at for each in case.faults if case.card.interrupt_id in each.left_begun), default=None)
    if left_at is None or case.card.kind is not EffectKind.UNSAFE:
        return
    if any(effect.at is not None and effect.at > left_at for effect in case.effects):
        yield "ran again after its replica had died between begin and settle"
    if case.taken:
        yield "was answered although its replica died between begin and settle"


def _needless_doubt(case: Case) -> Iterator[str]:
    for _, each in case.answered:
        if each.replied.code != IN_DOUBT:
            continue
        if each.replied.definite:
            yield "is in doubt, yet reported as definite"
        if not any(sibling.kind is EffectKind.UNSAFE for sibling in case.siblings):
            yield "is in doubt, and no call of its thread is unsafe"
        if not any(fault.at < each.replied.at for fault in case.faults):
            yield "is in doubt, and no replica failed"


def _stale_pause(case: Case) -> Iterator[str]:
    """A thread that waits shows what for; one whose calls all ended does not wait."""
    for each in case.thread:
        reply, name = each.replied, case.card.interrupt_id
        if reply.is_paused and not reply.cards:
            yield f"{reply.request} waits for nothing"
        is_over = case.is_ended(name, each.sent.at) and _shows(reply, case.card)
        is_finished = any(end.replied.at < each.sent.at for _, end in case.taken) and name in reply.open
        if each.sent.looks and (is_over or is_finished):
            yield f"{reply.request} shows it as open after its end"
        if reply.code == REQUIRED and all(case.is_ended(card.interrupt_id, each.sent.at) for card in case.siblings):
            yield f"{reply.request} was told to answer first, and nothing is open"


def _lost(case: Case) -> Iterator[str]:
    replies = [each.replied for _, each in case.answered]
    for reply in replies:
        if reply.code == NOT_FOUND:
            yield f"was shown, and is not found by {reply.request}"
        if reply.code == EXPIRED and reply.at < case.card.expires_at:
            yield f"expired for {reply.request} before its time"
    has_end = bool(case.taken) or any(reply.code in (EXPIRED, IN_DOUBT) for reply in replies)
    looks = [each.replied for each in case.thread if each.sent.looks and each.replied.is_finished]
    is_open = bool(looks) and (_shows(looks[-1], case.card) or case.card.expires_at < looks[-1].at)
    if not has_end and not is_open:
        yield "has neither an end nor a card any more"


def _seen_by_others(case: Case) -> Iterator[str]:
    card = case.card
    for each in case.foreign:
        reply = each.replied
        is_told = any(result.content == effect.result for result in reply.results for effect in case.effects)
        if _shows(reply, card) or card.interrupt_id in reply.open or is_told:
            yield f"is seen by {each.sent.scope} in {each.sent.thread}"
        if each.answer_to(card.interrupt_id) and not reply.is_cut and reply.code != NOT_FOUND:
            yield f"{each.sent.scope} in {each.sent.thread} was told {reply.code or 'an answer'} about it"


RULES: dict[str, Callable[[Case], Iterator[str]]] = {
    "no effect without an approval": _unapproved,
    "at most one effect per approval": _repeated,
    "executed arguments are the approved ones": _altered,
    "an answered approval has its effect": _without_effect,
    "a definite refusal has no effect": _definite_with_effect,
    "what was rejected, cancelled or expired has no effect": _ended_with_effect,
    "a duplicate replays the one answer": _other_replay,
    "a conflicting repeat is refused": _conflict_taken,
    "an unsafe call never runs again after a doubt": _rerun,
    "a doubt has a cause": _needless_doubt,
    "no pause without an open question": _stale_pause,
    "nothing acknowledged is lost": _lost,
    "other scopes and threads see nothing": _seen_by_others,
}


def _cases(history: Sequence[Event], effects: Sequence[Effect]) -> tuple[list[Case], list[Effect]]:
    all_of_them = list(exchanges(history))
    faults = tuple(event for event in history if isinstance(event, Fault))
    shown: dict[str, tuple[Card, Exchange]] = {}
    for each in sorted(all_of_them, key=lambda each: each.replied.at):
        for card in each.replied.cards:
            shown.setdefault(card.interrupt_id, (card, each))
    cases, unknown = [], list(effects)
    for card, shown_by in shown.values():
        scope, thread = shown_by.sent.scope, shown_by.sent.thread
        own = [each for each in all_of_them if (each.sent.scope, each.sent.thread) == (scope, thread)]
        mine = [effect for effect in unknown if _is_of(effect, card, own)]
        unknown = [effect for effect in unknown if effect not in mine]
        siblings = {each.interrupt_id: each for every in own for each in every.replied.cards}
        foreign = tuple(each for each in all_of_them if each not in own)
        cases.append(
            Case(card, shown_by.replied.at, tuple(own), tuple(siblings.values()), foreign, faults, tuple(mine))
        )
    return cases, unknown


def _is_of(effect: Effect, card: Card, own: Sequence[Exchange]) -> bool:
    if effect.key is not None:
        return effect.key == card.interrupt_id
    answers = [each.answer_to(card.interrupt_id) for each in own]
    known = {card.arguments, *(answer.arguments for answer in answers if answer is not None)}
    return effect.tool == card.tool and effect.arguments in known


def _shows(reply: Replied, card: Card) -> bool:
    return any(each.interrupt_id == card.interrupt_id for each in reply.cards)
