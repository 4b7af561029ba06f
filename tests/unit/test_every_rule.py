"""Rules that only a whole run of many users can break; and no rule is without a history that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from loadtests.doubts import NEAR_FEW
from loadtests.failing import FEW
from loadtests.history import FaultKind
from loadtests.invariants import REPLY_RULES, RULES, RUN_RULES, judged, violations
from tests.unit import test_invariants, test_invariants_broken_in_time, test_invariants_told
from tests.unit.forged import Timed, approval, chaos_run, doubts_nearby, result


def doubts_whatever_fails_nearby() -> Timed:
    return doubts_nearby(answered=0, doubted=NEAR_FEW + 1)


def cuts_streams_though_nothing_fails() -> Timed:
    run = chaos_run()
    for number in range(FEW + 1):
        run.send(200.0 + number, 200.5 + number, f"cut-{number}", is_cut=True)
    return run


def tells_again_and_again_that_a_call_failed() -> Timed:
    run = chaos_run()
    run.fail(200.0, 300.0, FaultKind.FREEZE, run.served_by)
    for number in range(FEW + 1):
        name, thread = f"wire-{number}0", f"failed-{number}"
        failed = replace(result(name), content="Error: nothing was wired.", is_error=True)
        run.show(201.0, 202.0, thread, name)
        run.send(203.0, 204.0, thread, approval(name), results=(failed,), text="done")
    return run


BROKEN_BY_RUNS = [
    (tells_again_and_again_that_a_call_failed, "a failure has a cause"),
    (doubts_whatever_fails_nearby, "doubts are rare"),
    (cuts_streams_though_nothing_fails, "a failure has a cause"),
]


def test_a_whole_run_in_which_all_promises_were_kept_breaks_no_rule() -> None:
    run = chaos_run()

    assert judged(run.history, run.effects).violations == ()


@pytest.mark.parametrize(("broken", "rule"), BROKEN_BY_RUNS)
def test_too_many_of_what_one_may_be_told_now_and_then_break_a_rule_of_runs(
    broken: Callable[[], Timed], rule: str
) -> None:
    run = broken()

    assert violations(run.history, run.effects) == [], "each of them alone may be"
    assert [each.rule for each in judged(run.history, run.effects).violations] == [rule]


def test_every_rule_is_broken_by_some_history() -> None:
    histories = (test_invariants, test_invariants_broken_in_time, test_invariants_told)
    broken = {rule for module in histories for _, _, rule in module.BROKEN} | {rule for _, rule in BROKEN_BY_RUNS}

    assert broken == {*RULES, *REPLY_RULES, *RUN_RULES}
