"""Times steps of several sizes in turn, and says whether their cost grows with the size."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from statistics import median, quantiles
from types import TracebackType
from typing import Generic, TypeVar

FLAT_RATIO_MAX = 1.5
"""Two medians of one and the same step differ by up to a third here, on a machine whose two cores are shared."""

DECADE_SHARE = 0.5
"""A search in a tree of n entries costs log n: at most half of its first cost more for each ten times as many."""

LAST_DECADE_RATIO_MAX = 2.0
"""A cost that is proportional, below a constant one, shows in the last step first; a logarithm's steps get smaller."""

WARM_UP_ROUNDS = 12
"""Not counted: connections are made, statements prepared, and PostgreSQL plans anew for each of the first five."""


class Verdict(StrEnum):
    """What a curve says."""

    FLAT = "flat"
    LOGARITHMIC = "logarithmic"
    PROPORTIONAL = "by contract"
    GROWS = "GROWS"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a step costs at one size, in seconds (or bytes, where the curve is of bytes)."""

    median: float
    p95: float
    cpu: float
    samples: int


@dataclass(frozen=True, slots=True)
class Curve:
    """The cost of a step by size. `is_proportional`: the contract lets it cost what is claimed, or what is answered.

    `base` is the size that the largest is compared with.
    """

    growth: str
    step: str
    costs: Mapping[int, Cost]
    unit: str = "seconds"
    is_proportional: bool = False
    base: int | None = None

    @property
    def ratio(self) -> float:
        """The cost at the largest size, as a multiple of that at the base."""
        return self.costs[max(self.costs)].median / self.costs[self._base].median

    @property
    def verdict(self) -> Verdict:
        """Whether it grows, by the limits at the top of this file."""
        if self.is_proportional:
            return Verdict.PROPORTIONAL
        if self.ratio <= FLAT_RATIO_MAX:
            return Verdict.FLAT
        decades = math.log10(max(self.costs) / self._base)
        is_small = self.ratio <= 1 + DECADE_SHARE * decades
        return Verdict.LOGARITHMIC if is_small and self._last_decade() <= LAST_DECADE_RATIO_MAX else Verdict.GROWS

    @property
    def _base(self) -> int:
        return min(self.costs) if self.base is None else self.base

    def _last_decade(self) -> float:
        """How much more the largest size costs than the one before, for ten times as many."""
        before, last = sorted(self.costs)[-2:]
        ratio = self.costs[last].median / self.costs[before].median
        return float(ratio ** (1 / math.log10(last / before)))


@dataclass(slots=True)
class Timer:
    """Times what stands in its `with` block: wall time, and CPU time of this process with all its threads."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    _wall: float = 0.0
    _cpu: float = 0.0

    def __enter__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        self.wall.append(wall)
        self.cpu.append(cpu)


@dataclass(slots=True)
class Meter:
    """What was measured at one size, by step."""

    timers: dict[str, Timer] = field(default_factory=lambda: defaultdict(Timer))
    bytes: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def time(self, step: str) -> Timer:
        """Return the timer of a step."""
        return self.timers[step]


PlaceT = TypeVar("PlaceT")
Script = Callable[[PlaceT, Meter, Random], Awaitable[None]]
"""Takes its steps once, in a place of one size; what is to be timed goes through the meter."""


@dataclass(frozen=True, slots=True)
class Growth(Generic[PlaceT]):
    """What grows, places that differ in nothing else, and the scripts whose steps are measured there."""

    name: str
    places: Mapping[int, PlaceT]
    scripts: Sequence[Script[PlaceT]]
    proportional: frozenset[str] = frozenset()
    bases: Mapping[str, int] = field(default_factory=dict)


async def curves(growth: Growth[PlaceT], *, rounds: int, random: Random) -> Sequence[Curve]:
    """Run each script so many times in each place, in turn: what disturbs the machine disturbs all sizes alike."""
    meters = {size: Meter() for size in growth.places}
    for script in growth.scripts:
        for number in range(WARM_UP_ROUNDS + rounds):
            is_counted = number >= WARM_UP_ROUNDS
            for size in random.sample(list(growth.places), len(growth.places)):
                await script(growth.places[size], meters[size] if is_counted else Meter(), random)
    first = next(iter(meters.values()))
    timed = [
        Curve(growth.name, step, {size: _timed(meter.timers[step]) for size, meter in meters.items()})
        for step in first.timers
    ]
    written = [
        Curve(growth.name, step, {size: _counted(meter.bytes[step]) for size, meter in meters.items()}, unit="bytes")
        for step in first.bytes
    ]
    return [
        replace(each, is_proportional=each.step in growth.proportional, base=growth.bases.get(each.step))
        for each in (*timed, *written)
    ]


def _timed(timer: Timer) -> Cost:
    return Cost(median(timer.wall), _p95(timer.wall), median(timer.cpu), len(timer.wall))


def _counted(values: Sequence[float]) -> Cost:
    # The mean: a save that seals a chunk is rare and large, and a median would hide it.
    return Cost(sum(values) / len(values), _p95(values), 0.0, len(values))


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20)[-1]
