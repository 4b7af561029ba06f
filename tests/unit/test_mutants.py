"""The deliberate bugs of a chaos run: each names promises, a plan and steps that there are, and has a control."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from loadtests.checker import RULES, Shortfall, Verdict
from loadtests.conditions import APPROVALS, BANK, FAULTS, HITS
from loadtests.counts import count
from loadtests.invariants import Violation
from loadtests.mutants import MUTANTS, put_in
from loadtests.mutants.trials import Trial, trials
from loadtests.options import Options
from loadtests.plans import PLANS, resume_steps

KILLED, FROZEN, NOT_STRUCK = "ledger-off", "attempt-ignored", "lease-ignored"
"""A bug for each of the plans."""
OTHER_RULE = "nothing acknowledged is lost"


def test_each_is_to_be_caught_by_promises_that_the_checker_knows() -> None:
    assert {rule for mutant in MUTANTS.values() for rule in mutant.rules} <= set(RULES)
    assert all(mutant.rules for mutant in MUTANTS.values())


def test_each_has_a_plan_of_the_nemesis_and_steps_that_resumes_take() -> None:
    assert {mutant.plan for mutant in MUTANTS.values()} <= set(PLANS)
    assert {step for mutant in MUTANTS.values() for step in mutant.steps} <= set(resume_steps(is_shared=True))


def test_a_bug_that_is_not_there_is_refused_by_naming_those_that_are() -> None:
    with pytest.raises(ValueError, match="settle-dropped"):
        put_in("settle-droped")


def test_nothing_is_run_where_one_of_the_names_is_unknown() -> None:
    campaigns = Campaigns({})
    with pytest.raises(ValueError, match="settle-dropped"):
        campaigns.tried(KILLED, "settle-droped")
    assert campaigns.run == []


def test_each_plan_of_the_chosen_bugs_is_run_without_a_bug_first_and_at_all_its_steps() -> None:
    campaigns = Campaigns({})
    campaigns.tried("replay-runs-again", KILLED, FROZEN)
    assert [(each.plan, each.mutant, each.steps) for each in campaigns.run] == [
        ("kill-one", "", ()),
        ("freeze", "", ()),
        ("kill-one", "replay-runs-again", ()),
        ("kill-one", KILLED, MUTANTS[KILLED].steps),
        ("freeze", FROZEN, MUTANTS[FROZEN].steps),
    ]


def test_a_control_differs_from_its_bugs_in_nothing_else() -> None:
    campaigns = Campaigns({})
    campaigns.tried("replay-runs-again", NOT_STRUCK)
    killed, not_struck, *bugs = campaigns.run
    assert bugs == [replace(killed, mutant="replay-runs-again"), replace(not_struck, mutant=NOT_STRUCK)]
    assert (killed.hits, not_struck.hits) == (8, 0)


def test_a_bug_that_has_to_be_aimed_at_gets_all_the_time_there_is() -> None:
    campaigns = Campaigns({})
    campaigns.tried("replay-runs-again", KILLED)
    assert [each.seconds_min for each in campaigns.run] == [30.0, 30.0, 60.0]


def test_a_bug_is_caught_only_by_a_rule_that_was_named_for_it() -> None:
    named, *_ = MUTANTS[KILLED].rules
    _, caught = Campaigns({KILLED: verdict([named, OTHER_RULE])}).tried(KILLED)
    assert caught.row == (KILLED, named, "2", "caught")
    assert caught.is_good
    _, missed = Campaigns({KILLED: verdict([OTHER_RULE])}).tried(KILLED)
    assert missed.row == (KILLED, "", "1", "MISSED")
    assert not missed.is_good


def test_a_control_is_not_clean_whichever_rule_it_breaks() -> None:
    control, bug = Campaigns({"": verdict([OTHER_RULE]), KILLED: verdict(MUTANTS[KILLED].rules)}).tried(KILLED)
    assert control.row == ("control (kill-one)", OTHER_RULE, "1", "NOT CLEAN")
    assert not control.is_good
    assert bug.is_good, "the bugs are tried all the same"


@pytest.mark.parametrize("condition", [BANK, APPROVALS, FAULTS])
def test_a_control_without_a_bank_or_load_or_faults_is_not_called_clean(condition: str) -> None:
    control, _ = Campaigns({"": verdict([], condition)}).tried(KILLED)
    assert control.row == ("control (kill-one)", "too little", "0", "NO VERDICT")
    assert not control.is_good


def test_a_control_in_which_nothing_breaks_is_clean_even_with_few_hits() -> None:
    control, _ = Campaigns({"": verdict([], HITS)}).tried(KILLED)
    assert control.row == ("control (kill-one)", "", "0", "clean")
    assert control.is_good


def test_a_campaign_that_fails_by_itself_catches_nothing_and_stops_no_other() -> None:
    control, failed, other = Campaigns({KILLED: RuntimeError("the users ended")}).tried(KILLED, "replay-runs-again")
    assert failed.row == (KILLED, "the users ended", "0", "NO VERDICT")
    assert not failed.is_good
    assert control.is_good
    assert other.verdict == "MISSED"


class Campaigns:
    """Campaigns with known ends, by the bug that each has, "" for none; where none is known, nothing is broken."""

    def __init__(self, ends: Mapping[str, Verdict | RuntimeError]) -> None:
        self.run: list[Options] = []
        self._ends = ends

    def tried(self, *names: str) -> list[Trial]:
        options = Options(Path("runs"), "postgres", "", 1, approvals=150, hits=8, seconds_max=60.0, seconds_min=30.0)
        return list(trials(names, options, self._judge))

    def _judge(self, options: Options, _name: str) -> Verdict:
        self.run.append(options)
        end = self._ends.get(options.mutant, verdict([]))
        if isinstance(end, RuntimeError):
            raise end
        return end


def verdict(rules: Iterable[str], *lacks: str) -> Verdict:
    """A verdict on a run that broke these rules and lacked this."""
    broken = tuple(Violation("a", rule, "as it is") for rule in rules)
    return Verdict(broken, tuple(Shortfall(condition, "too little") for condition in lacks), count((), ()))
