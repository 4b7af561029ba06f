"""`report.html`: one page that needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from loadtests.cases import Case
from loadtests.invariants import Violation
from loadtests.report.curves import draw
from loadtests.report.percentiles import Percentiles, percentiles
from loadtests.report.run import ChaosRun
from loadtests.report.stories import stories
from loadtests.report.summary import moves
from loadtests.report.text import printable
from loadtests.report.timeline import Timeline
from loadtests.report.words import LIMITS, MEANING, crossings, headline, look_at, sentence
from loadtests.resumed import Resumed

VIOLATIONS_MAX = 50
"""Of one rule."""


def page(run: ChaosRun, line: Timeline, found: Sequence[Case], resumes: Sequence[Resumed]) -> str:
    """Return the page of a run, with its history as a timeline, as approvals and as resumes."""
    verdict = run.verdict
    template = _environment().get_template("template.html")
    return template.render(
        about=run.about,
        verdict=verdict,
        counts=verdict.counts,
        headline=headline(verdict),
        sentence=sentence(verdict),
        meaning=MEANING,
        limits=LIMITS,
        look_at=look_at,
        broken=_by_rule(verdict.violations),
        excused=_by_rule(verdict.excused),
        shown_max=VIOLATIONS_MAX,
        stories=stories(run.history, found, verdict.violations),
        times=times(run),
        plots=draw(run, line, resumes),
        crossings=crossings(verdict.counts),
        moves=moves(resumes),
    )


def times(run: ChaosRun) -> dict[str, Percentiles | None]:
    """Return what was timed, in the words of a reader."""
    counts = run.verdict.counts
    return {
        "to the first event": percentiles(counts.first_event_seconds),
        "to an interrupt": percentiles(counts.interrupt_seconds),
        "to a finish": percentiles(counts.finish_seconds),
        "to recover from a hit": percentiles(counts.recovery_seconds),
    }


def _by_rule(violations: Iterable[Violation]) -> dict[str, list[Violation]]:
    found: dict[str, list[Violation]] = {}
    for each in violations:
        found.setdefault(each.rule, []).append(each)
    return found


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["seconds"] = lambda seconds: f"{seconds:,.2f} s"
    environment.filters["number"] = lambda count: f"{count:,}"
    return environment


def _shown(value: Any) -> Any:
    """Escape what would act instead of being seen; what is markup comes from this folder only."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else printable(value)
