"""The files of a report."""

from __future__ import annotations

import json
from pathlib import Path

from loadtests.cases import cases
from loadtests.report.junit import junit
from loadtests.report.page import page
from loadtests.report.run import ChaosRun
from loadtests.report.summary import summary
from loadtests.report.timeline import timeline
from loadtests.resumed import resumed

PAGE, SUMMARY, JUNIT = "report.html", "report.json", "junit.xml"


def write_report(folder: Path, run: ChaosRun) -> None:
    """Write a page, a summary and a JUnit file into a folder that exists.

    Raises OSError, and ValueError for a number that JSON has no word for.
    """
    line = timeline(run.history)
    found, _ = cases(run.history, run.effects)
    resumes = resumed(found)
    (folder / PAGE).write_text(page(run, line, found, resumes), encoding="utf-8")
    summarized = json.dumps(summary(run, line, resumes), indent=2, allow_nan=False)
    (folder / SUMMARY).write_text(summarized + "\n", encoding="utf-8")
    junit(run).write(str(folder / JUNIT), pretty=True)
