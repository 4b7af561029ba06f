"""The verdict and its numbers in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadtests.report.files import PAGE
from loadtests.report.page import times
from loadtests.report.run import ChaosRun
from loadtests.report.text import printable
from loadtests.report.words import crossings, headline, look_at, sentence

VIOLATIONS_MAX = 30


def show(run: ChaosRun, console: Console, folder: Path | None = None) -> None:
    """Print what a run came to; the last line has the verdict, and the place of the report if it has one."""
    verdict, counts = run.verdict, run.verdict.counts
    for table in (
        _kinds(run),
        _numbers("Faults", "kind", counts.faults),
        _numbers("Replies", "outcome", counts.outcomes),
        _numbers("Refusals", "code", counts.codes),
        _times(run),
    ):
        console.print(table)
        console.print()
    _say(
        console,
        f"{counts.hits:,} kills hit a resume in progress. {crossings(counts)}",
    )
    for violation in verdict.violations[:VIOLATIONS_MAX]:
        _say(console, f"BROKEN {violation.approval or 'no approval known'}: {violation.rule}: {violation.what}")
        _say(console, f"       look at {look_at(violation.rule)}")
    if len(verdict.violations) > VIOLATIONS_MAX:
        _say(console, f"... and {len(verdict.violations) - VIOLATIONS_MAX:,} more violations.")
    for shortfall in verdict.shortfalls:
        _say(console, f"TOO LITTLE {shortfall.condition}: {shortfall.what}")
    if verdict.excused:
        _say(
            console,
            f"{len(verdict.excused):,} times a thread went back to what it was before a failover: no violation.",
        )
    _say(console, sentence(verdict))
    _say(console, headline(verdict) + (f": {folder / PAGE}" if folder else ""))


def _kinds(run: ChaosRun) -> Table:
    columns = ("kind of effect", "approvals", "approved", "answered", "effects", "in doubt", "waiting")
    return _table(
        "Approvals",
        columns,
        [
            (kind, each.approvals, each.approved, each.answered, each.effects, each.in_doubt, each.waiting)
            for kind, each in run.verdict.counts.kinds.items()
        ],
    )


def _times(run: ChaosRun) -> Table:
    rows: list[tuple[str | int, ...]] = [
        (name, each.count, *(f"{value:.2f} s" for value in (each.p50, each.p95, each.p99, each.max)))
        for name, each in times(run).items()
        if each is not None
    ]
    return _table("How long it took", ("time", "count", "median", "p95", "p99", "highest"), rows)


def _numbers(title: str, what: str, numbers: Mapping[str, int]) -> Table:
    return _table(title, (what, "count"), sorted(numbers.items(), key=itemgetter(1), reverse=True))


def _table(title: str, columns: tuple[str, ...], rows: Iterable[tuple[str | int, ...]]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(*(Text(f"{cell:,}" if isinstance(cell, int) else printable(cell)) for cell in row))
    return table


def _say(console: Console, line: str) -> None:
    # Neither markup nor control characters of what a server sent get to the terminal.
    console.print(Text(printable(line)), soft_wrap=True)
