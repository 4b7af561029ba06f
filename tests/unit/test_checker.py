"""The checker, on forged chaos runs: a clean one passes, what is broken is named, a failover excuses some of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from loadtests.checker import FLAT
from loadtests.conditions import BANK, SAMPLES
from loadtests.flat import MEGABYTE
from loadtests.target import Sample
from loadtests.threads import NOT_FOUND
from tests.unit.chaos_runs import (
    BEGAN_AT,
    EXPECTED,
    SPARED,
    Forged,
    answer,
    card,
    judge,
    look,
    pay,
    rules,
    show,
    soaked,
    tried_enough,
)

SOAK = replace(EXPECTED, spared=SPARED)


@pytest.fixture
def run() -> Forged:
    return tried_enough()


def test_a_run_that_tried_enough_and_broke_nothing_passes(run: Forged) -> None:
    verdict = judge(run)

    assert (verdict.violations, verdict.shortfalls, verdict.excused) == ((), (), ())
    assert verdict.is_passed


def test_without_the_bank_nothing_is_said_to_be_broken_and_nothing_passes(run: Forged) -> None:
    run.happen_again(1)

    verdict = judge(run, is_bank_reached=False)

    assert verdict.violations == ()
    assert [each.condition for each in verdict.shortfalls] == [BANK]
    assert not verdict.is_passed


def test_a_broken_promise_fails_a_run_that_tried_enough(run: Forged) -> None:
    run.happen_again(1)

    verdict = judge(run)

    assert rules(verdict) == {(card(1).interrupt_id, "at most one effect per approval")}
    assert verdict.shortfalls == ()
    assert not verdict.is_passed


def fail_over_after_an_approval(run: Forged, at: float) -> None:
    """Approve, see it done, and lose the thread with a failover."""
    show(run, at, card(9))
    answer(run, at + 1, **pay(run, at + 1.2))
    answer(run, 60, code=NOT_FOUND)


def test_a_thread_that_a_failover_lost_is_excused_and_counted(run: Forged) -> None:
    fail_over_after_an_approval(run, at=47)

    verdict = judge(run)

    assert verdict.violations == ()
    assert {each.approval for each in verdict.excused} == {card(9).interrupt_id}
    assert verdict.is_passed


def test_a_thread_that_was_silent_for_long_before_a_failover_is_not_excused(run: Forged) -> None:
    fail_over_after_an_approval(run, at=35)

    verdict = judge(run)

    assert rules(verdict) == {(card(9).interrupt_id, "nothing acknowledged is lost")}
    assert verdict.excused == ()


def test_an_answer_that_was_sent_before_a_failover_and_is_not_found_has_its_end(run: Forged) -> None:
    show(run, 40, card(9))
    answer(run, 49, is_cut=True)
    answer(run, 60, code=NOT_FOUND)

    verdict = judge(run)

    assert verdict.violations == ()
    assert verdict.excused != ()


def test_no_failover_excuses_a_second_effect(run: Forged) -> None:
    fail_over_after_an_approval(run, at=47)
    pay(run, 48.3)

    assert rules(judge(run)) == {(card(9).interrupt_id, "at most one effect per approval")}


def test_no_failover_excuses_an_effect_after_a_definite_refusal(run: Forged) -> None:
    show(run, 47, card(9))
    answer(run, 48, code="THREAD_BUSY", definite=True)
    pay(run, 48.2)
    look(run, 160, card(9))

    assert ("af-call-9", "a definite refusal has no effect") in rules(judge(run))


def test_no_failover_excuses_an_effect_that_nobody_approved(run: Forged) -> None:
    show(run, 47, card(9))
    pay(run, 51)
    look(run, 160, card(9))

    assert rules(judge(run)) == {(card(9).interrupt_id, "no effect without an approval")}


def test_a_soak_that_uses_no_more_and_more_passes(run: Forged) -> None:
    assert judge(run, SOAK, samples=soaked()).is_passed


def test_a_soak_that_grows_is_broken_and_not_short_of_anything(run: Forged) -> None:
    verdict = judge(run, SOAK, samples=soaked(bytes_a_second=50_000))

    assert [(each.approval, each.rule) for each in verdict.violations] == [("", FLAT)]
    assert verdict.shortfalls == ()


def sampled(at: Sequence[int], memory: Callable[[int], int]) -> list[Sample]:
    """Return samples of four replicas that all have so much memory then; 0 is none."""
    names = [*(f"host-{number}" for number in range(1, 4)), SPARED]
    return [
        Sample(BEGAN_AT + each, {name: memory(each) for name in names if memory(each)}, 40, MEGABYTE) for each in at
    ]


@pytest.mark.parametrize(
    "samples",
    [
        sampled(range(0, 601, 5), lambda at: 100 * MEGABYTE if at < 300 else 0),
        sampled((0, 250, 300, 420, 600), lambda at: (100 + 4 * at) * MEGABYTE),
        sampled(range(0, 601, 5), lambda at: (100 + at % 200) * MEGABYTE),
    ],
    ids=["no memory after half of it", "five samples", "all leak, and none lives longer than 200 s"],
)
def test_a_soak_that_nobody_can_judge_does_not_pass(run: Forged, samples: list[Sample]) -> None:
    verdict = judge(run, SOAK, samples=samples)

    assert {each.condition for each in verdict.shortfalls} == {SAMPLES}
    assert not verdict.is_passed


@pytest.mark.parametrize("lives", [240, 300, 400])
def test_a_leak_is_seen_though_all_replicas_die_of_it(run: Forged, lives: int) -> None:
    verdict = judge(run, SOAK, samples=sampled(range(0, 601, 5), lambda at: (100 + at % lives) * MEGABYTE))

    assert {each.rule for each in verdict.violations} == {FLAT}


def test_a_soak_whose_samples_can_not_tell_is_short_of_them_and_not_broken(run: Forged) -> None:
    verdict = judge(run, SOAK, samples=soaked(bytes_a_second=50_000)[:50])

    assert verdict.violations == ()
    assert [each.condition for each in verdict.shortfalls] == [SAMPLES]


def test_growth_is_seen_without_the_bank_too(run: Forged) -> None:
    verdict = judge(run, SOAK, samples=soaked(bytes_a_second=50_000), is_bank_reached=False)

    assert [each.rule for each in verdict.violations] == [FLAT]
    assert [each.condition for each in verdict.shortfalls] == [BANK]


def test_what_a_run_uses_that_is_no_soak_is_not_judged(run: Forged) -> None:
    assert judge(run, samples=soaked(bytes_a_second=50_000)).is_passed
