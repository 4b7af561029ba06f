"""What a kill at a known step says of the call that it hit, and when it says nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadtests.history import Event, Fault, FaultKind, Intent, Replied, Sent
from loadtests.invariants import violations
from loadtests.threads import IN_DOUBT, NOT_FOUND, RUN_FAILED
from tests.unit.forged import Timed, approval, card, chaos_run, not_run, rejection, result

MIDDLE = ("before-effect", "after-effect", "before-settle")


@pytest.fixture
def run() -> Timed:
    return chaos_run()


def answers_what_was_left_begun(run: Timed) -> None:
    run.answer(17.0, 18.0, "doubt", approval("wire-1"), intent=Intent.AGAIN, is_replay=True)


@pytest.mark.parametrize("step", MIDDLE)
def test_a_kill_between_begin_and_settle_leaves_the_call_begun(run: Timed, step: str) -> None:
    answers_what_was_left_begun(run)
    aimed = next(event for event in run.events if isinstance(event, Fault) and event.thread == "doubt")
    run.events[run.events.index(aimed)] = replace(aimed, step=step)

    assert [each.approval for each in violations(run.history, run.effects)] == ["wire-1"]


@pytest.mark.parametrize("step", ["before-begin", "after-begin", "after-settle"])
def test_a_kill_at_any_other_step_proves_nothing(run: Timed, step: str) -> None:
    answers_what_was_left_begun(run)
    aimed = next(event for event in run.events if isinstance(event, Fault) and event.thread == "doubt")
    run.events[run.events.index(aimed)] = replace(aimed, step=step)
    # Nor is there a doubt then, where one call alone was approved.
    doubt = next(event for event in run.events if isinstance(event, Replied) and event.code == IN_DOUBT)
    run.events[run.events.index(doubt)] = replace(doubt, code=RUN_FAILED)

    assert violations(run.history, run.effects) == []


def test_a_pause_that_was_over_before_the_kill_was_not_hit_by_it(run: Timed) -> None:
    run.show(5.0, 6.0, "doubt", "pay-6")
    run.answer(7.0, 8.0, "doubt", rejection("pay-6"))
    run.cut(6.5, 7.5, "doubt", approval("pay-6"))
    answers_what_was_left_begun(run)

    assert {each.approval for each in violations(run.history, run.effects)} == {"wire-1"}


def test_what_was_approved_after_the_kill_was_not_hit_by_it(run: Timed) -> None:
    answers_what_was_left_begun(run)
    run.show(18.5, 19.0, "doubt", "pay-6")
    run.answer(19.5, 20.0, "doubt", approval("pay-6"))
    run.happen(19.7, "pay-6")

    assert {each.approval for each in violations(run.history, run.effects)} == {"wire-1"}


def test_an_intruder_in_a_thread_of_the_same_name_hides_nothing(run: Timed) -> None:
    run.refuse(12.0, 12.2, "doubt", approval("wire-1"), code=NOT_FOUND, intent=Intent.INTRUDE, scope="mallory")
    answers_what_was_left_begun(run)

    assert {each.approval for each in violations(run.history, run.effects)} == {"wire-1"}


def test_of_two_threads_of_one_name_nobody_knows_which_was_hit(run: Timed) -> None:
    run.send(10.5, 11.5, "doubt", scope="bob", is_paused=True, cards=(card("pay-6"),), open=("pay-6",))
    run.send(12.0, 13.0, "doubt", rejection("pay-6"), scope="bob", results=(not_run("pay-6"),))
    answers_what_was_left_begun(run)

    assert violations(run.history, run.effects) == []


def test_what_a_killed_replica_had_sent_may_still_arrive(run: Timed) -> None:
    run.show(5.0, 6.0, "else", "wire-6")
    run.cut(7.0, 8.0, "else", approval("wire-6"))
    run.fail(7.5, 9.0, FaultKind.KILL, elsewhere=(("else", "before-effect"),), step="before-claim", thread="two")
    run.happen(7.6, "wire-6")
    run.refuse(16.0, 17.0, "else", approval("wire-6"), code=IN_DOUBT)

    assert violations(run.history, run.effects) == []


def test_a_freeze_in_the_middle_leaves_nothing_begun_for_good(run: Timed) -> None:
    # "thawed" is frozen before its effect, which comes late and is answered: that is legal, and this is why.
    frozen = next(event for event in run.events if isinstance(event, Fault) and event.thread == "thawed")
    run.events = [_without_sibling(event) for event in run.events]
    run.effects = [effect for effect in run.effects if effect.key != "pay-2"]
    assert violations(run.history, run.effects) == []

    run.events[run.events.index(frozen)] = replace(frozen, kind=FaultKind.KILL)
    rules = {each.rule for each in violations(run.history, run.effects)}
    assert rules == {"an unsafe call never runs again after a doubt"}


def _without_sibling(event: Event) -> Event:
    """Let the pause of "thawed" have one approved call alone, of which alone it is known how far it was."""
    if isinstance(event, Sent) and event.thread == "thawed" and event.answers:
        return replace(event, answers=(event.answers[0], rejection("pay-2")))
    if isinstance(event, Replied):
        results = (not_run("pay-2") if each == result("pay-2") else each for each in event.results)
        return replace(event, results=tuple(results))
    return event
