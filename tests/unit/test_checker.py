"""The checker, on forged chaos runs: a clean one passes, and whatever is missing or broken is named alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from loadtests.checker import (
    APPROVALS,
    BANK,
    CONDITIONS,
    CROSSED,
    FAULTS,
    HITS,
    IN_TIME,
    INTENTS,
    LOAD,
    PHASES,
    Expected,
    Verdict,
    check,
)
from loadtests.history import Answer, Began, Card, Fault, FaultKind, Intent, Phase, Result
from loadtests.threads import CONFLICT, IN_DOUBT, IN_PROGRESS, NOT_FOUND
from stores.records import EffectKind
from stores.records import Verdict as Decision
from tests.unit.chaos_runs import BEGAN_AT, Forged, approval, card

QUIET, BOUND_SECONDS, END = 100.0, 30.0, 200.0
"""When the last fault is over, the bound that holds from there, and the end; in seconds since the run began."""
TOO_LATE = QUIET + BOUND_SECONDS + 5.0
EXPECTED = Expected(
    approvals_min=3,
    hits_min=1,
    approvals_per_minute_min=1.0,
    bound_seconds=BOUND_SECONDS,
    faults=frozenset({FaultKind.KILL, FaultKind.FAILOVER}),
    intents=frozenset({Intent.ASK, Intent.ANSWER, Intent.TWICE}),
)
OTHER = Answer(card(9).interrupt_id, Decision.REJECT)


@pytest.fixture
def run() -> Forged:
    """Three approvals that moved to another replica, a kill that hit a resume, a failover that hit no thread."""
    made = Forged()
    for number in (1, 2, 3):
        made.approved(10.0 * number, number)
    made.fault(11.2, FaultKind.KILL, "host-1", is_resume=True, thread="thread-1", step="before-effect")
    made.fault(50, FaultKind.FAILOVER, "", lasts=2)
    for at, phase in ((QUIET, Phase.QUIET), (150.0, Phase.LAST_LOOK), (END, Phase.END)):
        made.events.append(Began(BEGAN_AT + at, phase))
    return made


def judge(run: Forged, expected: Expected = EXPECTED, *, is_bank_reached: bool = True) -> Verdict:
    return check(run.history, run.effects, expected, is_bank_reached=is_bank_reached)


def rules(verdict: Verdict) -> set[tuple[str, str]]:
    return {(each.approval, each.rule) for each in verdict.violations}


def show(run: Forged, at: float, *cards: Card, thread: str = "thread-9") -> None:
    """Show cards in a thread, which host-1 does."""
    names = tuple(each.interrupt_id for each in cards)
    run.exchange(at, thread, is_paused=True, cards=cards, open=names, replica="host-1")


def look(run: Forged, at: float, *cards: Card) -> None:
    """Look at the thread: these wait."""
    names = tuple(each.interrupt_id for each in cards)
    run.exchange(at, "thread-9", intent=Intent.LAST, is_paused=bool(cards), cards=cards, open=names)


def answer(run: Forged, at: float, *answers: Answer, **reply: object) -> None:
    """Send decisions about the thread, and get this reply from host-2."""
    run.exchange(at, "thread-9", answers or (approval(9),), intent=Intent.ANSWER, **{"replica": "host-2", **reply})


def pay(run: Forged, at: float) -> dict[str, object]:
    """Let the bank count the payment, and return the reply that tells of it."""
    first = next(each for each in run.effects if each.key == card(1).interrupt_id)
    told = "Paid INV-9."
    run.effects.append(
        replace(first, key=card(9).interrupt_id, arguments=card(9).arguments, result=told, at=BEGAN_AT + at)
    )
    return {"results": (Result(card(9).call_id, told),), "text": "done"}


def test_a_run_that_tried_enough_and_broke_nothing_passes(run: Forged) -> None:
    verdict = judge(run)

    assert (verdict.violations, verdict.shortfalls, verdict.excused) == ((), (), ())
    assert verdict.is_passed


def asks_for_more_approvals(run: Forged) -> Expected:
    return replace(EXPECTED, approvals_min=4)


def hits_no_resume(run: Forged) -> Expected:
    run.events = [replace(each, is_resume=False) if isinstance(each, Fault) else each for each in run.events]
    return EXPECTED


def stays_where_it_paused(run: Forged) -> Expected:
    for number in (4, 5, 6, 7):
        run.approved(10.0 * number, number, ended_on="host-1")
    return EXPECTED


def asks_for_more_load(run: Forged) -> Expected:
    return replace(EXPECTED, approvals_per_minute_min=2.0)


def leaves_a_fault_out(run: Forged) -> Expected:
    return replace(EXPECTED, faults=EXPECTED.faults | {FaultKind.FREEZE})


def leaves_a_behaviour_out(run: Forged) -> Expected:
    return replace(EXPECTED, intents=EXPECTED.intents | {Intent.FORGE})


def never_looks(run: Forged) -> Expected:
    run.events = [each for each in run.events if not (isinstance(each, Began) and each.phase is Phase.LAST_LOOK)]
    return EXPECTED


SHORT: list[tuple[Callable[[Forged], Expected], str, str]] = [
    (asks_for_more_approvals, APPROVALS, "only 3 "),
    (hits_no_resume, HITS, "only 0 kills"),
    (stays_where_it_paused, CROSSED, "only 42.9 % "),
    (asks_for_more_load, LOAD, "only 1.8 "),
    (leaves_a_fault_out, FAULTS, "'freeze'"),
    (leaves_a_behaviour_out, INTENTS, "forge"),
    (never_looks, PHASES, "'last look'"),
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


@pytest.mark.parametrize("phase", [Phase.QUIET, Phase.LAST_LOOK, Phase.END])
def test_a_phase_that_never_began_is_missed(run: Forged, phase: Phase) -> None:
    run.events = [each for each in run.events if not (isinstance(each, Began) and each.phase is phase)]

    assert {each.condition for each in judge(run).shortfalls} >= {PHASES}


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


def test_approvals_that_only_expired_are_none_that_were_decided(run: Forged) -> None:
    shown = replace(card(9), expires_at=BEGAN_AT + 90)
    show(run, 60, shown)
    answer(run, 91, code="APPROVAL_RESUME_EXPIRED", definite=True)

    verdict = judge(run, replace(EXPECTED, approvals_min=4))

    assert verdict.counts.ended == 4
    assert [each.condition for each in verdict.shortfalls] == [APPROVALS]


def test_an_answer_whose_end_nobody_was_ever_told_is_lost(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    answer(run, 110, code=IN_PROGRESS)
    look(run, 160, card(9))

    assert rules(judge(run)) == {(card(9).interrupt_id, IN_TIME)}


def test_an_answer_that_hosts_still_owed_after_the_bound_came_too_late(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    answer(run, TOO_LATE, code=IN_PROGRESS)
    answer(run, TOO_LATE + 2, **pay(run, 61.2))

    assert rules(judge(run)) == {(card(9).interrupt_id, IN_TIME)}


def test_an_answer_that_nobody_asked_for_in_time_is_not_late(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    answer(run, TOO_LATE, **pay(run, 61.2))

    assert judge(run).violations == ()


def test_an_answer_of_the_last_look_has_the_same_time_as_any_other(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, TOO_LATE, is_cut=True)
    answer(run, TOO_LATE + BOUND_SECONDS - 1, code=IN_PROGRESS)
    answer(run, TOO_LATE + BOUND_SECONDS + 1, **pay(run, TOO_LATE + 0.1))

    assert judge(run).violations == ()


def test_who_was_refused_for_a_conflict_waits_for_no_answer(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, **pay(run, 61.2))
    answer(run, TOO_LATE, OTHER, code=CONFLICT, definite=False)

    assert judge(run).violations == ()


def test_a_doubt_is_an_end_of_its_call_and_of_those_that_it_holds_back(run: Forged) -> None:
    wire = replace(card(8), tool="wire_transfer", kind=EffectKind.UNSAFE)
    show(run, 60, wire, card(9))
    both = (approval(8), approval(9))
    answer(run, 61, *both, is_cut=True)
    run.fault(61.2, FaultKind.KILL)
    answer(run, 70, *both, code=IN_DOUBT)

    verdict = judge(run)

    assert verdict.violations == ()
    assert (verdict.counts.in_doubt, verdict.counts.waiting) == (1, 1)


def test_a_doubt_may_end_by_itself_when_a_thawed_replica_settles_late(run: Forged) -> None:
    wire = replace(card(9), tool="wire_transfer", kind=EffectKind.UNSAFE)
    show(run, 60, wire)
    run.fault(60.5, FaultKind.FREEZE, lasts=8)
    answer(run, 61, is_cut=True)
    answer(run, 66, code=IN_DOUBT)
    told = pay(run, 69)
    run.effects[-1] = replace(run.effects[-1], tool=wire.tool, key=None)
    answer(run, 75, **told)

    verdict = judge(run)

    assert verdict.violations == ()
    assert verdict.counts.in_doubt == 0


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
    pay(run, 61)

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
