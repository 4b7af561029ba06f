"""The plots of a report: lines over the time of a run with its faults in lanes below them, and bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import pygal

from loadtests.report.pictures import look, picture
from loadtests.report.timeline import Lane, Mark, Timeline

Series = Mapping[str, tuple[str, Sequence[tuple[float, float | None]]]]
"""By title a colour and points (x, y); a y of None interrupts the line."""

SECONDS_MIN = 0.001
"""What was shorter is drawn like this: a logarithm has no place for zero."""
LANE_COLOURS = {Lane.AIMED: "var(--kill)", Lane.KILL: "var(--other-kill)", Lane.LASTING: "var(--lasting)"}
_TICK_SECONDS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600)


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot; `legend` has the colours of its lines by title. The page writes it, so that it can wrap."""

    svg: str
    legend: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Size:
    """How large a plot of the time is drawn, in its own units; a lane's height is a part of that of the curves."""

    width: int
    height: int
    ticks_max: int
    lane_share: float
    dots_size: float


WIDE = Size(1000, 340, ticks_max=11, lane_share=0.07, dots_size=4)
NARROW = Size(480, 300, ticks_max=5, lane_share=0.09, dots_size=2.5)


def over_time(name: str, about: str, line: Timeline, series: Series, *, unit: str = "", size: Size = NARROW) -> Plot:
    """Draw lines from zero up."""
    top = max((y for _, points in series.values() for _, y in points if y is not None), default=0.0)
    ticks = {value: f"{value:,.6g} {unit}".strip() for value in _round_values(top or 1.0)}
    return _over_time(name, about, line, series, ticks, size)


def over_time_logarithmic(name: str, about: str, line: Timeline, series: Series) -> Plot:
    """Draw lines of seconds on an axis that takes the same step from 0.1 s to 1 s as from 1 s to 10 s."""
    # By hand: pygal would take the logarithm of both axes, and the time of a run begins at zero.
    values = [max(y, SECONDS_MIN) for _, points in series.values() for _, y in points if y is not None]
    low, high = floor(log10(min(values, default=0.1))), ceil(log10(max(values, default=10.0)))
    steps = {
        title: (colour, [(x, None if y is None else log10(max(y, SECONDS_MIN)) - low) for x, y in points])
        for title, (colour, points) in series.items()
    }
    ticks = {float(step): f"{10.0 ** (low + step):g} s" for step in range(max(high - low, 1) + 1)}
    return _over_time(name, about, line, steps, ticks, NARROW)


def bars(name: str, about: str, counts: Mapping[str, int]) -> Plot:
    """Draw one bar for each count."""
    chart = pygal.Bar(**look(["var(--first)"], NARROW.width, NARROW.height))
    chart.x_labels = list(counts)
    ticks = _round_values(max(counts.values(), default=0) or 1)
    chart.y_labels = [{"value": value, "label": f"{value:,.6g}"} for value in ticks]
    chart.range = (0, ticks[-1])
    chart.add("count", [{"value": count, "label": f"{label}: {count}"} for label, count in counts.items()])
    return Plot(picture(chart, name, about), {})


def _over_time(name: str, about: str, line: Timeline, series: Series, ticks: Mapping[float, str], size: Size) -> Plot:
    lanes = [lane for lane in Lane if any(mark.lane is lane for mark in line.marks)]
    legend = {title: colour for title, (colour, _) in series.items()}
    faults = {lane.value: LANE_COLOURS[lane] for lane in lanes}
    chart = pygal.XY(**look([*legend.values(), *faults.values()], size.width, size.height))
    top = max(ticks)
    lane_height = size.lane_share * top
    chart.range = (-lane_height * (len(lanes) + 0.5) if lanes else 0, top)
    chart.xrange = (0, line.seconds or 1)
    chart.x_labels = _round_seconds(line.seconds, size.ticks_max)
    chart.x_value_formatter = lambda at: f"{at:g} s"
    chart.y_labels = [{"value": value, "label": label} for value, label in ticks.items()]
    for title, (_, points) in series.items():
        is_too_short_for_a_line = sum(y is not None for _, y in points) < 2
        chart.add(title, list(points), show_dots=is_too_short_for_a_line, dots_size=2, allow_interruptions=True)
    for number, lane in enumerate(lanes, 1):
        marks = [mark for mark in line.marks if mark.lane is lane]
        _add_lane(chart, lane, marks, -lane_height * number, dots_size=size.dots_size)
    return Plot(picture(chart, name, about), legend | faults if size is WIDE else legend)


def _add_lane(chart: pygal.XY, lane: Lane, marks: Sequence[Mark], height: float, *, dots_size: float) -> None:
    """Mark faults at one height: a dot each, and for those that last a bar between two."""
    is_lasting = lane is Lane.LASTING
    points: list[object] = []
    for mark in marks:
        points.append({"value": (mark.at, height), "label": mark.what})
        if is_lasting:
            points.append({"value": (mark.until, height), "label": mark.what})
            points.append((mark.until, None))
    chart.add(
        lane.value,
        points,
        stroke=is_lasting,
        stroke_style={"width": 5},
        dots_size=2 if is_lasting else dots_size,
        allow_interruptions=True,
    )


def _round_values(top: float) -> list[float]:
    """Return at most six round values from zero up to the first that is not under `top`."""
    power = 10.0 ** floor(log10(top / 5))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if top / (power * factor) <= 5)
    return [step * number for number in range(ceil(top / step) + 1)]


def _round_seconds(seconds: float, ticks_max: int) -> list[float]:
    step = next((each for each in _TICK_SECONDS if seconds / each <= ticks_max), 7200)
    return [float(at) for at in range(0, int(seconds) + 1, step)]
