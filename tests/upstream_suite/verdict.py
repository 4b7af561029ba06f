"""Holds what upstream's tests did against the list of expected differences. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

TOTAL = 1_776
"""The tests of the pinned version; with another number something was not collected, or the version is another."""
PASSED_MIN = 1_682
"""What passes with every rule on: all but the tests that `differences.toml` lists, each of which was read.

They want what a rule of design.md forbids, or agents that it refuses. A test that a change makes pass leaves the list
and raises this number; it is lowered for a new rule only.
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """A test that fails here because of a rule of design.md, and why in one line."""

    rule: str
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """`problems` are why the command fails, `by_rule` how many expected differences each rule causes."""

    passed: int
    failed: int
    by_rule: Mapping[str, int]
    problems: tuple[str, ...]


def read_differences(listed: Mapping[str, Mapping[str, str]]) -> dict[str, Difference]:
    """Return the differences of a list that names, by rule, each test and why. A test is listed once."""
    differences: dict[str, Difference] = {}
    for rule, tests in listed.items():
        for test, why in tests.items():
            if test in differences:
                raise ValueError(f"{test} is listed twice")
            differences[test] = Difference(rule, why)
    return differences


def judge(outcomes: Mapping[str, bool], differences: Mapping[str, Difference]) -> Verdict:
    """Say what is wrong with these outcomes, test by test: True if it passed."""
    failed = {test for test, is_passed in outcomes.items() if not is_passed}
    passed = len(outcomes) - len(failed)
    problems = [f"failed, and is not a listed difference: {test}" for test in sorted(failed - differences.keys())]
    problems += [f"listed as a difference, and passed: {test}" for test in sorted(differences.keys() - failed)]
    if len(outcomes) != TOTAL:
        problems.append(f"{len(outcomes)} tests ran, not {TOTAL}")
    if passed < PASSED_MIN:
        problems.append(f"{passed} tests passed, fewer than {PASSED_MIN}")
    by_rule = Counter(differences[test].rule for test in failed & differences.keys())
    return Verdict(passed, len(failed), by_rule, tuple(problems))
