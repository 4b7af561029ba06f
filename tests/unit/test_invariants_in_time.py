"""The invariants where requests overlap and faults have a duration: what is legal then, and what still is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from loadtests.history import Event, Fault, FaultKind, Intent, Sent
from loadtests.invariants import REPLY_RULES, RULES, judged, violations
from loadtests.left_begun import ON_ITS_WAY_SECONDS
from loadtests.threads import CONFLICT, EXPIRED, IN_DOUBT, IN_PROGRESS, NOT_FOUND, REQUIRED
from loadtests.troubles import AFTERMATH_SECONDS, UNREPLICATED_SECONDS
from tests.unit import test_invariants as simple
from tests.unit.forged import Timed, approval, cancellation, card, chaos_run, rejection, result

DEFINITE_FAILURE = "STORE_UNAVAILABLE"
MIDDLE = ("before-effect", "after-effect", "before-settle")


@pytest.fixture
def run() -> Timed:
    return chaos_run()


def test_a_run_in_which_all_promises_were_kept_breaks_no_rule(run: Timed) -> None:
    assert violations(run.history, run.effects) == []


def looks_while_it_is_carried_out(run: Timed) -> None:
    """The view may be of before: it was asked for before the end was told."""
    run.send(35.5, 37.5, "two", intent=Intent.LOOK, is_paused=True, cards=(card("refund-4"),), open=("refund-4",))


def looks_when_it_is_decided_and_not_over(run: Timed) -> None:
    run.send(33.1, 33.4, "two", intent=Intent.LOOK, open=("refund-4",))


def looks_when_its_time_is_over(run: Timed) -> None:
    run.send(39.0, 40.1, "late", intent=Intent.LOOK, open=("pay-3",))


def is_expired_for_one_who_waits_since(run: Timed) -> None:
    run.refuse(39.9, 40.9, "late", approval("pay-3"), code=IN_PROGRESS)


def is_carried_out_after_a_definite_refusal(run: Timed) -> None:
    run.show(16.0, 17.0, "busy", "wire-6")
    run.refuse(17.0, 17.5, "busy", approval("wire-6"), code="THREAD_BUSY", definite=True)
    run.answer(17.6, 18.0, "busy", approval("wire-6"))
    run.happen(17.8, "wire-6")


def is_refused_definitely_while_the_effect_is_on_its_way(run: Timed) -> None:
    run.show(16.0, 17.0, "busy", "wire-6")
    run.answer(17.0, 19.0, "busy", approval("wire-6"))
    run.refuse(17.1, 18.8, "busy", rejection("wire-6"), code=CONFLICT, definite=True)
    run.happen(17.9, "wire-6")


def is_only_known_from_a_replay(run: Timed) -> None:
    run.show(16.0, 17.0, "cut", "pay-6")
    run.cut(17.0, 17.5, "cut", approval("pay-6"))
    run.happen(30.0, "pay-6")
    run.answer(31.0, 32.0, "cut", approval("pay-6"), intent=Intent.LAST, is_replay=True)


def conflicts_since_its_time_was_over(run: Timed) -> None:
    run.show(16.0, 17.0, "edge", "pay-6", expires_at=20.0)
    run.refuse(19.9, 20.1, "edge", approval("pay-6"), code=CONFLICT)
    run.refuse(20.2, 20.3, "edge", approval("pay-6"), code=EXPIRED)


def may_be_cancelled_once_it_is_stuck(run: Timed) -> None:
    run.show(16.0, 17.0, "stuck", "pay-6")
    run.cut(17.0, 17.5, "stuck", approval("pay-6"))
    run.refuse(18.0, 18.5, "stuck", cancellation("pay-6"), code=CONFLICT)
    run.answer(30.0, 31.0, "stuck", cancellation("pay-6"))


def asks_for_more_than_anybody_was_shown(run: Timed) -> None:
    """The resume of a cut stream went on and paused again."""
    run.show(16.0, 17.0, "more", "pay-6")
    run.answer(17.0, 18.0, "more", rejection("pay-6"))
    run.cut(18.0, 19.0, "more", intent=Intent.ASK)
    run.send(20.0, 21.0, "more", code=REQUIRED)


def is_in_doubt_while_a_fault_fails_after_it_is_mended(run: Timed) -> None:
    run.show(100.0, 101.0, "after", "wire-6")
    run.fail(90.0, 95.0, FaultKind.CUT)
    run.refuse(102.0, 103.0, "after", approval("wire-6"), code=IN_DOUBT)


def holds_its_siblings_back(run: Timed) -> None:
    run.show(5.0, 6.0, "held", "wire-6", "pay-6")
    run.fail(12.0, 12.5, FaultKind.CUT)
    run.refuse(11.0, 13.0, "held", approval("wire-6"), approval("pay-6"), code=IN_DOUBT)


def settles_before_it_is_killed(run: Timed) -> None:
    """It was seen last on its way to settle, and may have come there."""
    run.show(5.0, 6.0, "else", "wire-6")
    run.cut(7.0, 12.5, "else", approval("wire-6"))
    run.happen(12.4, "wire-6")
    run.fail(12.6, 16.0, FaultKind.KILL, elsewhere=(("else", "before-settle"),), step="after-model", thread="other")
    run.answer(17.0, 18.0, "else", approval("wire-6"), intent=Intent.AGAIN, is_replay=True)


def is_killed_in_a_pause_of_two_calls(run: Timed) -> None:
    """Nobody knows which of them was in the middle."""
    run.show(5.0, 6.0, "pair", "wire-6", "wire-7")
    both = (approval("wire-6"), approval("wire-7"))
    run.cut(7.0, 8.0, "pair", *both)
    run.happen(7.5, "wire-6")
    run.fail(7.6, 10.0, FaultKind.KILL, step="before-settle", thread="pair")
    run.happen(11.0, "wire-7")
    run.answer(11.0, 12.0, "pair", *both, intent=Intent.AGAIN, is_replay=True)


def is_told_nothing_by_a_host_that_is_full(run: Timed) -> None:
    for status in (429, 502, 503, 504):
        run.send(10.0, 11.0, "moved", approval("pay-1"), code=f"HTTP {status}", status=status)
        run.send(
            10.0, 11.0, "moved", approval("pay-1"), scope="mallory", code=f"HTTP {status}", status=status, replica=""
        )


LEGAL = [
    looks_while_it_is_carried_out,
    looks_when_it_is_decided_and_not_over,
    looks_when_its_time_is_over,
    is_expired_for_one_who_waits_since,
    is_carried_out_after_a_definite_refusal,
    is_refused_definitely_while_the_effect_is_on_its_way,
    is_only_known_from_a_replay,
    conflicts_since_its_time_was_over,
    may_be_cancelled_once_it_is_stuck,
    asks_for_more_than_anybody_was_shown,
    is_in_doubt_while_a_fault_fails_after_it_is_mended,
    holds_its_siblings_back,
    settles_before_it_is_killed,
    is_killed_in_a_pause_of_two_calls,
    is_told_nothing_by_a_host_that_is_full,
]


@pytest.mark.parametrize("happen", LEGAL)
def test_what_overlapping_and_failing_explain_breaks_no_rule(run: Timed, happen: Callable[[Timed], None]) -> None:
    happen(run)

    assert violations(run.history, run.effects) == []


def pays_twice_what_only_a_replay_told(run: Timed) -> None:
    is_only_known_from_a_replay(run)
    run.happen(30.5, "pay-6")


def replays_what_never_happened(run: Timed) -> None:
    is_only_known_from_a_replay(run)
    run.effects.pop()


def refunds_what_it_said_was_rolled_back(run: Timed) -> None:
    run.show(16.0, 17.0, "failed", "refund-6")
    error = replace(result("refund-6"), content="Error: failed.", is_error=True)
    run.send(17.0, 18.0, "failed", approval("refund-6"), results=(error,))
    run.happen(None, "refund-6")


def refuses_a_sibling_definitely_after_the_effect(run: Timed) -> None:
    run.refuse(7.0, 7.5, "moved", rejection("refund-1"), code=CONFLICT, definite=True)


def wires_before_any_request_that_was_not_refused_definitely(run: Timed) -> None:
    is_carried_out_after_a_definite_refusal(run)
    run.effects[-1] = replace(run.effects[-1], at=17.2)


def tells_a_definite_outage(run: Timed) -> None:
    run.refuse(0.5, 0.9, "moved", code=DEFINITE_FAILURE, definite=True)


def fails_with_http_500(run: Timed) -> None:
    run.send(10.0, 11.0, "moved", code="HTTP 500", status=500)


def answers_with_a_code_that_nobody_knows(run: Timed) -> None:
    run.refuse(10.0, 11.0, "moved", code="INTERNAL_ERROR")


def answers_a_forgery(run: Timed) -> None:
    run.answer(37.0, 37.5, "attacked", rejection("pay-9"), intent=Intent.FORGE)


def knows_a_forgery(run: Timed) -> None:
    run.refuse(37.0, 37.5, "attacked", approval("pay-9"), code=EXPIRED, intent=Intent.FORGE)


def pays_a_forgery(run: Timed) -> None:
    run.happen(37.2, "pay-9")


def tells_an_intruder_that_it_is_busy_with_it(run: Timed) -> None:
    run.refuse(37.0, 37.5, "attacked", approval("pay-5"), code=IN_PROGRESS, scope="mallory", intent=Intent.INTRUDE)


def takes_the_decision_of_an_intruder(run: Timed) -> None:
    """Its owner rejects it afterwards, so the effect was caused by somebody else's approval."""
    run.happen(37.8, "pay-5")


def is_in_progress_after_its_answer(run: Timed) -> None:
    run.refuse(36.5, 37.0, "two", approval("refund-4"), code=IN_PROGRESS, intent=Intent.TWICE)


def is_in_doubt_after_its_answer(run: Timed) -> None:
    run.refuse(31.0, 31.5, "thawed", approval("wire-2"), approval("pay-2"), code=IN_DOUBT, intent=Intent.TWICE)


def is_rejected_after_it_expired(run: Timed) -> None:
    run.answer(42.0, 43.0, "late", rejection("pay-3"))


def shows_a_card_again_in_a_run_that_is_repeated(run: Timed) -> None:
    run.send(37.0, 37.5, "two", intent=Intent.AGAIN, is_replay=True, is_paused=True, cards=(card("refund-4"),))


def wipes_a_card_when_it_is_looked_at(run: Timed) -> None:
    run.send(32.1, 32.9, "two", intent=Intent.LOOK)


def conflicts_with_nothing(run: Timed) -> None:
    run.show(16.0, 17.0, "alone", "pay-6")
    run.refuse(17.0, 17.5, "alone", approval("pay-6"), code=CONFLICT)
    run.answer(19.0, 20.0, "alone", approval("pay-6"))
    run.happen(19.5, "pay-6")


def conflicts_with_itself(run: Timed) -> None:
    run.refuse(36.1, 36.5, "two", approval("refund-4"), code=CONFLICT, intent=Intent.TWICE)


def takes_two_decisions_at_once(run: Timed) -> None:
    run.show(16.0, 17.0, "both", "pay-6")
    run.answer(17.0, 19.0, "both", cancellation("pay-6"))
    run.send(17.1, 19.1, "both", rejection("pay-6"), text="done", is_replay=True)


def doubts_without_a_fault_since_the_approval(run: Timed) -> None:
    run.show(100.0, 101.0, "calm", "wire-6")
    run.refuse(102.0, 103.0, "calm", approval("wire-6"), code=IN_DOUBT)


def doubts_because_of_a_fault_that_came_later(run: Timed) -> None:
    run.fail(103.5, 105.0, FaultKind.KILL)
    doubts_without_a_fault_since_the_approval(run)


def doubts_because_of_a_balancer(run: Timed) -> None:
    run.fail(102.1, 102.2, FaultKind.BALANCER_RELOAD, "")
    doubts_without_a_fault_since_the_approval(run)


def doubts_what_was_only_rejected(run: Timed) -> None:
    run.show(5.0, 6.0, "no", "wire-6")
    run.fail(12.0, 12.5, FaultKind.CUT)
    run.refuse(12.0, 13.0, "no", rejection("wire-6"), code=IN_DOUBT)


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
    (pays_twice_what_only_a_replay_told, "pay-6", "at most one effect per approval"),
    (replays_what_never_happened, "pay-6", "an answered approval has its effect"),
    (refunds_what_it_said_was_rolled_back, "refund-6", "a definite refusal has no effect"),
    (refuses_a_sibling_definitely_after_the_effect, "pay-1", "a definite refusal has no effect"),
    (wires_before_any_request_that_was_not_refused_definitely, "wire-6", "a definite refusal has no effect"),
    (tells_a_definite_outage, "", "every reply is one that clients know"),
    (fails_with_http_500, "", "every reply is one that clients know"),
    (answers_with_a_code_that_nobody_knows, "", "every reply is one that clients know"),
    (answers_a_forgery, "pay-9", "a forged answer is told nothing"),
    (knows_a_forgery, "pay-9", "a forged answer is told nothing"),
    (pays_a_forgery, "", "no effect without an approval"),
    (tells_an_intruder_that_it_is_busy_with_it, "pay-5", "other scopes and threads see nothing"),
    (is_in_progress_after_its_answer, "refund-4", "what was decided stays decided"),
    (is_in_doubt_after_its_answer, "wire-2", "what was decided stays decided"),
    (is_rejected_after_it_expired, "pay-3", "what was decided stays decided"),
    (shows_a_card_again_in_a_run_that_is_repeated, "refund-4", "no pause without an open question"),
    (wipes_a_card_when_it_is_looked_at, "refund-4", "nothing acknowledged is lost"),
    (conflicts_with_nothing, "pay-6", "a conflict has another decision"),
    (conflicts_with_itself, "refund-4", "a conflict has another decision"),
    (takes_two_decisions_at_once, "pay-6", "a conflicting repeat is refused"),
    (doubts_without_a_fault_since_the_approval, "wire-6", "a doubt has a cause"),
    (doubts_because_of_a_fault_that_came_later, "wire-6", "a doubt has a cause"),
    (doubts_because_of_a_balancer, "wire-6", "a doubt has a cause"),
    (doubts_what_was_only_rejected, "wire-6", "a doubt has a cause"),
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
    return event


def is_gone(run: Timed) -> None:
    run.refuse(71.0, 72.0, "lost", approval("pay-6"), code=NOT_FOUND)


def is_not_shown_any_more(run: Timed) -> None:
    run.send(72.0, 73.0, "lost", intent=Intent.LOOK)


def is_carried_out_anew(run: Timed) -> None:
    run.answer(66.0, 67.0, "lost", approval("pay-6"))
    run.happen(66.5, "pay-6")
    run.answer(72.0, 73.0, "lost", approval("pay-6"), intent=Intent.TWICE)


def is_shown_anew(run: Timed) -> None:
    run.answer(66.0, 67.0, "lost", approval("pay-6"))
    run.happen(66.5, "pay-6")
    run.send(72.0, 73.0, "lost", intent=Intent.LOOK, is_paused=True, cards=(card("pay-6"),), open=("pay-6",))


def is_in_progress_anew(run: Timed) -> None:
    run.answer(66.0, 67.0, "lost", approval("pay-6"))
    run.happen(66.5, "pay-6")
    run.refuse(72.0, 73.0, "lost", approval("pay-6"), code=IN_PROGRESS, intent=Intent.TWICE)


def is_said_to_be_expired(run: Timed) -> None:
    run.answer(66.0, 67.0, "lost", approval("pay-6"))
    run.happen(66.5, "pay-6")
    run.refuse(1001.0, 1002.0, "lost", approval("pay-6"), code=EXPIRED, intent=Intent.TWICE)


def is_decided_otherwise_without_an_effect(run: Timed) -> None:
    run.answer(66.0, 67.0, "lost", rejection("pay-6"))
    run.send(72.0, 73.0, "lost", cancellation("pay-6"), text="done", is_replay=True)


def is_in_doubt_though_it_is_safe(run: Timed) -> None:
    run.refuse(72.0, 73.0, "lost", approval("pay-6"), code=IN_DOUBT)


LOST = [
    is_gone,
    is_not_shown_any_more,
    is_carried_out_anew,
    is_shown_anew,
    is_in_progress_anew,
    is_said_to_be_expired,
    is_decided_otherwise_without_an_effect,
    is_in_doubt_though_it_is_safe,
]


@pytest.mark.parametrize("happen", LOST)
def test_a_failover_excuses_what_a_thread_forgets_that_was_active_then(
    run: Timed, happen: Callable[[Timed], None]
) -> None:
    run.show(64.0, 68.0, "lost", "pay-6")
    happen(run)
    without = judged(run.history, run.effects)
    run.fail(68.0 + UNREPLICATED_SECONDS - 0.1, 71.0, FaultKind.FAILOVER, "")
    excused = judged(run.history, run.effects)

    assert without.violations
    assert not without.excused
    assert excused.violations == ()
    assert excused.excused == without.violations


@pytest.mark.parametrize("at", [50.0, 90.0])
def test_a_failover_at_another_time_excuses_nothing(run: Timed, at: float) -> None:
    run.show(64.0, 68.0, "lost", "pay-6")
    is_gone(run)
    run.fail(at, at + 1, FaultKind.FAILOVER, "")

    assert {each.rule for each in violations(run.history, run.effects)} == {"nothing acknowledged is lost"}


def happens_twice(run: Timed) -> None:
    is_carried_out_anew(run)
    run.happen(72.5, "pay-6")


def happens_unasked(run: Timed) -> None:
    is_gone(run)
    run.happen(70.0, "pay-6")


def happens_though_rejected(run: Timed) -> None:
    is_carried_out_anew(run)
    run.answer(74.0, 75.0, "lost", rejection("pay-6"))


def is_refused_definitely(run: Timed) -> None:
    is_in_progress_anew(run)
    run.refuse(73.0, 74.0, "lost", approval("pay-6"), code="APPROVAL_RESUME_STALE", definite=True)


def is_told_another_result(run: Timed) -> None:
    is_carried_out_anew(run)
    run.effects[-1] = replace(run.effects[-1], result="done otherwise")


ALWAYS = [
    (happens_twice, "at most one effect per approval"),
    (happens_unasked, "no effect without an approval"),
    (happens_though_rejected, "what was rejected, cancelled or expired has no effect"),
    (is_refused_definitely, "a definite refusal has no effect"),
    (is_told_another_result, "an answered approval has its effect"),
]


@pytest.mark.parametrize(("violate", "rule"), ALWAYS)
def test_a_failover_excuses_nothing_about_effects(run: Timed, violate: Callable[[Timed], None], rule: str) -> None:
    run.show(64.0, 68.0, "lost", "pay-6")
    run.fail(68.5, 71.0, FaultKind.FAILOVER, "")
    violate(run)

    assert rule in {each.rule for each in violations(run.history, run.effects)}


def test_a_fault_explains_doubts_only_for_so_long(run: Timed) -> None:
    run.fail(90.0, 95.0, FaultKind.CUT)
    late = 95.0 + AFTERMATH_SECONDS + 1
    run.show(late, late + 1, "after", "wire-6")
    run.refuse(late + 2, late + 3, "after", approval("wire-6"), code=IN_DOUBT)

    assert {each.rule for each in violations(run.history, run.effects)} == {"a doubt has a cause"}


def test_every_rule_is_broken_here_or_among_the_simple_histories() -> None:
    assert {rule for _, _, rule in (*BROKEN, *simple.BROKEN)} == {*RULES, *REPLY_RULES}
