"""What is counted of a chaos run, on forged ones whose numbers are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loadtests.counts import OfKind, count
from loadtests.history import Answer, Began, FaultKind, Intent, Phase, Sent
from loadtests.threads import CONFLICT, EXPIRED, IN_DOUBT, IN_PROGRESS, NOT_FOUND
from stores.records import EffectKind, Verdict
from tests.unit.chaos_runs import BEGAN_AT, Forged, approval, card
from tests.unit.counted_runs import counted, done, show

REFUSED: dict[str, Any] = {"code": "HTTP 503", "status": 503}
ONE_DONE = OfKind(approvals=1, approved=1, answered=1, effects=1, in_doubt=0, waiting=0)


def test_nothing_was_counted_where_nothing_happened() -> None:
    nothing = count([], [])

    assert (nothing.requests, nothing.approvals, nothing.resumes, nothing.hits) == (0, 0, 0, 0)
    assert (nothing.load_seconds, nothing.approvals_per_minute, nothing.crossed_share) == (0.0, 0.0, 0.0)


def test_replies_are_counted_by_outcome_code_and_intent() -> None:
    run = Forged()
    run.approved(1, 1)
    run.exchange(5, "thread-1", intent=Intent.LOOK, **REFUSED)
    run.exchange(6, "thread-1", intent=Intent.LOOK, code="THREAD_BUSY", definite=True)
    run.exchange(7, "thread-1", intent=Intent.LOOK, is_cut=True, status=0)
    run.events.append(Sent(BEGAN_AT + 8, "without a reply", "alice", "thread-1", looks=True, intent=Intent.LAST))

    counts = counted(run)

    assert counts.requests == 7
    assert counts.outcomes == {"ok": 3, "info": 1, "fail": 1, "cut": 2}
    assert counts.codes == {"HTTP 503": 1, "THREAD_BUSY": 1}
    assert counts.intents == {"ask": 1, "answer": 1, "twice": 1, "look": 3, "last": 1}
    assert counts.replays == 1


@pytest.mark.parametrize(
    ("intent", "reply", "is_answer"),
    [
        (Intent.FORGE, {"code": NOT_FOUND}, True),
        (Intent.LATE, {"code": EXPIRED, "definite": True}, True),
        (Intent.CONFLICT, {"code": CONFLICT}, True),
        (Intent.AGAIN, {"code": IN_DOUBT}, True),
        (Intent.TWICE, {"is_replay": True}, True),
        (Intent.TWICE, {"code": NOT_FOUND}, False),
        (Intent.FORGE, {"code": "RUN_FAILED"}, False),
        (Intent.FORGE, REFUSED, False),
        (Intent.ELSEWHERE, {"code": IN_PROGRESS}, False),
        (Intent.ELSEWHERE, {"is_cut": True}, False),
    ],
)
def test_a_request_is_answered_by_an_end_or_by_the_code_that_it_is_to_get(
    intent: Intent, reply: dict[str, Any], is_answer: bool
) -> None:
    run = Forged()
    show(run, 1, 1)
    run.exchange(2, "thread-1", [approval(1)], intent=intent, **reply)

    counts = counted(run)

    assert counts.intents[intent] == 1
    assert counts.answered == {"ask": 1} | ({intent.value: 1} if is_answer else {})


def test_an_approval_is_counted_once_however_often_it_was_answered() -> None:
    run = Forged()
    run.approved(1, 1)

    counts = counted(run)

    assert (counts.approvals, counts.ended, counts.verdicts) == (1, 1, {"approve": 1})
    assert counts.kinds == {"idempotent": ONE_DONE}


@pytest.mark.parametrize("verdict", [Verdict.REJECT, Verdict.CANCEL])
def test_what_was_turned_down_ended_without_having_been_approved(verdict: Verdict) -> None:
    run = Forged()
    show(run, 1, 1)
    run.exchange(2, "thread-1", [Answer(card(1).interrupt_id, verdict)], intent=Intent.ANSWER)

    counts = counted(run)

    assert counts.verdicts == {verdict.value: 1}
    assert counts.kinds == {"idempotent": replace(ONE_DONE, approved=0, answered=0, effects=0)}


def test_what_expired_ended_though_nobody_was_answered() -> None:
    run = Forged()
    show(run, 1, 1)
    run.exchange(2, "thread-1", [approval(1)], intent=Intent.LATE, code=EXPIRED, definite=True)

    counts = counted(run)

    assert (counts.ended, counts.verdicts, counts.resumes) == (1, {"expired": 1}, 0)


def test_what_only_waits_is_shown_and_has_no_end() -> None:
    run = Forged()
    show(run, 1, 1)

    counts = counted(run)

    assert (counts.approvals, counts.ended, counts.verdicts) == (1, 0, {})


def test_what_a_doubt_holds_back_waits_and_is_not_in_doubt() -> None:
    run = Forged()
    wire = replace(card(2), kind=EffectKind.UNSAFE, tool="wire_transfer")
    other = replace(card(3), kind=EffectKind.UNSAFE, tool="wire_transfer")
    run.exchange(1, "thread-1", is_paused=True, cards=(card(1), wire, other))
    decisions = [approval(1), approval(2), Answer(other.interrupt_id, Verdict.REJECT)]
    run.exchange(2, "thread-1", decisions, intent=Intent.ANSWER, code=IN_DOUBT)

    counts = counted(run)

    assert (counts.in_doubt, counts.waiting, counts.ended) == (1, 2, 0)
    assert counts.kinds["idempotent"] == OfKind(1, 1, 0, 0, in_doubt=0, waiting=1)
    assert counts.kinds["unsafe"] == OfKind(2, 1, 0, 0, in_doubt=1, waiting=1)


def test_a_doubt_that_ended_by_itself_is_none_any_more() -> None:
    run = Forged()
    show(run, 1, 1, kind=EffectKind.UNSAFE)
    run.exchange(2, "thread-1", [approval(1)], intent=Intent.ANSWER, code=IN_DOUBT)
    run.exchange(9, "thread-1", [approval(1)], intent=Intent.AGAIN, **done(1))

    counts = counted(run)

    assert (counts.in_doubt, counts.ended, counts.resumes) == (0, 1, 1)


def test_a_second_effect_is_in_the_count() -> None:
    run = Forged()
    run.approved(1, 1)
    run.happen_again(1)

    assert counted(run).kinds["idempotent"].effects == 2


def test_an_effect_that_belongs_to_no_approval_is_in_the_count_of_its_kind() -> None:
    run = Forged()
    run.approved(1, 1)
    run.effects.append(replace(run.effects[0], key="af-call-unknown"))

    assert counted(run).kinds["idempotent"].effects == 2


def test_the_rate_is_of_what_ended_under_load_alone() -> None:
    run = Forged()
    run.approved(10, 1)
    run.approved(20, 2)
    run.approved(130, 3)
    run.events.append(Began(BEGAN_AT + 120, Phase.QUIET))

    counts = counted(run)

    assert counts.load_seconds == 120
    assert counts.approvals_per_minute == pytest.approx(1.0)
    assert counts.ended == 3


def test_kills_that_hit_a_resume_are_hits_and_other_faults_are_not() -> None:
    run = Forged()
    run.fault(1, FaultKind.KILL, is_resume=True)
    run.fault(2, FaultKind.KILL)
    run.fault(3, FaultKind.FREEZE, is_resume=True)
    run.fault(4, FaultKind.SLOW_STORE, "")

    counts = counted(run)

    assert counts.faults == {"kill": 2, "freeze": 1, "slow store": 1}
    assert counts.hits == 1


def test_times_are_from_the_post_to_what_came_of_it() -> None:
    run = Forged()
    run.exchange(1, "thread-1", is_paused=True, cards=(card(1),), takes=2)
    run.exchange(4, "thread-1", [approval(1)], intent=Intent.ANSWER, takes=3, **done(1))

    counts = counted(run)

    assert counts.first_event_seconds == pytest.approx((1.0, 1.5))
    assert counts.interrupt_seconds == pytest.approx((2.0,))
    assert counts.finish_seconds == pytest.approx((3.0,))


def test_a_replay_a_look_and_a_refusal_are_no_run_that_was_timed() -> None:
    run = Forged()
    show(run, 1, 1)
    run.exchange(2, "thread-1", intent=Intent.LOOK, is_paused=True, cards=(card(1),), takes=2)
    run.exchange(4, "thread-1", [approval(1)], intent=Intent.TWICE, is_replay=True, takes=3, **done(1))
    run.exchange(8, "thread-1", [approval(1)], intent=Intent.AGAIN, takes=4, **REFUSED)

    counts = counted(run)

    assert counts.interrupt_seconds == pytest.approx((0.5,))
    assert counts.finish_seconds == ()


@pytest.mark.parametrize("kind", [FaultKind.KILL, FaultKind.FREEZE])
def test_recovery_lasts_from_the_fault_until_a_client_is_told_the_end_of_the_pause_it_hit(kind: FaultKind) -> None:
    run = Forged()
    show(run, 1, 1)
    run.exchange(5, "thread-1", [approval(1)], intent=Intent.ANSWER, is_cut=True)
    run.fault(5.25, kind, is_resume=True, thread="thread-1")
    run.exchange(9, "thread-1", [approval(1)], intent=Intent.AGAIN, **done(1))
    run.exchange(12, "thread-1", [approval(1)], intent=Intent.TWICE, is_replay=True, **done(1))

    assert counted(run).recovery_seconds == pytest.approx((4.25,))


def test_recovery_is_not_measured_where_the_pause_was_over_or_never_ended_or_no_resume_was_hit() -> None:
    run = Forged()
    run.approved(1, 1)
    run.fault(5, FaultKind.KILL, is_resume=True, thread="thread-1")
    show(run, 6, 2)
    run.exchange(7, "thread-2", [approval(2)], intent=Intent.ANSWER, is_cut=True)
    run.fault(7.2, FaultKind.KILL, is_resume=True, thread="thread-2")
    show(run, 8, 3)
    run.fault(8.7, FaultKind.KILL, thread="thread-3")
    run.exchange(8.6, "thread-3", [approval(3)], intent=Intent.ANSWER, **done(3))

    assert counted(run).recovery_seconds == ()
