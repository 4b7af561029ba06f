"""What a chaos run has to have done for its verdict to mean something, and what one that did too little lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import NormalDist

from loadtests.counts import Counts, OfKind
from loadtests.flat import unseen
from loadtests.history import Began, Event, FaultKind, Intent, Phase
from loadtests.target import Sample
from stores.records import EffectKind

APPROVALS, EFFECTS, HITS = "approvals", "effects", "kills of resumes in progress"
CROSSED, LOAD, FAULTS = "resumes that crossed replicas", "load", "faults of the plan"
INTENTS, PHASES, SAMPLES, BANK = "behaviours of the users", "phases", "samples of a soak", "the bank"
CONDITIONS: tuple[str, ...] = (APPROVALS, EFFECTS, HITS, CROSSED, LOAD, FAULTS, INTENTS, PHASES, SAMPLES, BANK)
"""What a run has to have done, or it says nothing."""

APPROVALS_OF_AN_EFFECT = 2
"""One effect at least for so many approvals that are asked for; real runs have two of three carried out."""
APPROVALS_OF_AN_EFFECT_OF_A_KIND = 20
APPROVALS_OF_A_CROSSING = 40
"""Three or four calls share a pause, so this asks for one resume in a dozen; real runs have every second cross."""
FALSE_ALARMS = 1e-4
"""How often a run whose hosts cross as they have to may be said not to: once in 10,000."""
DISPERSION = 3.0
"""The variance of crossings, in that of as many independent draws. Neighbours in time share their fate: while all
replicas but one are dead, none crosses. In four real runs of all faults it was 0.4 to 3.2, in blocks of 30 to 100
resumes."""


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
    """Of all resumes that ended live, from 0 to 1: those that did on another replica than they had paused on."""
    faults: frozenset[FaultKind] = frozenset()
    """Kinds that the plan does: each at least once."""
    intents: frozenset[Intent] = frozenset()
    """Behaviours of the users: each answered at least `intents_min` times."""
    intents_min: int = 1
    kinds: frozenset[EffectKind] = frozenset()
    """Kinds of effect that the stores serve."""
    spared: str = ""
    """The replica of a soak that lives throughout, so that its memory tells what one process leaks; "" is no soak."""


def shortfalls(
    history: Sequence[Event], counts: Counts, expected: Expected, samples: Sequence[Sample]
) -> Iterator[Shortfall]:
    """Return what a run did too little of, but for the bank."""
    yield from _too_few(counts, expected)
    yield from _effects(counts, expected)
    yield from _crossed(counts, expected)
    for kind in sorted(expected.faults - counts.faults.keys()):
        yield Shortfall(FAULTS, f"no fault of the kind '{kind}'")
    for intent in sorted(expected.intents):
        if (times := counts.answered.get(intent, 0)) < expected.intents_min:
            yield Shortfall(INTENTS, f"{intent} was answered {times} times, of {expected.intents_min}")
    begun = {event.phase for event in history if isinstance(event, Began)}
    for phase in Phase:
        if phase not in begun:
            yield Shortfall(PHASES, f"the phase '{phase}' never began")
    if expected.spared:
        for what in unseen(samples, seconds=counts.load_seconds, spared=expected.spared):
            yield Shortfall(SAMPLES, what)


def crossed_min(live: int, expected: Expected) -> int:
    """Return how many of so many resumes that ended live have to have done so on another replica.

    It is the share that is wanted, less what chance explains: `n * p - z * sqrt(d * n * p * (1 - p))`, the lower end of
    a one-sided normal interval of a binomial share p among n, with the dispersion d; z leaves out one of 10,000. A few
    resumes would pass with no crossing at all then, so there is a least number of them besides.
    """
    share = expected.crossed_share_min
    z = NormalDist().inv_cdf(1 - FALSE_ALARMS)
    lowest = live * share - z * sqrt(DISPERSION * live * share * (1 - share))
    return max(1, ceil(lowest), _part(expected, APPROVALS_OF_A_CROSSING))


def _too_few(counts: Counts, expected: Expected) -> Iterator[Shortfall]:
    decided = counts.ended - counts.verdicts.get("expired", 0)
    if decided < expected.approvals_min:
        yield Shortfall(APPROVALS, f"only {decided} approvals came to their end, of {expected.approvals_min}")
    if counts.hits < expected.hits_min:
        yield Shortfall(HITS, f"only {counts.hits} kills hit a resume in progress, of {expected.hits_min}")
    rate, rate_min = counts.approvals_per_minute, expected.approvals_per_minute_min
    if rate < rate_min:
        yield Shortfall(LOAD, f"only {rate:.1f} approvals a minute, of {rate_min:g}")


def _effects(counts: Counts, expected: Expected) -> Iterator[Shortfall]:
    """Where next to nothing is carried out, next to nothing can go wrong."""
    effects, effects_min = sum(each.effects for each in counts.kinds.values()), _part(expected, APPROVALS_OF_AN_EFFECT)
    if effects < effects_min:
        yield Shortfall(EFFECTS, f"the bank counted only {effects}, of {effects_min}")
    of_kind_min = _part(expected, APPROVALS_OF_AN_EFFECT_OF_A_KIND)
    for kind in sorted(expected.kinds):
        found: OfKind | None = counts.kinds.get(kind)
        if (found.effects if found else 0) < of_kind_min:
            yield Shortfall(EFFECTS, f"only {found.effects if found else 0} of the kind '{kind}', of {of_kind_min}")


def _part(expected: Expected, approvals: int) -> int:
    """Return one of so many approvals, rounded up."""
    return -(-expected.approvals_min // approvals)


def _crossed(counts: Counts, expected: Expected) -> Iterator[Shortfall]:
    wanted = crossed_min(counts.live, expected)
    if counts.crossed < wanted:
        what = f"only {counts.crossed} of {counts.live} resumes that ended live did on another replica"
        yield Shortfall(CROSSED, f"{what}, of {wanted}")
