"""What a failover explains that may lose acknowledged writes of threads, and what it never does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from loadtests.history import FaultKind, Intent
from loadtests.invariants import judged, violations
from loadtests.threads import EXPIRED, IN_DOUBT, IN_PROGRESS, NOT_FOUND, RUN_FAILED
from loadtests.troubles import UNREPLICATED_SECONDS
from tests.unit.forged import Timed, approval, cancellation, card, chaos_run, rejection, result


@pytest.fixture
def run() -> Timed:
    return chaos_run()


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


def is_not_on_its_page_any_more(run: Timed) -> None:
    run.answer(66.0, 67.0, "lost", approval("pay-6"))
    run.happen(66.5, "pay-6")
    run.send(72.0, 73.0, "lost", intent=Intent.LOOK, page=())


def is_asked_anew(run: Timed) -> None:
    for at, name in ((66.0, "pay-7"), (72.0, "pay-8")):
        run.send(at, at + 1, "lost", run="asked", calls=1, is_paused=True, cards=(card(name),))
    run.answer(74.0, 75.0, "lost", rejection("pay-7"))
    run.answer(76.0, 77.0, "lost", rejection("pay-8"))


LOST = [
    is_gone,
    is_not_shown_any_more,
    is_carried_out_anew,
    is_shown_anew,
    is_in_progress_anew,
    is_said_to_be_expired,
    is_decided_otherwise_without_an_effect,
    is_in_doubt_though_it_is_safe,
    is_not_on_its_page_any_more,
    is_asked_anew,
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


def is_given_another_key(run: Timed) -> None:
    is_carried_out_anew(run)
    run.effects[-1] = replace(run.effects[-1], key="another")


def is_told_as_failed(run: Timed) -> None:
    is_carried_out_anew(run)
    error = replace(result("pay-6"), content="Error: failed.", is_error=True)
    run.send(74.0, 75.0, "lost", approval("pay-6"), results=(error,), is_replay=True)


def is_told_to_a_stranger(run: Timed) -> None:
    run.send(66.0, 67.0, "lost", about=("INV-6",))
    run.send(72.0, 73.0, "lost", scope="mallory", intent=Intent.LOOK, names=("INV-6",))


def is_never_shown_again(run: Timed) -> None:
    run.send(72.0, 73.0, "lost", intent=Intent.LAST, code=RUN_FAILED)


ALWAYS = [
    (happens_twice, "at most one effect per approval"),
    (happens_unasked, "no effect without an approval"),
    (happens_though_rejected, "what was rejected, cancelled or expired has no effect"),
    (is_refused_definitely, "a definite refusal has no effect"),
    (is_told_another_result, "an answered approval has its effect"),
    (is_given_another_key, "a far side is given the approval's own key"),
    (is_told_as_failed, "a definite refusal has no effect"),
    (is_told_to_a_stranger, "a reply speaks of its own thread alone"),
    (is_never_shown_again, "a last look shows the page"),
]


@pytest.mark.parametrize(("violate", "rule"), ALWAYS)
def test_a_failover_excuses_no_effect_nothing_of_others_and_no_page_that_fails(
    run: Timed, violate: Callable[[Timed], None], rule: str
) -> None:
    run.show(64.0, 68.0, "lost", "pay-6")
    run.fail(68.5, 71.0, FaultKind.FAILOVER, "")
    violate(run)

    assert rule in {each.rule for each in violations(run.history, run.effects)}
