"""Which plots a report has, and of what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import cycle, pairwise

from loadtests.report.plots import WIDE, Plot, bars, over_time, over_time_logarithmic
from loadtests.report.run import ChaosRun
from loadtests.report.timeline import Ending, Lane, Measure, Timeline
from loadtests.resumed import Resumed
from loadtests.target import Sample

_ENDINGS = {
    Ending.OK: "var(--first)",
    Ending.REPLAY: "var(--second)",
    Ending.REFUSED: "var(--third)",
    Ending.CUT: "var(--fourth)",
}
_PERCENTILES = {"median": ("p50", "var(--first)"), "p95": ("p95", "var(--second)"), "highest": ("max", "var(--third)")}
_SERIES = ("var(--first)", "var(--second)", "var(--third)", "var(--fourth)")
_CROSSED, _STAYED, _RETOLD = "on another replica", "on the same one", "told by a replay, or as a doubt"
_MOVES = {_CROSSED: _SERIES[0], _STAYED: _SERIES[2], _RETOLD: _SERIES[3]}
_RECOVERY_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Where one bar ends and the next begins."""
_MEGABYTE = 1_000_000


def draw(run: ChaosRun, line: Timeline, resumes: Sequence[Resumed]) -> dict[str, Plot]:
    """Return the plots of a run by name; those of what it uses only where that was sampled."""
    plots = {"outcomes": _outcomes(line), "moves": _moves(line, resumes)}
    plots |= {measure.name.lower(): _latencies(line, measure) for measure in Measure}
    plots["recovery"] = _recovery(run.verdict.counts.recovery_seconds)
    if len(run.samples) > 1:
        plots |= _uses(run.samples, line)
    return plots


def _outcomes(line: Timeline) -> Plot:
    lanes = Counter(mark.lane for mark in line.marks)
    faults = ", ".join(f"{lane.value}: {lanes[lane]}" for lane in Lane)
    about = f"Replies per second over {line.seconds:.0f} seconds, by how they ended. Faults below: {faults}."
    series = {kind.value: (_ENDINGS[kind], line.per_second[kind]) for kind in Ending}
    return over_time("outcomes", about, line, series, unit="/s", size=WIDE)


def _latencies(line: Timeline, measure: Measure) -> Plot:
    taken = line.latencies[measure]
    series = {
        title: (colour, [(at, getattr(each, name)) for at, each in taken])
        for title, (name, colour) in _PERCENTILES.items()
    }
    about = f"Seconds {measure.value}, over the time of the run: median, 95th percentile and highest of each slice."
    return over_time_logarithmic(measure.name.lower(), about, line, series)


def _moves(line: Timeline, resumes: Sequence[Resumed]) -> Plot:
    ways = Counter((way(each), line.middle_of(each.ended_at)) for each in resumes)
    middles = [at for at, _ in line.per_second[Ending.OK]]
    series = {title: (colour, [(at, float(ways[title, at])) for at in middles]) for title, colour in _MOVES.items()}
    about = f"Resumes that ended in each {line.slice_seconds:g} seconds, by whether on the replica that had paused."
    return over_time("moves", about, line, series)


def way(each: Resumed) -> str:
    """Return which line of the plot of moves a resume is counted in."""
    if not each.is_live:
        return _RETOLD
    return _CROSSED if each.is_crossed else _STAYED


def _recovery(seconds: Sequence[float]) -> Plot:
    limits = (0.0, *_RECOVERY_SECONDS, float("inf"))
    counts = {}
    for low, high in pairwise(limits):
        name = f"to {high:g}" if high < float("inf") else f"over {low:g}"
        counts[name] = sum(low <= each < high for each in seconds)
    return bars("recovery", "Hits by the seconds until a client was told how the run that was hit had ended.", counts)


def _uses(samples: Sequence[Sample], line: Timeline) -> dict[str, Plot]:
    names = sorted({name for each in samples for name in each.memory_bytes})
    at = [each.at - line.begins_at for each in samples]
    return {
        "memory": over_time(
            "memory",
            "Memory of each replica in megabytes; where a line breaks, the replica was gone.",
            line,
            {
                name: (colour, _megabytes(at, [each.memory_bytes.get(name) for each in samples]))
                for name, colour in zip(names, cycle(_SERIES), strict=False)
            },
            unit="MB",
        ),
        "connections": over_time(
            "connections",
            "Connections to the store.",
            line,
            {"connections": (_SERIES[0], [(when, each.connections) for when, each in zip(at, samples, strict=True)])},
        ),
        "store": over_time(
            "store",
            "Size of the store in megabytes.",
            line,
            {"size": (_SERIES[0], _megabytes(at, [each.store_bytes for each in samples]))},
            unit="MB",
        ),
    }


def _megabytes(at: Sequence[float], sizes: Sequence[int | None]) -> list[tuple[float, float | None]]:
    return [(when, None if size is None else size / _MEGABYTE) for when, size in zip(at, sizes, strict=True)]
