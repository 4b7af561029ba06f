"""`report.json`: the numbers of a run for a program to read, so that two runs can be compared.

Top-level fields, stable under `format` 2; all times are in seconds:

- `about`: what was run, as given. `passed`: the verdict.
- `violations`: each with `approval` ("" where none is known), `rule`, `what`; `excused`: the same, for what a failover
  explains. `shortfalls`: each with `condition`, `what`.
- `counts`: the fields of `counts.Counts` that are no lists of times, and `crossed_share`, of `live` resumes.
- `times`: for each list of times in `counts.Counts` its `count`, `p50`, `p95`, `p99` and `max`; null without values.
- `moves`: resumes that ended live, by the replica that paused them, then by the one that ended them.
- `faults`: each with `at` and `until` (since the beginning; equal for a kill), `kind`, `replica`, `step`, `is_resume`.
- `growth`: `memory_bytes` by replica, `connections`, `store_bytes`, as first, last and highest; null
  without samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from loadtests.counts import Counts
from loadtests.history import Fault
from loadtests.report.percentiles import percentiles
from loadtests.report.run import ChaosRun
from loadtests.report.timeline import Timeline
from loadtests.resumed import Resumed
from loadtests.target import Sample

FORMAT = 2
NOBODY_SAID = "unknown"


def summary(run: ChaosRun, line: Timeline, resumes: Sequence[Resumed]) -> dict[str, Any]:
    """Return the content of `report.json`."""
    verdict = run.verdict
    plain, times = _counts(verdict.counts)
    return {
        "format": FORMAT,
        "about": dict(run.about),
        "passed": verdict.is_passed,
        "violations": [asdict(each) for each in verdict.violations],
        "shortfalls": [asdict(each) for each in verdict.shortfalls],
        "excused": [asdict(each) for each in verdict.excused],
        "counts": plain,
        "times": times,
        "moves": moves(resumes),
        "faults": _faults(run, line),
        "growth": _growth(run.samples),
    }


def moves(resumes: Sequence[Resumed]) -> dict[str, dict[str, int]]:
    """Return how many resumes were paused on one replica and ended live on another; each row has all replicas."""
    live = [each for each in resumes if each.is_live]
    pairs = Counter((each.shown_by or NOBODY_SAID, each.ended_by or NOBODY_SAID) for each in live)
    names = sorted({name for pair in pairs for name in pair})
    return {paused: {ended: pairs[paused, ended] for ended in names} for paused in names}


def _counts(counts: Counts) -> tuple[dict[str, Any], dict[str, Any]]:
    fields = asdict(counts)
    lists = {name for name, value in fields.items() if isinstance(value, tuple)}
    plain = {name: value for name, value in fields.items() if name not in lists}
    times = {name: found and asdict(found) for name in fields if name in lists for found in [percentiles(fields[name])]}
    return plain | {"crossed_share": counts.crossed_share}, times


def _faults(run: ChaosRun, line: Timeline) -> list[dict[str, Any]]:
    faults = [event for event in run.history if isinstance(event, Fault)]
    return [
        {
            "at": mark.at,
            "until": mark.until,
            "kind": fault.kind,
            "replica": fault.replica,
            "step": fault.step,
            "is_resume": fault.is_resume,
        }
        for fault, mark in zip(faults, line.marks, strict=True)
    ]


def _growth(samples: Sequence[Sample]) -> dict[str, Any] | None:
    if not samples:
        return None
    names = sorted({name for each in samples for name in each.memory_bytes})
    return {
        "memory_bytes": {
            name: _ends([each.memory_bytes[name] for each in samples if name in each.memory_bytes]) for name in names
        },
        "connections": _ends([each.connections for each in samples]),
        "store_bytes": _ends([each.store_bytes for each in samples]),
    }


def _ends(values: Sequence[int]) -> list[int]:
    return [values[0], values[-1], max(values)]
