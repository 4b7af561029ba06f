"""What must be true of every history, whatever failed in it: pure functions that name the approval and the broken rule.

`violations` is the judge of the state machines and of the chaos checker alike. A time is when a client sent or was
told something, so two requests may have happened in either order unless one was answered before the other was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from loadtests.cases import Case, cases, shows
from loadtests.claims import contradicted, expired_under_way, lying_conflict
from loadtests.doubts import doubt_of_safe_calls, needless_doubt, too_many_doubts
from loadtests.executed import (
    altered,
    called_again,
    definite_with_effect,
    ended_with_effect,
    expired_with_effect,
    failed_with_effect,
    other_key,
    repeated,
    rerun,
    told_nothing,
    told_otherwise,
    unapproved,
    without_effect,
)
from loadtests.failing import failures_without_cause, too_many_told_failures
from loadtests.history import Effect, Event, Exchange, exchanges
from loadtests.replies import REPLIES_EXCUSED_BY_FAILOVER, REPLY_RULES
from loadtests.statuses import UNINFORMATIVE
from loadtests.threads import EXPIRED, IN_DOUBT, NEVER, NOT_FOUND, REQUIRED
from loadtests.troubles import Troubles
from stores.records import Verdict

__all__ = [
    "EXPIRED",
    "IN_DOUBT",
    "NOT_FOUND",
    "REPLY_RULES",
    "REQUIRED",
    "RULES",
    "RUN_RULES",
    "Violation",
    "judged",
    "violations",
]

DOUBTS_ARE_RARE = "doubts are rare"
FAILURE_HAS_A_CAUSE = "a failure has a cause"
RUN_RULES = (DOUBTS_ARE_RARE, FAILURE_HAS_A_CAUSE)
"""What only a whole run of many users can break."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that was broken for one approval; "" where no approval is known that it could belong to."""

    approval: str
    rule: str
    what: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """The rules that were broken; `excused` are those that a failover explains which may lose acknowledged writes."""

    violations: tuple[Violation, ...]
    excused: tuple[Violation, ...]


def violations(history: Sequence[Event], effects: Sequence[Effect]) -> list[Violation]:
    """Return every rule that a history breaks, with the effects that an independent counter has."""
    return list(_judged(*cases(history, effects), history).violations)


def judged(history: Sequence[Event], effects: Sequence[Effect]) -> Judgement:
    """Judge a whole run of many users, with the effects that an independent counter has.

    What may be is a share of all that was is judged here only: an example has too few of anything.
    """
    found_cases, unknown = cases(history, effects)
    judgement = _judged(found_cases, unknown, history)
    broken = [
        *(Violation("", DOUBTS_ARE_RARE, what) for what in too_many_doubts(found_cases)),
        *(
            Violation("", FAILURE_HAS_A_CAUSE, what)
            for what in (
                *failures_without_cause(list(exchanges(history)), Troubles.of(history)),
                *too_many_told_failures(found_cases),
            )
        ),
    ]
    return Judgement((*judgement.violations, *broken), judgement.excused)


def _judged(found_cases: Sequence[Case], unknown: Sequence[Effect], history: Sequence[Event]) -> Judgement:
    found = [Violation("", "no effect without an approval", f"nobody was asked for {each}") for each in unknown]
    excused: list[Violation] = []
    lost = {_place(each) for case in found_cases if case.is_maybe_lost for each in case.thread.exchanges}
    all_of_them = list(exchanges(history))
    steady = [each for each in all_of_them if _place(each) not in lost]
    set_back = [each for each in all_of_them if _place(each) in lost]
    for rule, look in REPLY_RULES.items():
        is_excusable = look in REPLIES_EXCUSED_BY_FAILOVER
        found += (Violation(name, rule, what) for name, what in look(steady if is_excusable else all_of_them))
        if is_excusable:
            excused += (Violation(name, rule, what) for name, what in look(set_back))
    for case in found_cases:
        for rule, checks in RULES.items():
            for check in checks:
                broken = [Violation(case.name, rule, what) for what in check(case)]
                is_excused = case.is_maybe_lost and check in EXCUSED_BY_FAILOVER
                (excused if is_excused else found).extend(broken)
    return Judgement(tuple(found), tuple(excused))


def _place(each: Exchange) -> tuple[str, str]:
    return each.sent.scope, each.sent.thread


def _other_replay(case: Case) -> Iterator[str]:
    told = {(each.replied.results, each.replied.text) for _, each in case.taken}
    if len(told) > 1:
        yield f"was answered in {len(told)} ways: {sorted(map(str, told))}"
    runs = [each.sent.request for _, each in case.taken if not each.replied.is_replay]
    if len(runs) > 1:
        yield f"was carried out for each of {runs}"


def _conflict_taken(case: Case) -> Iterator[str]:
    taken = {(answer.verdict.value, answer.arguments) for answer, _ in case.taken}
    if len(taken) > 1 and any(answer.verdict is Verdict.APPROVE for answer, _ in case.taken):
        yield f"different decisions were taken: {sorted(taken)}"


def _other_no_taken(case: Case) -> Iterator[str]:
    """Where none of them approves, the ledger knows no difference: the row is closed."""
    taken = {answer.verdict.value for answer, _ in case.taken}
    if len(taken) > 1 and Verdict.APPROVE.value not in taken:
        yield f"different decisions were taken: {sorted(taken)}"


def _waits_for_nothing(case: Case) -> Iterator[str]:
    for reply in (each.replied for each in case.thread.exchanges):
        if reply.is_paused and not reply.cards:
            yield f"{reply.request} waits for nothing"


def _stale_pause(case: Case) -> Iterator[str]:
    """Whose calls all ended does not wait."""
    thread, name = case.thread, case.name
    for each in thread.exchanges:
        reply = each.replied
        is_over = thread.is_ended(name, each.sent.at) and shows(reply, name)
        is_taken = each.sent.looks and thread.taken_at.get(name, NEVER) < each.sent.at and name in reply.open
        if is_over or is_taken:
            yield f"{reply.request} shows it as open after its end"
        if reply.code == REQUIRED and thread.has_nothing_open(each):
            yield f"{reply.request} was told to answer first, and nothing is open"


def _lost(case: Case) -> Iterator[str]:
    replies = [each.replied for _, each in case.answered]
    for reply in replies:
        if reply.code == NOT_FOUND:
            yield f"was shown, and is not found by {reply.request}"
    has_end = bool(case.taken) or any(reply.code in (EXPIRED, IN_DOUBT) for reply in replies)
    looks = [each.replied for each in case.thread.exchanges if each.sent.looks and each.replied.is_finished]
    is_open = bool(looks) and (shows(looks[-1], case.name) or case.card.expires_at < looks[-1].at)
    if not has_end and not is_open:
        yield "has neither an end nor a card any more"


def _wiped(case: Case) -> Iterator[str]:
    """As long as nobody answers, and its time is not over, whoever looks is shown the card."""
    showing = [each.replied.at for each in case.thread.exchanges if shows(each.replied, case.name)]
    answered_at = min((each.sent.at for _, each in case.answered), default=NEVER)
    for each in case.thread.exchanges:
        is_open = min(showing) < each.sent.at and each.replied.at < min(answered_at, case.card.expires_at)
        if is_open and each.sent.looks and each.replied.is_finished and not shows(each.replied, case.name):
            yield f"was open, and is not shown by {each.sent.request}"


def _expired_early(case: Case) -> Iterator[str]:
    for _, each in case.answered:
        if each.replied.code == EXPIRED and each.replied.at < case.card.expires_at:
            yield f"expired for {each.replied.request} before its time"


def _seen_by_others(case: Case) -> Iterator[str]:
    results = {effect.result for effect in case.effects if effect.result is not None}
    for each in case.foreign:
        reply = each.replied
        is_told = any(result.content in results for result in (*reply.results, *reply.page))
        if shows(reply, case.name) or case.name in reply.open or is_told:
            yield f"is seen by {each.sent.scope} in {each.sent.thread}"
        if each.answer_to(case.name) and not reply.is_cut and reply.code not in {NOT_FOUND, *UNINFORMATIVE}:
            yield f"{each.sent.scope} in {each.sent.thread} was told {reply.code or 'an answer'} about it"


Check = Callable[[Case], Iterator[str]]

RULES: dict[str, tuple[Check, ...]] = {
    "no effect without an approval": (unapproved,),
    "at most one effect per approval": (repeated,),
    "a far side is given the approval's own key": (other_key,),
    "a call is made once but after a failure": (called_again,),
    "executed arguments are the approved ones": (altered,),
    "an answered approval has its effect": (without_effect, told_nothing, told_otherwise),
    "a definite refusal has no effect": (definite_with_effect, failed_with_effect),
    "what was rejected, cancelled or expired has no effect": (ended_with_effect, expired_with_effect),
    "what is under way does not expire": (expired_under_way,),
    "a duplicate replays the one answer": (_other_replay,),
    "a conflicting repeat is refused": (_conflict_taken, _other_no_taken),
    "an unsafe call never runs again after a doubt": (rerun,),
    "a doubt has a cause": (needless_doubt, doubt_of_safe_calls),
    "no pause without an open question": (_waits_for_nothing, _stale_pause),
    "nothing acknowledged is lost": (_lost, _wiped, _expired_early),
    "other scopes and threads see nothing": (_seen_by_others,),
    "what was decided stays decided": (contradicted,),
    "a conflict has another decision": (lying_conflict,),
}

EXCUSED_BY_FAILOVER: frozenset[Check] = frozenset(
    {
        expired_with_effect,
        _other_replay,
        _other_no_taken,
        doubt_of_safe_calls,
        _stale_pause,
        _lost,
        _wiped,
        contradicted,
        expired_under_way,
    }
)
"""What a thread may do that went back to an earlier pause, or is gone. Its effects are kept elsewhere, so no rule about
what they are or how many is among these."""
