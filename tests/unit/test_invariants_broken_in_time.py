"""The invariants where requests overlap and faults have a duration: what nothing explains is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from loadtests.history import FaultKind, Intent
from loadtests.invariants import violations
from loadtests.left_begun import ON_ITS_WAY_SECONDS
from loadtests.threads import CONFLICT, IN_DOUBT, IN_PROGRESS, REQUIRED
from loadtests.troubles import AFTERMATH_SECONDS
from tests.unit import test_invariants_in_time as legal
from tests.unit.forged import Timed, approval, cancellation, card, chaos_run, not_run, rejection


@pytest.fixture
def run() -> Timed:
    return chaos_run()


def pays_twice_what_only_a_replay_told(run: Timed) -> None:
    legal.is_only_known_from_a_replay(run)
    run.happen(30.5, "pay-6")


def asks_the_far_side_again_without_a_reason(run: Timed) -> None:
    run.show(16.0, 17.0, "again", "pay-6")
    run.happen(17.5, "pay-6", calls=2)
    run.answer(17.0, 18.0, "again", approval("pay-6"))


def refuses_a_sibling_definitely_after_the_effect(run: Timed) -> None:
    run.refuse(7.0, 7.5, "moved", rejection("refund-1"), code=CONFLICT, definite=True)


def wires_before_any_request_that_was_not_refused_definitely(run: Timed) -> None:
    legal.is_carried_out_after_a_definite_refusal(run)
    run.effects[-1] = replace(run.effects[-1], at=17.2)


def pays_a_forgery(run: Timed) -> None:
    run.happen(37.2, "pay-9")


def takes_the_decision_of_an_intruder(run: Timed) -> None:
    """Its owner rejects it afterwards, so the effect was caused by somebody else's approval."""
    run.happen(37.8, "pay-5")


def is_in_progress_after_its_answer(run: Timed) -> None:
    run.refuse(36.5, 37.0, "two", approval("refund-4"), code=IN_PROGRESS, intent=Intent.TWICE)


def is_in_doubt_after_its_answer(run: Timed) -> None:
    run.refuse(31.0, 31.5, "thawed", approval("wire-2"), approval("pay-2"), code=IN_DOUBT, intent=Intent.TWICE)


def is_rejected_after_it_expired(run: Timed) -> None:
    run.answer(42.0, 43.0, "late", rejection("pay-3"))


def expires_though_it_was_under_way_in_time(run: Timed) -> None:
    run.refuse(39.0, 39.5, "late", approval("pay-3"), code=IN_PROGRESS)


def shows_a_card_again_in_a_run_that_is_repeated(run: Timed) -> None:
    run.send(37.0, 37.5, "two", intent=Intent.AGAIN, is_replay=True, is_paused=True, cards=(card("refund-4"),))


def demands_an_answer_where_nothing_is_open(run: Timed) -> None:
    run.refuse(40.0, 40.5, "attacked", code=REQUIRED, intent=None)


def wipes_a_card_when_it_is_looked_at(run: Timed) -> None:
    run.send(32.1, 32.9, "two", intent=Intent.LOOK)


def conflicts_with_nothing(run: Timed) -> None:
    run.show(16.0, 17.0, "alone", "pay-6")
    run.refuse(17.0, 17.5, "alone", approval("pay-6"), code=CONFLICT)
    run.answer(19.0, 20.0, "alone", approval("pay-6"))
    run.happen(19.5, "pay-6")


def conflicts_with_what_is_sent_later(run: Timed) -> None:
    run.show(16.0, 17.0, "alone", "pay-6")
    run.refuse(17.0, 17.5, "alone", approval("pay-6"), code=CONFLICT)
    run.answer(19.0, 20.0, "alone", rejection("pay-6"))


def executes_the_edit_that_was_refused(run: Timed) -> None:
    edit = '{"invoice":"pay-6","payee":"Globex"}'
    run.show(16.0, 17.0, "edit", "pay-6")
    run.refuse(17.0, 19.0, "edit", approval("pay-6", arguments=edit), code=CONFLICT)
    run.answer(17.1, 18.0, "edit", approval("pay-6"))
    run.happen(17.5, "pay-6", arguments=edit)


def forgets_what_was_answered(run: Timed) -> None:
    run.show(16.0, 17.0, "gone", "pay-6")
    run.cut(17.0, 18.0, "gone", approval("pay-6"))
    run.send(58.0, 58.5, "gone", intent=Intent.LAST)


def conflicts_with_itself(run: Timed) -> None:
    run.refuse(36.1, 36.5, "two", approval("refund-4"), code=CONFLICT, intent=Intent.TWICE)


def takes_two_decisions_at_once(run: Timed) -> None:
    run.show(16.0, 17.0, "both", "pay-6")
    told = (not_run("pay-6"),)
    run.send(17.0, 19.0, "both", cancellation("pay-6"), results=told, text="done")
    run.send(17.1, 19.1, "both", rejection("pay-6"), results=told, text="done", is_replay=True)


def doubts_without_a_fault_since_the_approval(run: Timed) -> None:
    run.show(100.0, 101.0, "calm", "wire-6")
    run.refuse(102.0, 103.0, "calm", approval("wire-6"), code=IN_DOUBT)


def doubts_because_of_a_fault_that_came_later(run: Timed) -> None:
    run.fail(103.5, 105.0, FaultKind.KILL, run.served_by)
    doubts_without_a_fault_since_the_approval(run)


def doubts_because_of_a_balancer(run: Timed) -> None:
    run.fail(102.1, 102.2, FaultKind.BALANCER_RELOAD, "")
    doubts_without_a_fault_since_the_approval(run)


def doubts_what_was_only_rejected(run: Timed) -> None:
    run.show(5.0, 6.0, "no", "wire-6")
    run.fail(12.0, 12.5, FaultKind.CUT, run.served_by)
    run.refuse(12.0, 13.0, "no", rejection("wire-6"), code=IN_DOUBT)


def doubts_what_is_approved_only_afterwards(run: Timed) -> None:
    run.show(5.0, 6.0, "no", "wire-6")
    run.fail(11.0, 40.0, FaultKind.FREEZE, run.served_by)
    run.refuse(12.0, 13.0, "no", rejection("wire-6"), code=IN_DOUBT)
    run.refuse(20.0, 21.0, "no", approval("wire-6"), code=IN_DOUBT)


def answers_what_was_left_begun(run: Timed) -> None:
    run.answer(17.0, 18.0, "doubt", approval("wire-1"), intent=Intent.AGAIN, is_replay=True)


def wires_what_was_left_begun(run: Timed) -> None:
    first = next(effect for effect in run.effects if effect.tool == "wire")
    run.effects[run.effects.index(first)] = replace(first, at=15.0)


def wires_what_another_kill_left_begun(run: Timed) -> None:
    run.show(5.0, 6.0, "else", "wire-6")
    run.cut(7.0, 8.0, "else", approval("wire-6"))
    run.fail(7.5, 9.0, FaultKind.KILL, elsewhere=(("else", "before-effect"),), step="before-claim", thread="two")
    run.happen(7.6 + ON_ITS_WAY_SECONDS, "wire-6")
    run.refuse(16.0, 17.0, "else", approval("wire-6"), code=IN_DOUBT)


BROKEN = [
    (asks_the_far_side_again_without_a_reason, "pay-6", "a call is made once but after a failure"),
    (pays_twice_what_only_a_replay_told, "pay-6", "at most one effect per approval"),
    (refuses_a_sibling_definitely_after_the_effect, "pay-1", "a definite refusal has no effect"),
    (wires_before_any_request_that_was_not_refused_definitely, "wire-6", "a definite refusal has no effect"),
    (pays_a_forgery, "", "no effect without an approval"),
    (is_in_progress_after_its_answer, "refund-4", "what was decided stays decided"),
    (is_in_doubt_after_its_answer, "wire-2", "what was decided stays decided"),
    (is_rejected_after_it_expired, "pay-3", "what was decided stays decided"),
    (expires_though_it_was_under_way_in_time, "pay-3", "what is under way does not expire"),
    (shows_a_card_again_in_a_run_that_is_repeated, "refund-4", "no pause without an open question"),
    (demands_an_answer_where_nothing_is_open, "pay-5", "no pause without an open question"),
    (wipes_a_card_when_it_is_looked_at, "refund-4", "nothing acknowledged is lost"),
    (conflicts_with_nothing, "pay-6", "a conflict has another decision"),
    (conflicts_with_what_is_sent_later, "pay-6", "a conflict has another decision"),
    (executes_the_edit_that_was_refused, "pay-6", "executed arguments are the approved ones"),
    (forgets_what_was_answered, "pay-6", "nothing acknowledged is lost"),
    (conflicts_with_itself, "refund-4", "a conflict has another decision"),
    (takes_two_decisions_at_once, "pay-6", "a conflicting repeat is refused"),
    (doubts_without_a_fault_since_the_approval, "wire-6", "a doubt has a cause"),
    (doubts_because_of_a_fault_that_came_later, "wire-6", "a doubt has a cause"),
    (doubts_because_of_a_balancer, "wire-6", "a doubt has a cause"),
    (doubts_what_was_only_rejected, "wire-6", "a doubt has a cause"),
    (doubts_what_is_approved_only_afterwards, "wire-6", "a doubt has a cause"),
    (answers_what_was_left_begun, "wire-1", "an unsafe call never runs again after a doubt"),
    (wires_what_was_left_begun, "wire-1", "an unsafe call never runs again after a doubt"),
    (wires_what_another_kill_left_begun, "wire-6", "an unsafe call never runs again after a doubt"),
]


@pytest.mark.parametrize(("violate", "approval", "rule"), BROKEN)
def test_what_nothing_explains_is_named_with_its_approval_and_nothing_else_is(
    run: Timed, violate: Callable[[Timed], None], approval: str, rule: str
) -> None:
    violate(run)

    found = violations(run.history, run.effects)

    assert (approval, rule) in {(each.approval, each.rule) for each in found}, found
    assert {each.rule for each in found} == {rule}, found


def test_an_effect_that_an_intruder_caused_is_one_that_nobody_approved(run: Timed) -> None:
    takes_the_decision_of_an_intruder(run)

    rules = {each.rule for each in violations(run.history, run.effects)}

    assert rules == {"no effect without an approval", "what was rejected, cancelled or expired has no effect"}


def test_a_fault_explains_doubts_only_for_so_long(run: Timed) -> None:
    run.fail(90.0, 95.0, FaultKind.CUT, run.served_by)
    late = 95.0 + AFTERMATH_SECONDS + 1
    run.show(late, late + 1, "after", "wire-6")
    run.refuse(late + 2, late + 3, "after", approval("wire-6"), code=IN_DOUBT)

    assert {each.rule for each in violations(run.history, run.effects)} == {"a doubt has a cause"}
