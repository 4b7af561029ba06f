"""Strikes a deployment while users work: waits for the moment at which a fault does most harm, and causes it then."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deploy.waiting import wait_until
from loadtests.breaking import Breaking, Durations
from loadtests.history import FaultKind
from loadtests.journal import Journal
from loadtests.orders import Orders
from loadtests.plans import Ground, Plan, Strike, resume_steps
from loadtests.target import Target

POLL_SECONDS = 0.02
LOG_SECONDS = 10.0
"""The longest that the line of an order that was taken may be missing in the log."""
_SIGNALS = {FaultKind.KILL: signal.SIGKILL, FaultKind.FREEZE: signal.SIGSTOP}


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a nemesis strikes, in seconds.

    A pause is mostly shorter than a replica needs to come back, so faults meet the recovery from the ones before. It is
    not shorter still, because each start of a replica takes some 3 s of the processors that users and hosts share.
    """

    pause_seconds_min: float = 0.5
    pause_seconds_max: float = 4.0
    aim_seconds: float = 3.0
    """After this, an order that nobody has taken is withdrawn."""


class Nemesis:
    """Carries out the strikes of a plan; one replica at least stays whole.

    `spared` is a replica that is struck by nothing but what strikes all: one that lives long shows what it leaks.
    `is_shared`: the hosts keep threads and effects in one store, where a resume takes fewer steps. `steps` are those it
    aims at, if not at all of them.
    """

    def __init__(
        self,
        target: Target,
        orders: Orders,
        journal: Journal,
        rng: random.Random,
        *,
        durations: Durations | None = None,
        pace: Pace | None = None,
        is_shared: bool = True,
        steps: Sequence[str] = (),
        spared: str = "",
    ) -> None:
        self._target = target
        self._replicas = tuple(each for each in target.replicas if each != spared)
        self._orders = orders
        self._rng = rng
        self._pace = pace or Pace()
        self._steps = tuple(steps) or resume_steps(is_shared=is_shared)
        self._breaking = Breaking(target, journal, durations or Durations())
        self._until: Callable[[], bool] = lambda: False

    def run(self, plan: Plan, until: Callable[[], bool]) -> None:
        """Strike until told to stop; then everything is mended, also if a strike raised. Once.

        Raises ValueError if the target can not do what the plan needs, TimeoutError if something does not come back.
        """
        ground = Ground(plan.kinds(self._target.faults), self._replicas, self._steps)
        self._until = until
        try:
            for strike in plan.strikes(ground, self._rng):
                if self._is_over():
                    break
                if self._strike(strike):
                    self._wait(
                        lambda: False, self._rng.uniform(self._pace.pause_seconds_min, self._pace.pause_seconds_max)
                    )
                if strike.is_awaited:
                    self._wait(self._is_whole)
        finally:
            self._breaking.mend_all()

    def _strike(self, strike: Strike) -> bool:
        """Carry a strike out; False if it found nothing to strike at."""
        if strike.step:
            return self._strike_at(strike.step, strike.kind)
        if strike.spares_one:
            return self._kill_all_but_one()
        match strike.kind:
            case FaultKind.KILL | FaultKind.FREEZE | FaultKind.STOP | FaultKind.CUT:
                return self._strike_one(strike)
            case _:
                return self._strike_all(strike.kind)

    def _strike_at(self, step: str, kind: FaultKind) -> bool:
        """Order that whatever replica has a resume at this step is hit there, and wait until one is."""
        if not self._wait(lambda: len(self._breaking.whole()) > 1):
            return False
        known = len(self._orders.hits())
        order = self._orders.place_any(step, _SIGNALS[kind])
        self._wait(lambda: len(self._orders.hits()) > known, self._pace.aim_seconds)
        if self._orders.withdraw(order):
            return False
        wait_until(lambda: len(self._orders.hits()) > known, "the hit is in the log", LOG_SECONDS)
        self._breaking.was_hit(self._orders.hits()[known], kind)
        return True

    def _strike_one(self, strike: Strike) -> bool:
        if not self._wait(lambda: bool(self._victims(strike))):
            return False
        self._breaking.break_replicas(strike.kind, self._rng.choice(self._victims(strike)))
        return True

    def _victims(self, strike: Strike) -> list[str]:
        """Return who may be struck while another one stays whole; who is starting may be killed again."""
        whole = set(self._breaking.whole())
        found = self._replicas if strike.kind is FaultKind.KILL else sorted(whole.intersection(self._replicas))
        return [each for each in found if strike.replica in {"", each} and whole - {each}]

    def _kill_all_but_one(self) -> bool:
        if not self._wait(self._is_whole):
            return False
        replicas = self._replicas
        self._breaking.break_replicas(FaultKind.KILL, *self._rng.sample(replicas, len(replicas) - 1))
        return True

    def _strike_all(self, kind: FaultKind) -> bool:
        if not self._wait(lambda: not self._breaking.mending.is_broken(kind)):
            return False
        self._breaking.break_all(kind)
        return True

    def _is_whole(self) -> bool:
        return len(self._breaking.whole()) == len(self._target.replicas)

    def _is_over(self) -> bool:
        return self._until() or self._breaking.mending.has_failed

    def _wait(self, condition: Callable[[], bool], seconds: float = float("inf")) -> bool:
        """Wait until a condition holds, for so long at most, or until all is over; say whether it holds."""
        deadline = time.monotonic() + seconds
        while not (holds := condition()) and time.monotonic() < deadline and not self._is_over():
            time.sleep(POLL_SECONDS)
        return holds
