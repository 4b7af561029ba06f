"""The invariants where requests overlap and faults have a duration: what explains itself breaks no rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from loadtests.history import FaultKind, Intent
from loadtests.invariants import violations
from loadtests.threads import CONFLICT, EXPIRED, IN_DOUBT, IN_PROGRESS, REQUIRED
from tests.unit.forged import Timed, approval, cancellation, card, chaos_run, rejection, result


@pytest.fixture
def run() -> Timed:
    return chaos_run()


def test_a_run_in_which_all_promises_were_kept_breaks_no_rule(run: Timed) -> None:
    assert violations(run.history, run.effects) == []


def looks_while_it_is_carried_out(run: Timed) -> None:
    """The view may be of before: it was asked for before the end was told."""
    run.send(35.5, 37.5, "two", intent=Intent.LOOK, is_paused=True, cards=(card("refund-4"),), open=("refund-4",))


def looks_before_it_is_shown(run: Timed) -> None:
    run.send(30.9, 31.9, "two", intent=Intent.LOOK)


def fails_with_a_tool_that_a_freeze_kept_from_its_far_side(run: Timed) -> None:
    run.show(16.0, 17.0, "failed", "wire-6")
    run.fail(17.2, 17.8, FaultKind.FREEZE, "b")
    error = replace(result("wire-6"), content="Error: nothing was wired.", is_error=True)
    run.served_by = "b"
    run.send(17.0, 18.0, "failed", approval("wire-6"), results=(error,), text="done")


def looks_when_it_is_decided_and_not_over(run: Timed) -> None:
    run.send(33.1, 33.4, "two", intent=Intent.LOOK, open=("refund-4",))


def looks_when_its_time_is_over(run: Timed) -> None:
    run.send(39.0, 40.1, "late", intent=Intent.LOOK, open=("pay-3",))


def is_expired_for_one_who_waits_since(run: Timed) -> None:
    run.refuse(39.9, 40.9, "late", approval("pay-3"), code=IN_PROGRESS)


def is_in_progress_when_its_time_is_over_and_expires(run: Timed) -> None:
    run.refuse(40.1, 40.3, "late", approval("pay-3"), code=IN_PROGRESS)


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
    run.send(20.0, 21.0, "more", code=REQUIRED, intent=None)


def is_in_doubt_while_a_fault_fails_after_it_is_mended(run: Timed) -> None:
    run.show(100.0, 101.0, "after", "wire-6")
    run.fail(90.0, 95.0, FaultKind.CUT, run.served_by)
    run.refuse(102.0, 103.0, "after", approval("wire-6"), code=IN_DOUBT)


def holds_its_siblings_back(run: Timed) -> None:
    run.show(5.0, 6.0, "held", "wire-6", "pay-6")
    run.fail(12.0, 12.5, FaultKind.CUT, run.served_by)
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


def wires_what_was_edited(run: Timed) -> None:
    """It has no key: what it is an effect of is told by the arguments that were approved."""
    edit = '{"invoice":"wire-6","payee":"Globex"}'
    run.show(16.0, 17.0, "edit", "wire-6")
    run.happen(17.5, "wire-6", arguments=edit)
    run.answer(17.0, 18.0, "edit", approval("wire-6", arguments=edit))


def asks_the_far_side_again_when_it_is_killed(run: Timed) -> None:
    run.show(16.0, 17.0, "again", "pay-6")
    run.happen(17.2, "pay-6", calls=2)
    run.cut(17.0, 17.4, "again", approval("pay-6"))
    run.fail(17.3, 20.0, FaultKind.KILL, step="after-effect", thread="again")
    run.answer(18.0, 19.0, "again", approval("pay-6"), intent=Intent.AGAIN, is_replay=True)


LEGAL = [
    looks_while_it_is_carried_out,
    looks_before_it_is_shown,
    fails_with_a_tool_that_a_freeze_kept_from_its_far_side,
    looks_when_it_is_decided_and_not_over,
    looks_when_its_time_is_over,
    is_expired_for_one_who_waits_since,
    is_in_progress_when_its_time_is_over_and_expires,
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
    wires_what_was_edited,
    asks_the_far_side_again_when_it_is_killed,
]


@pytest.mark.parametrize("happen", LEGAL)
def test_what_overlapping_and_failing_explain_breaks_no_rule(run: Timed, happen: Callable[[Timed], None]) -> None:
    happen(run)

    assert violations(run.history, run.effects) == []
