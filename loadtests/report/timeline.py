"""A history cut into slices of equal length, and its faults as marks on the same axis: what plots are drawn from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite

from loadtests.history import Event, Exchange, Fault, FaultKind, Mended, Replied, exchanges
from loadtests.report.percentiles import Percentiles, percentiles

SLICES_MAX = 90
_SLICE_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)


class Ending(StrEnum):
    """How a POST ended, as one looks at a curve."""

    OK = "ok"
    REPLAY = "replay"
    """The recorded end of an earlier run, told again."""
    REFUSED = "refused"
    CUT = "cut"


class Lane(StrEnum):
    """The faults that are marked together."""

    AIMED = "kill that hit a resume"
    KILL = "other kill"
    LASTING = "fault that lasts"


class Measure(StrEnum):
    """What is timed, from the POST on; `counts.py` says which replies each is taken from."""

    FIRST_EVENT = "to the first event"
    INTERRUPT = "to an interrupt"
    FINISH = "to a finish"


@dataclass(frozen=True, slots=True)
class Mark:
    """One fault on the time axis, in seconds since the beginning; `until` is `at` for what has no length."""

    lane: Lane
    at: float
    until: float
    what: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """What happened in each slice of a run; a slice is known by its middle, in seconds since the beginning."""

    begins_at: float
    """On the clock of the history."""
    seconds: float
    slice_seconds: float
    per_second: Mapping[Ending, Sequence[tuple[float, float]]]
    latencies: Mapping[Measure, Sequence[tuple[float, Percentiles]]]
    """Slices without a value are left out."""
    marks: Sequence[Mark]

    def middle_of(self, at: float) -> float:
        """Return the middle of the slice that a time of the history falls into."""
        return _middle(at - self.begins_at, self.slice_seconds)


def timeline(history: Sequence[Event]) -> Timeline:
    """Cut a history into slices."""
    begins_at = min((event.at for event in history), default=0.0)
    seconds = max((event.at for event in history), default=begins_at) - begins_at
    slice_seconds = next((each for each in _SLICE_SECONDS if seconds / each <= SLICES_MAX), seconds / SLICES_MAX)
    done = [each for each in exchanges(history) if isfinite(each.replied.at)]
    return Timeline(
        begins_at,
        seconds,
        slice_seconds,
        _per_second(done, begins_at, seconds, slice_seconds),
        _latencies(done, begins_at, slice_seconds),
        _marks(history, begins_at, begins_at + seconds),
    )


def ending(reply: Replied) -> Ending:
    """Say how a POST ended."""
    if reply.is_cut:
        return Ending.CUT
    if reply.code is not None:
        return Ending.REFUSED
    return Ending.REPLAY if reply.is_replay else Ending.OK


def measures(each: Exchange) -> Iterable[tuple[Measure, float]]:
    """Yield what an exchange was timed to, in seconds."""
    sent, reply = each.sent, each.replied
    if reply.first_event_at is not None:
        yield Measure.FIRST_EVENT, reply.first_event_at - sent.at
    if sent.looks or reply.is_replay or not reply.is_finished:
        return
    yield (Measure.INTERRUPT if reply.is_paused else Measure.FINISH), reply.at - sent.at


def _per_second(
    done: Iterable[Exchange], begins_at: float, seconds: float, slice_seconds: float
) -> dict[Ending, list[tuple[float, float]]]:
    counted = Counter((ending(each.replied), _middle(each.replied.at - begins_at, slice_seconds)) for each in done)
    middles = [slice_seconds * (number + 0.5) for number in range(int(seconds / slice_seconds) + 1)]
    return {kind: [(at, counted[kind, at] / slice_seconds) for at in middles] for kind in Ending}


def _latencies(
    done: Iterable[Exchange], begins_at: float, slice_seconds: float
) -> dict[Measure, list[tuple[float, Percentiles]]]:
    taken: defaultdict[Measure, defaultdict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in done:
        for measure, seconds in measures(each):
            taken[measure][_middle(each.replied.at - begins_at, slice_seconds)].append(seconds)
    return {
        measure: [(at, found) for at, values in sorted(taken[measure].items()) if (found := percentiles(values))]
        for measure in Measure
    }


def _middle(seconds: float, slice_seconds: float) -> float:
    return slice_seconds * (int(seconds / slice_seconds) + 0.5)


def _marks(history: Sequence[Event], begins_at: float, ends_at: float) -> list[Mark]:
    mended: defaultdict[tuple[FaultKind | None, str], list[float]] = defaultdict(list)
    for event in history:
        if isinstance(event, Mended):
            mended[event.kind, event.replica].append(event.at)
    return [
        _mark(event, mended[event.kind, event.replica], begins_at, ends_at)
        for event in history
        if isinstance(event, Fault)
    ]


def _mark(fault: Fault, mended: Sequence[float], begins_at: float, ends_at: float) -> Mark:
    at = fault.at - begins_at
    what = f"{at:.1f} s: {described(fault)}"
    if fault.kind in (FaultKind.KILL, None):
        return Mark(Lane.AIMED if fault.is_resume else Lane.KILL, at, at, what)
    until = min((each for each in mended if each >= fault.at), default=ends_at) - begins_at
    return Mark(Lane.LASTING, at, until, f"{what}, for {until - at:.1f} s")


def described(fault: Fault) -> str:
    """Return a fault as a few words: what, where, at which step of whose run."""
    where = f" of {fault.replica}" if fault.replica else ""
    step = f" at {fault.step}" if fault.step else ""
    thread = f" of thread {fault.thread}" if fault.thread else ""
    return f"{fault.kind or 'fault'}{where}{step}{thread}"
