"""The verdict on a chaos run: which promises were broken, and whether enough was tried to say that none was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadtests import invariants
from loadtests.cases import cases
from loadtests.conditions import BANK, CONDITIONS, Expected, Shortfall, shortfalls
from loadtests.counts import Counts, count
from loadtests.flat import growing
from loadtests.history import Effect, Event
from loadtests.in_time import IN_TIME, late
from loadtests.invariants import REPLY_RULES, RUN_RULES, Violation, judged
from loadtests.target import Sample

__all__ = ["CONDITIONS", "FLAT", "IN_TIME", "RULES", "Expected", "Shortfall", "Verdict", "check"]

RULES: tuple[str, ...] = (*invariants.RULES, *REPLY_RULES, *RUN_RULES, IN_TIME)
"""What any run can break."""
FLAT = "a long run uses no more than a short one"
"""What only a soak can break."""


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


def check(
    history: Sequence[Event],
    effects: Sequence[Effect],
    expected: Expected,
    *,
    is_bank_reached: bool,
    samples: Sequence[Sample] = (),
) -> Verdict:
    """Judge a run by its history, oldest event first, by the effects that the bank counted, a soak by its samples too.

    Without the bank no promise about approvals is judged: the run says nothing then.
    """
    counts = count(history, effects)
    short = tuple(shortfalls(history, counts, expected, samples))
    grown = tuple(Violation("", FLAT, what) for what in growing(samples)) if expected.spared else ()
    if not is_bank_reached:
        unknown = Shortfall(BANK, "the bank's own count of effects could not be read")
        return Verdict(grown, (*short, unknown), counts)
    judgement = judged(history, effects)
    found, _ = cases(history, effects)
    over_time = tuple(Violation(name, IN_TIME, what) for name, what in late(history, found, expected.bound_seconds))
    return Verdict((*judgement.violations, *over_time, *grown), short, counts, judgement.excused)
