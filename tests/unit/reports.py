"""Reports of forged chaos runs: what the tests of reports write and read."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from loadtests.checker import Expected, check
from loadtests.history import Began, FaultKind, Phase
from loadtests.report import show, write_report
from loadtests.report.run import ChaosRun
from loadtests.target import Sample
from tests.unit.chaos_runs import ABOUT, BEGAN_AT, Forged

EXPECTED = Expected(approvals_min=2, hits_min=1, approvals_per_minute_min=1, bound_seconds=60)
PAGE, SUMMARY, JUNIT = "report.html", "report.json", "junit.xml"


def forged() -> Forged:
    """Two approvals that moved to another replica, a kill that hit a resume, one that hit none, and a freeze."""
    made = Forged()
    made.approved(1, 1)
    made.approved(5, 2, paused_on="host-2", ended_on="host-3")
    made.fault(6.1, FaultKind.KILL, "host-2", is_resume=True, step="before-settle", thread="thread-2")
    made.fault(8, FaultKind.KILL, "host-3")
    made.fault(9, FaultKind.FREEZE, lasts=6)
    for at, phase in ((20, Phase.QUIET), (21, Phase.LAST_LOOK), (22, Phase.END)):
        made.events.append(Began(BEGAN_AT + at, phase))
    return made


def judged(made: Forged, expected: Expected = EXPECTED, **fields: object) -> ChaosRun:
    samples: Sequence[Sample] = fields.get("samples", ())  # type: ignore[assignment]  # a field of ChaosRun
    verdict = check(made.history, made.effects, expected, is_bank_reached=True, samples=samples)
    run = ChaosRun(ABOUT, made.history, made.effects, verdict)
    return replace(run, **fields)  # type: ignore[arg-type]  # fields of ChaosRun


def broken() -> ChaosRun:
    """The same with a second effect, and less of everything than was wanted."""
    made = forged()
    made.happen_again(1)
    return judged(made, replace(EXPECTED, approvals_min=50, hits_min=50))


def sampled(*names: str) -> list[Sample]:
    return [Sample(BEGAN_AT + at, dict.fromkeys(names, 110_000_000), 20, 9_000_000) for at in (0, 5, 10)]


def shown(run: ChaosRun, folder: Path | None = None) -> str:
    written = io.StringIO()
    show(run, Console(file=written, width=120, force_terminal=True, color_system=None), folder)
    return written.getvalue()


def written(run: ChaosRun, folder: Path) -> str:
    """Write a report, and return its page."""
    write_report(folder, run)
    return (folder / PAGE).read_text(encoding="utf-8")


def spoken(page: str) -> str:
    """Return the text of a page, as a reader sees it."""
    body = page[page.index("<body>") :]
    return " ".join(
        html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<style.*?</style>", "", body, flags=re.DOTALL))).split()
    )
