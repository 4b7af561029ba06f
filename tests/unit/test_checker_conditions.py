"""What a chaos run must have done: each condition can be missed alone, and chance misses none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import comb

import pytest

from app.end_texts import REJECTED_TEXT
from loadtests.conditions import (
    APPROVALS,
    BANK,
    CONDITIONS,
    CROSSED,
    EFFECTS,
    FALSE_ALARMS,
    FAULTS,
    HITS,
    INTENTS,
    LOAD,
    PHASES,
    SAMPLES,
    Expected,
    crossed_min,
)
from loadtests.history import Answer, Began, Fault, FaultKind, Intent, Phase, Result
from loadtests.threads import NOT_FOUND
from stores.records import EffectKind, Verdict
from tests.unit.chaos_runs import (
    BEGAN_AT,
    EXPECTED,
    SPARED,
    Forged,
    answer,
    card,
    judge,
    show,
    tried_enough,
)

FORGED = Answer("af-call-nobody-was-shown", Verdict.APPROVE, "{}")


@pytest.fixture
def run() -> Forged:
    return tried_enough()


def asks_for_more_approvals(run: Forged) -> Expected:
    return replace(EXPECTED, approvals_min=4)


def rejects_nearly_all(run: Forged) -> Expected:
    for number in range(4, 9):
        rejected = Answer(card(number).interrupt_id, Verdict.REJECT)
        run.exchange(60 + number, f"thread-{number}", is_paused=True, cards=(card(number),), replica="host-1")
        told = (Result(card(number).call_id, REJECTED_TEXT),)
        run.exchange(61 + number, f"thread-{number}", [rejected], intent=Intent.ANSWER, replica="host-2", results=told)
    return replace(EXPECTED, approvals_min=8)


def has_no_effect_of_a_kind(run: Forged) -> Expected:
    return replace(EXPECTED, kinds=EXPECTED.kinds | {EffectKind.UNSAFE})


def hits_no_resume(run: Forged) -> Expected:
    run.events = [replace(each, is_resume=False) if isinstance(each, Fault) else each for each in run.events]
    return EXPECTED


def stays_where_it_paused(run: Forged) -> Expected:
    stays = tried_enough()
    run.events = [each for each in stays.events if isinstance(each, Fault | Began)]
    run.effects = []
    for number in (1, 2, 3):
        run.approved(10.0 * number, number, ended_on="host-1")
    return EXPECTED


def tells_elsewhere_what_is_replayed(run: Forged) -> Expected:
    expected = stays_where_it_paused(run)
    for number in (4, 5, 6, 7):
        run.approved(10.0 * number + 20, number, is_live=False)
    return expected


def asks_for_more_load(run: Forged) -> Expected:
    return replace(EXPECTED, approvals_per_minute_min=2.0)


def leaves_a_fault_out(run: Forged) -> Expected:
    return replace(EXPECTED, faults=EXPECTED.faults | {FaultKind.FREEZE})


def leaves_a_behaviour_out(run: Forged) -> Expected:
    return replace(EXPECTED, intents=EXPECTED.intents | {Intent.FORGE})


def has_no_answer_to_a_behaviour(run: Forged) -> Expected:
    run.exchange(70, "thread-1", [FORGED], intent=Intent.FORGE, is_cut=True)
    run.exchange(71, "thread-1", [FORGED], intent=Intent.FORGE, code="HTTP 503", status=503)
    return replace(EXPECTED, intents=EXPECTED.intents | {Intent.FORGE})


def does_a_behaviour_too_rarely(run: Forged) -> Expected:
    for at in (70, 71):
        run.exchange(at, "thread-1", [FORGED], intent=Intent.FORGE, code=NOT_FOUND)
    return replace(EXPECTED, intents=EXPECTED.intents | {Intent.FORGE}, intents_min=3)


def never_looks(run: Forged) -> Expected:
    run.events = [each for each in run.events if not (isinstance(each, Began) and each.phase is Phase.LAST_LOOK)]
    return EXPECTED


def soaks_without_a_sample(run: Forged) -> Expected:
    return replace(EXPECTED, spared=SPARED)


SHORT: list[tuple[Callable[[Forged], Expected], str, str]] = [
    (asks_for_more_approvals, APPROVALS, "only 3 "),
    (rejects_nearly_all, EFFECTS, "only 3, of 4"),
    (has_no_effect_of_a_kind, EFFECTS, "only 0 of the kind 'unsafe', of 1"),
    (hits_no_resume, HITS, "only 0 kills"),
    (stays_where_it_paused, CROSSED, "only 0 of 3 "),
    (tells_elsewhere_what_is_replayed, CROSSED, "only 0 of 3 "),
    (asks_for_more_load, LOAD, "only 1.8 "),
    (leaves_a_fault_out, FAULTS, "'freeze'"),
    (leaves_a_behaviour_out, INTENTS, "forge was answered 0 times, of 1"),
    (has_no_answer_to_a_behaviour, INTENTS, "forge was answered 0 times, of 1"),
    (does_a_behaviour_too_rarely, INTENTS, "forge was answered 2 times, of 3"),
    (never_looks, PHASES, "'last look'"),
    (soaks_without_a_sample, SAMPLES, "watched for 0 s"),
]


@pytest.mark.parametrize(("shorten", "condition", "words"), SHORT)
def test_a_run_that_tried_too_little_says_which_condition_it_missed_and_no_other(
    run: Forged, shorten: Callable[[Forged], Expected], condition: str, words: str
) -> None:
    verdict = judge(run, shorten(run))

    [shortfall] = verdict.shortfalls
    assert shortfall.condition == condition
    assert words in shortfall.what
    assert verdict.violations == ()
    assert not verdict.is_passed


def test_every_condition_can_be_missed() -> None:
    assert {condition for _, condition, _ in SHORT} | {BANK} == {*CONDITIONS}


def test_approvals_that_only_expired_are_none_that_were_decided(run: Forged) -> None:
    shown = replace(card(9), expires_at=BEGAN_AT + 90)
    show(run, 60, shown)
    answer(run, 91, code="APPROVAL_RESUME_EXPIRED", definite=True)

    verdict = judge(run, replace(EXPECTED, approvals_min=4))

    assert verdict.counts.ended == 4
    assert [each.condition for each in verdict.shortfalls] == [APPROVALS]


@pytest.mark.parametrize("phase", [Phase.QUIET, Phase.LAST_LOOK, Phase.END])
def test_a_phase_that_never_began_is_missed(run: Forged, phase: Phase) -> None:
    run.events = [each for each in run.events if not (isinstance(each, Began) and each.phase is phase)]

    assert {each.condition for each in judge(run).shortfalls} >= {PHASES}


def test_a_behaviour_is_answered_by_the_code_that_it_is_to_get(run: Forged) -> None:
    run.exchange(70, "thread-1", [FORGED], intent=Intent.FORGE, code=NOT_FOUND)

    assert judge(run, replace(EXPECTED, intents=frozenset({Intent.FORGE}))).is_passed


def of(approvals: int) -> Expected:
    return replace(EXPECTED, approvals_min=approvals)


@pytest.mark.parametrize("live", [60, 250, 650, 1_000, 2_000])
def test_chance_has_no_run_of_even_hosts_fail_more_often_than_once_in_ten_thousand(live: int) -> None:
    too_few = range(crossed_min(live, of(200)))

    assert sum(comb(live, crossed) for crossed in too_few) / 2**live < FALSE_ALARMS


@pytest.mark.parametrize(("live", "crossed", "is_enough"), [(646, 329, True), (646, 65, False), (1_696, 600, False)])
def test_hosts_that_have_most_resumes_stay_are_seen(live: int, crossed: int, is_enough: bool) -> None:
    assert (crossed >= crossed_min(live, of(1_000))) is is_enough


def test_a_few_resumes_that_ended_live_say_nothing_wherever_they_did() -> None:
    assert crossed_min(4, of(1_000)) > 4
    assert crossed_min(4, of(200)) > 4


def test_of_a_large_number_of_resumes_nearly_half_has_to_cross() -> None:
    assert 0.49 < crossed_min(1_000_000, of(1_000)) / 1_000_000 < 0.5
