"""What the suite's command says of outcomes, and that its list names tests of upstream by rules of design.md."""

from __future__ import annotations

import tomllib

import pytest

from tests.upstream_suite.__main__ import DIFFERENCES
from tests.upstream_suite.fetch import NotFetched, pinned
from tests.upstream_suite.verdict import PASSED_MIN, TOTAL, Difference, judge, read_differences

KNOWN = {"test_a.py::test_known": Difference("5.6", "a run id is used once")}
OUTCOMES = {"test_a.py::test_known": False, **{f"test_b.py::test_{number}": True for number in range(TOTAL - 1)}}


def test_known_differences_alone_are_no_problem() -> None:
    verdict = judge(OUTCOMES, KNOWN)
    assert (verdict.passed, verdict.failed, verdict.by_rule, verdict.problems) == (TOTAL - 1, 1, {"5.6": 1}, ())


def test_a_failure_that_is_not_listed_is_named() -> None:
    verdict = judge({**OUTCOMES, "test_b.py::test_7": False}, KNOWN)
    assert verdict.problems == ("failed, and is not a listed difference: test_b.py::test_7",)


def test_a_listed_difference_that_passes_is_named() -> None:
    verdict = judge({**OUTCOMES, "test_a.py::test_known": True}, KNOWN)
    assert verdict.problems == ("listed as a difference, and passed: test_a.py::test_known",)


def test_a_listed_test_that_is_not_there_any_more_is_named() -> None:
    outcomes = {name: passed for name, passed in OUTCOMES.items() if passed}
    assert judge(outcomes, KNOWN).problems == (
        "listed as a difference, and passed: test_a.py::test_known",
        f"{TOTAL - 1} tests ran, not {TOTAL}",
    )


def test_too_many_known_differences_are_a_problem() -> None:
    known = {name: Difference("5.6", "why") for name in list(OUTCOMES)[: TOTAL - PASSED_MIN + 1]}
    verdict = judge({name: name not in known for name in OUTCOMES}, known)
    assert verdict.problems == (f"{PASSED_MIN - 1} tests passed, fewer than {PASSED_MIN}",)


def test_a_test_is_listed_under_one_rule() -> None:
    with pytest.raises(ValueError, match="listed twice"):
        read_differences({"5.6": {"test_a": "why"}, "5.7": {"test_a": "why"}})


def test_every_listed_difference_has_a_rule_and_a_reason() -> None:
    differences = read_differences(tomllib.loads(DIFFERENCES.read_text()))
    assert differences
    assert all(each.rule[0].isdigit() and each.why for each in differences.values())


def test_the_readme_says_how_many_pass_and_by_which_rule_the_others_fail() -> None:
    listed = tomllib.loads(DIFFERENCES.read_text())
    readme = DIFFERENCES.with_name("README.md").read_text()

    assert TOTAL - sum(map(len, listed.values())) == PASSED_MIN
    assert f"**{PASSED_MIN:,} of {TOTAL:,} pass.**" in readme
    assert [line for line in listed if f"| {len(listed[line])} | {line} |" not in readme] == []


def test_a_lock_without_the_package_is_said_to_be_so() -> None:
    with pytest.raises(NotFetched, match="does not pin"):
        pinned("agent-framework-core==1.0.0 \\\n    --hash=sha256:00\n")
