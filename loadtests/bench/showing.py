"""The curves as a table for people, and as JSON for programs."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from rich.table import Table
from rich.text import Text

from loadtests.bench.measuring import DECADE_SHARE, FLAT_RATIO_MAX, LAST_DECADE_RATIO_MAX, Cost, Curve, Verdict

BARS = "▁▂▃▄▅▆▇█"
LEGEND = f"""Median (p95) of {{rounds}} in microseconds, sizes in turn; CPU: of the client, at the largest size;
a bar higher is twice the cost.
ratio: the largest size to the smallest (messages: to 100; pages: to 1,000, where they are full).
flat: up to {FLAT_RATIO_MAX}. logarithmic: up to 1 + {DECADE_SHARE} per ten times as many, and the last ten times up to
{LAST_DECADE_RATIO_MAX}. Else it GROWS."""
_STYLES = {Verdict.GROWS: "bold red", Verdict.PROPORTIONAL: "dim", Verdict.LOGARITHMIC: "yellow", Verdict.FLAT: "green"}


def table(title: str, curves: Sequence[Curve]) -> Table:
    """Return one adapter's table: median and p95 of each step at each size, and the verdict."""
    most = max(len(curve.costs) for curve in curves)
    shown = Table(title=title, title_justify="left", show_header=False, pad_edge=False)
    shown.add_column(no_wrap=True)
    for _ in range(most):
        shown.add_column(justify="right", no_wrap=True)
    for justify in ("right", "right", "left", "left"):
        shown.add_column(justify=justify, no_wrap=True)
    for growth, group in groupby(curves, key=lambda curve: curve.growth):
        of_growth = list(group)
        sizes = sorted(of_growth[0].costs)
        blanks = [""] * (most - len(sizes))
        head = [growth, *(f"{size:,}" for size in sizes), *blanks, "CPU", "ratio", "", ""]
        shown.add_row(*(Text(each, style="bold") for each in head))
        for curve in of_growth:
            cells = [_cell(curve.costs[size], curve.unit) for size in sizes]
            cpu = "" if curve.unit == "bytes" else _microseconds(curve.costs[sizes[-1]].cpu)
            verdict = Text(curve.verdict, style=_STYLES[curve.verdict])
            shown.add_row(f"  {curve.step}", *cells, *blanks, cpu, f"{curve.ratio:.2f}", bars(curve), verdict)
        shown.add_section()
    return shown


def bars(curve: Curve) -> str:
    """Draw medians on a logarithmic scale: one bar higher is twice the cost of the cheapest."""
    medians = [curve.costs[size].median for size in sorted(curve.costs)]
    heights = [round(math.log2(each / min(medians))) for each in medians]
    return "".join(BARS[min(height, len(BARS) - 1)] for height in heights)


def limits(rounds: int) -> str:
    """Say how to read a table."""
    return LEGEND.format(rounds=rounds)


def written(path: Path, found: Mapping[str, Sequence[Curve]]) -> None:
    """Write every number, in seconds and bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()}
    curves = {
        adapter: [{**asdict(each), "ratio": each.ratio, "verdict": each.verdict} for each in curves]
        for adapter, curves in found.items()
    }
    path.write_text(json.dumps({"machine": machine, "curves": curves}, indent=1) + "\n")


def _cell(cost: Cost, unit: str) -> str:
    if unit == "bytes":
        return f"{cost.median:,.0f}"
    return f"{_microseconds(cost.median)} ({_microseconds(cost.p95)})"


def _microseconds(seconds: float) -> str:
    """Write three or four digits."""
    if seconds >= 1e-2:
        return f"{seconds * 1e3:,.0f} ms"
    return f"{seconds * 1e6:,.0f}" if seconds >= 1e-5 else f"{seconds * 1e6:.1f}"
