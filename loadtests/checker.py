"""The verdict on a chaos run: which promises were broken, and whether enough was tried to say that none was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loadtests import invariants
from loadtests.cases import Case, cases
from loadtests.counts import Counts, count
from loadtests.history import Began, Effect, Event, Exchange, FaultKind, Intent, Phase
from loadtests.invariants import REPLY_RULES, Violation, judged
from loadtests.threads import CONFLICT, EXPIRED, IN_DOUBT, NOT_FOUND

IN_TIME = "every answer comes to its end in time"
"""The one rule that needs to know when the last fault was over."""
RULES: tuple[str, ...] = (*invariants.RULES, *REPLY_RULES, IN_TIME)
"""What a run can break."""

APPROVALS, HITS, CROSSED, LOAD = "approvals", "kills of resumes in progress", "resumes that crossed replicas", "load"
FAULTS, INTENTS, PHASES, BANK = "faults of the plan", "behaviours of the users", "phases", "the bank"
CONDITIONS: tuple[str, ...] = (APPROVALS, HITS, CROSSED, LOAD, FAULTS, INTENTS, PHASES, BANK)
"""What a run has to have done, or it says nothing."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A condition that was not met, and how."""

    condition: str
    what: str


@dataclass(frozen=True, slots=True)
class Expected:
    """What a run must have done for its verdict to mean something, and how soon after its last fault all is over."""

    approvals_min: int
    """Approvals that a client knows the decision of; those that only expired do not count."""
    hits_min: int
    """Kills that hit a resume in progress."""
    approvals_per_minute_min: float
    bound_seconds: float
    """So long after the last fault, or after its answer if that came later, an answered approval has its end."""
    crossed_share_min: float = 0.5
    """Of all resumes, from 0 to 1: those that ended on another replica than they had paused on."""
    faults: frozenset[FaultKind] = frozenset()
    """Kinds that the plan does: each at least once."""
    intents: frozenset[Intent] = frozenset()
    """Behaviours of the users: each at least once."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with the hosts (`violations`), and with the run itself (`shortfalls`).

    `excused` are broken rules that a failover explains which may lose acknowledged writes; they fail nothing.
    """

    violations: tuple[Violation, ...]
    shortfalls: tuple[Shortfall, ...]
    counts: Counts
    excused: tuple[Violation, ...] = ()

    @property
    def is_passed(self) -> bool:
        """Whether enough was tried, and nothing was broken."""
        return not self.violations and not self.shortfalls


def check(history: Sequence[Event], effects: Sequence[Effect], expected: Expected, *, is_bank_reached: bool) -> Verdict:
    """Judge a run by its history, oldest event first, and by the effects that the bank counted.

    Without the bank no promise is judged: the run says nothing then.
    """
    counts = count(history, effects)
    shortfalls = (*_too_little(counts, expected), *_incomplete(history, counts, expected))
    if not is_bank_reached:
        unknown = Shortfall(BANK, "the bank's own count of effects could not be read")
        return Verdict((), (*shortfalls, unknown), counts)
    judgement = judged(history, effects)
    late = _late(history, effects, expected.bound_seconds)
    return Verdict((*judgement.violations, *late), shortfalls, counts, judgement.excused)


def _too_little(counts: Counts, expected: Expected) -> Iterator[Shortfall]:
    decided = counts.ended - counts.verdicts.get("expired", 0)
    if decided < expected.approvals_min:
        yield Shortfall(APPROVALS, f"only {decided} approvals came to their end, of {expected.approvals_min}")
    if counts.hits < expected.hits_min:
        yield Shortfall(HITS, f"only {counts.hits} kills hit a resume in progress, of {expected.hits_min}")
    if counts.crossed_share < expected.crossed_share_min:
        share, share_min = 100 * counts.crossed_share, 100 * expected.crossed_share_min
        yield Shortfall(CROSSED, f"only {share:.1f} % of resumes ended on another replica, of {share_min:.0f} %")
    rate, rate_min = counts.approvals_per_minute, expected.approvals_per_minute_min
    if rate < rate_min:
        yield Shortfall(LOAD, f"only {rate:.1f} approvals a minute, of {rate_min:g}")


def _incomplete(history: Sequence[Event], counts: Counts, expected: Expected) -> Iterator[Shortfall]:
    for kind in sorted(expected.faults - counts.faults.keys()):
        yield Shortfall(FAULTS, f"no fault of the kind '{kind}'")
    for intent in sorted(expected.intents - counts.intents.keys()):
        yield Shortfall(INTENTS, f"nobody did this: {intent}")
    begun = {event.phase for event in history if isinstance(event, Began)}
    for phase in Phase:
        if phase not in begun:
            yield Shortfall(PHASES, f"the phase '{phase}' never began")


def _late(history: Sequence[Event], effects: Sequence[Effect], bound_seconds: float) -> Iterator[Violation]:
    quiet_at = next((event.at for event in history if isinstance(event, Began) and event.phase is Phase.QUIET), None)
    for case in cases(history, effects)[0]:
        # Who gets a conflict had another decision than the one that counts, which somebody else waits for.
        asked = [each for _, each in case.answered if each.replied.code != CONFLICT]
        if asked and (what := _lost(case, asked, quiet_at, bound_seconds)):
            yield Violation(case.name, IN_TIME, what)


def _lost(case: Case, asked: Sequence[Exchange], quiet_at: float | None, bound_seconds: float) -> str:
    """Say what is wrong with an answer's end: there is none, or hosts that were asked for it had none for too long.

    A doubt is an end, of the call in doubt and of those that it holds back.
    """
    ended_at = min((each.replied.at for each in asked if _is_end(case, each)), default=None)
    if ended_at is None:
        return f"was answered {len(asked)} times, and nobody was told its end"
    if quiet_at is None:
        return ""
    over_at = max(quiet_at, min(each.sent.at for each in asked)) + bound_seconds
    late = [each for each in asked if over_at < each.sent.at < ended_at and not _is_end(case, each)]
    if not late:
        return ""
    told = late[-1].replied.code or "nothing"
    return f"had no end after {bound_seconds:g} s without a fault: {late[-1].sent.request} was told {told}"


def _is_end(case: Case, each: Exchange) -> bool:
    if each.replied.code == NOT_FOUND:
        return case.is_maybe_lost
    return each.replied.is_finished or each.replied.code in {EXPIRED, IN_DOUBT}
