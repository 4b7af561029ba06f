"""The deliberate bugs of a chaos run: each names promises that there are, and a plan that there is."""

from __future__ import annotations

import pytest

from loadtests.checker import RULES
from loadtests.mutants import MUTANTS, put_in
from loadtests.plans import PLANS


def test_each_is_to_be_caught_by_promises_that_the_checker_knows() -> None:
    assert {rule for mutant in MUTANTS.values() for rule in mutant.rules} <= set(RULES)
    assert all(mutant.rules for mutant in MUTANTS.values())


def test_each_has_a_plan_of_the_nemesis() -> None:
    assert {mutant.plan for mutant in MUTANTS.values()} <= set(PLANS)


def test_a_bug_that_is_not_there_is_refused_by_naming_those_that_are() -> None:
    with pytest.raises(ValueError, match="settle-dropped"):
        put_in("settle-droped")
