"""What a nemesis does to a deployment, by name: each plan is an endless list of strikes, drawn one by one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle

from app.steps import Step
from loadtests.history import FaultKind


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault to come: at a resume that takes this `step`, whoever carries it out, or, without one, at random.

    `replica` names whom to strike. `spares_one`: all are struck at once but one. `is_awaited`: until it is over,
    nothing else happens.
    """

    kind: FaultKind
    step: str = ""
    replica: str = ""
    spares_one: bool = False
    is_awaited: bool = False


@dataclass(frozen=True, slots=True)
class Ground:
    """What there is to strike at: the faults that are possible, the replicas, the steps that resumes take."""

    faults: frozenset[FaultKind]
    replicas: Sequence[str]
    steps: Sequence[str]


Strikes = Callable[[Ground, random.Random], Iterator[Strike]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is struck, in which order. It `needs` some kinds of fault, and does the others where they are possible."""

    name: str
    needs: frozenset[FaultKind]
    strikes: Strikes
    others: frozenset[FaultKind] = field(default=frozenset())
    crossed_share_min: float = 0.5
    """Of all resumes that ended live, from 0 to 1: those that have to do so on another replica than they paused on."""

    def kinds(self, possible: frozenset[FaultKind]) -> frozenset[FaultKind]:
        """Return the kinds of fault that it does where these are possible. Raises ValueError if it needs another."""
        if missing := self.needs - possible:
            raise ValueError(
                f"The plan '{self.name}' needs what can not be done to this deployment: {_listed(missing)}. "
                f"What can be done: {_listed(possible)}."
            )
        return self.needs | (self.others & possible)


def resume_steps(*, is_shared: bool) -> tuple[str, ...]:
    """Return the steps at which a resume is struck; where threads and effects share a store, rows go with the claim."""
    steps = [Step.CLAIM, Step.BEGIN, Step.EFFECT, Step.SETTLE, Step.MODEL, Step.FINISH, Step.ANSWER]
    both = [
        f"{when}-{step}" for step in (steps if is_shared else [Step.RESERVE, *steps]) for when in ("before", "after")
    ]
    # Once its answer is out it is over.
    return tuple(step for step in both if step != f"after-{Step.ANSWER}")


def _kill_one(ground: Ground, rng: random.Random) -> Iterator[Strike]:
    """Kill one after another: four of five in the midst of a resume, the fifth wherever it is, starting included."""
    for step in _drawn(ground.steps, rng):
        yield Strike(FaultKind.KILL, step if rng.random() < 0.8 else "")


def _kill_majority(_ground: Ground, _rng: random.Random) -> Iterator[Strike]:
    while True:
        yield Strike(FaultKind.KILL, spares_one=True, is_awaited=True)


def _rolling(ground: Ground, _rng: random.Random) -> Iterator[Strike]:
    """Stop one after another, as a deployment of a new version does: each is ready before the next one stops."""
    for replica in cycle(ground.replicas):
        yield Strike(FaultKind.STOP, replica=replica, is_awaited=True)


def _freeze(ground: Ground, rng: random.Random) -> Iterator[Strike]:
    """Freeze where it does most harm: between the claim and the finish, where another takes the thread over."""
    edges = (f"before-{Step.RESERVE}", f"before-{Step.CLAIM}", f"after-{Step.FINISH}", f"before-{Step.ANSWER}")
    for step in _drawn([step for step in ground.steps if step not in edges], rng):
        yield Strike(FaultKind.FREEZE, step)


def _only(kind: FaultKind) -> Strikes:
    def strikes(_ground: Ground, _rng: random.Random) -> Iterator[Strike]:
        while True:
            yield Strike(kind)

    return strikes


def _all(ground: Ground, rng: random.Random) -> Iterator[Strike]:
    """Do each kind once, soon, between kills of resumes; from then on draw, and mostly kill resumes."""
    steps, kinds = _drawn(ground.steps, rng), sorted(ground.faults - {FaultKind.KILL})
    for kind in rng.sample(kinds, len(kinds)):
        yield Strike(kind)
        yield Strike(FaultKind.KILL, next(steps))
        yield Strike(FaultKind.KILL, next(steps))
    freezes = _freeze(ground, rng)
    shares = {Strike(kind): share for kind, share in _SHARES.items() if kind in ground.faults}
    majority = Strike(FaultKind.KILL, spares_one=True)
    while True:
        [drawn] = rng.choices([*shares, majority, None], [*shares.values(), 2, 75])
        if drawn is None:
            yield Strike(FaultKind.KILL, next(steps))
        else:
            yield next(freezes) if drawn.kind is FaultKind.FREEZE else drawn


_SHARES = {
    FaultKind.KILL: 4,
    FaultKind.FREEZE: 6,
    FaultKind.STOP: 3,
    FaultKind.CUT: 3,
    FaultKind.STORE_RESTART: 2,
    FaultKind.FAILOVER: 2,
    FaultKind.SLOW_STORE: 2,
    FaultKind.BALANCER_RELOAD: 1,
}
"""Of a hundred strikes; the rest are kills of resumes: only by far the most of them make fifty in four minutes."""


def _drawn(steps: Sequence[str], rng: random.Random) -> Iterator[str]:
    """Draw steps for ever, each as often as the others."""
    while True:
        yield from rng.sample(steps, len(steps))


def _listed(kinds: frozenset[FaultKind]) -> str:
    return ", ".join(sorted(kinds)) or "nothing"


def _plan(name: str, kind: FaultKind, strikes: Strikes | None = None, crossed_share_min: float = 0.5) -> Plan:
    return Plan(name, frozenset({kind}), strikes or _only(kind), crossed_share_min=crossed_share_min)


FEW_LEFT = 0.2
"""Where mostly one or two replicas serve, many resumes have nowhere else to go."""


PLANS: dict[str, Plan] = {
    plan.name: plan
    for plan in (
        _plan("kill-one", FaultKind.KILL, _kill_one),
        _plan("kill-majority", FaultKind.KILL, _kill_majority, FEW_LEFT),
        _plan("rolling", FaultKind.STOP, _rolling),
        _plan("freeze", FaultKind.FREEZE, _freeze),
        _plan("cut", FaultKind.CUT, crossed_share_min=FEW_LEFT),
        _plan("store-restart", FaultKind.STORE_RESTART),
        _plan("failover", FaultKind.FAILOVER),
        _plan("balancer-reload", FaultKind.BALANCER_RELOAD),
        _plan("slow-store", FaultKind.SLOW_STORE),
        Plan("all", frozenset({FaultKind.KILL}), _all, others=frozenset(FaultKind)),
    )
}
