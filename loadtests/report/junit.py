"""`junit.xml`: one test case per rule and per condition of an honest run, as CI systems show them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from junitparser import Failure, JUnitXml, TestCase, TestSuite

from loadtests.checker import CONDITIONS, RULES
from loadtests.report.run import ChaosRun
from loadtests.report.text import printable
from loadtests.report.words import look_at

SHOWN_MAX = 20
"""Of what is wrong with one test case; `report.json` has all of it."""


def junit(run: ChaosRun) -> JUnitXml:
    """Return the verdict as a suite of promises and a suite of conditions."""
    broken: defaultdict[str, list[str]] = defaultdict(list, {rule: [] for rule in RULES})
    for violation in run.verdict.violations:
        broken[violation.rule].append(f"{violation.approval or 'no approval known'}: {violation.what}")
    missed: defaultdict[str, list[str]] = defaultdict(list, {condition: [] for condition in CONDITIONS})
    for shortfall in run.verdict.shortfalls:
        missed[shortfall.condition].append(shortfall.what)
    promises, conditions = TestSuite("chaos.promises"), TestSuite("chaos.conditions")
    for rule, what in broken.items():
        promises.add_testcase(_case(promises.name, rule, what, f"broken {len(what)} times; look at {look_at(rule)}"))
    for condition, what in missed.items():
        conditions.add_testcase(_case(conditions.name, condition, what, "not met: the run does not say enough"))
    report = JUnitXml()
    report.add_testsuite(promises)
    report.add_testsuite(conditions)
    report.update_statistics()  # type: ignore[no-untyped-call]  # it adds up both suites, and has no types
    return report


def _case(suite: str, name: str, wrong: Sequence[str], message: str) -> TestCase:
    case = TestCase(printable(name), classname=suite)
    if wrong:
        failure = Failure(message)
        failure.text = "\n".join(printable(each) for each in wrong[:SHOWN_MAX])
        case.result = [failure]
    return case
