"""Rules about which decision counts, where more than one was sent, or the same one was refused again and again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loadtests.history import FaultKind, Intent
from loadtests.invariants import violations
from loadtests.threads import CONFLICT, EXPIRED, IN_PROGRESS
from tests.unit.forged import Timed, approval, chaos_run, rejection

EDITED = '{"invoice":"edited"}'


@pytest.fixture
def run() -> Timed:
    """A run in which every promise was kept, and a card that waits."""
    run = chaos_run()
    run.show(16.0, 17.0, "claimed", "pay-6", expires_at=100.0)
    return run


def expires(run: Timed, at: float = 101.0) -> None:
    run.refuse(at, at + 0.5, "claimed", approval("pay-6"), code=EXPIRED, intent=Intent.LATE, definite=True)


def is_told_twice_that_it_expired(run: Timed) -> None:
    expires(run)
    expires(run, at=102.0)


def conflicts_with_what_somebody_else_had_sent(run: Timed) -> None:
    run.cut(18.0, 19.0, "claimed", rejection("pay-6"))
    run.refuse(18.5, 19.5, "claimed", approval("pay-6"), code=CONFLICT)
    run.answer(20.0, 21.0, "claimed", rejection("pay-6"), intent=Intent.AGAIN, is_replay=True)


def expires_for_one_who_had_asked_before_another_was_under_way(run: Timed) -> None:
    run.refuse(98.0, 101.0, "claimed", approval("pay-6"), code=EXPIRED)
    run.refuse(98.5, 99.0, "claimed", approval("pay-6"), code=IN_PROGRESS)


def is_approved_in_two_ways_at_once(run: Timed) -> None:
    """The one that was taken is executed."""
    run.refuse(18.0, 19.0, "claimed", approval("pay-6"), code=CONFLICT)
    run.answer(18.1, 20.0, "claimed", approval("pay-6", arguments=EDITED))
    run.happen(18.5, "pay-6", arguments=EDITED)


@pytest.mark.parametrize(
    "happen",
    [
        is_told_twice_that_it_expired,
        conflicts_with_what_somebody_else_had_sent,
        expires_for_one_who_had_asked_before_another_was_under_way,
        is_approved_in_two_ways_at_once,
    ],
)
def test_who_lost_against_another_decision_or_came_too_late_is_told_so(
    run: Timed, happen: Callable[[Timed], None]
) -> None:
    happen(run)

    assert violations(run.history, run.effects) == []


def is_executed_as_the_other_device_had_approved_it(run: Timed) -> None:
    is_approved_in_two_ways_at_once(run)
    run.effects.pop()
    run.happen(18.5, "pay-6")


def is_executed_as_nobody_had_approved_it(run: Timed) -> None:
    run.cut(18.0, 19.0, "claimed", approval("pay-6"))
    run.happen(18.5, "pay-6", arguments=EDITED)
    run.send(101.0, 102.0, "claimed", intent=Intent.LAST)


def conflicts_with_nothing_and_is_never_answered(run: Timed) -> None:
    run.refuse(18.0, 19.0, "claimed", approval("pay-6"), code=CONFLICT)
    expires(run)


def conflicts_with_what_came_later(run: Timed) -> None:
    run.refuse(18.0, 19.0, "claimed", approval("pay-6"), code=CONFLICT)
    run.answer(20.0, 21.0, "claimed", rejection("pay-6"))


def is_neither_open_nor_ended_when_it_is_looked_at_last(run: Timed) -> None:
    run.cut(18.0, 19.0, "claimed", approval("pay-6"))
    run.send(30.0, 31.0, "claimed", intent=Intent.LAST)


@pytest.mark.parametrize(
    ("violate", "rule"),
    [
        (is_neither_open_nor_ended_when_it_is_looked_at_last, "nothing acknowledged is lost"),
        (is_executed_as_the_other_device_had_approved_it, "executed arguments are the approved ones"),
        (is_executed_as_nobody_had_approved_it, "executed arguments are the approved ones"),
        (conflicts_with_nothing_and_is_never_answered, "a conflict has another decision"),
        (conflicts_with_what_came_later, "a conflict has another decision"),
    ],
)
def test_one_decision_counts_and_no_reply_says_otherwise(
    run: Timed, violate: Callable[[Timed], None], rule: str
) -> None:
    violate(run)

    found = [(each.approval, each.rule) for each in violations(run.history, run.effects)]

    assert found == [("pay-6", rule)]


@pytest.mark.parametrize(
    ("step", "hit_at", "had_begun"),
    [
        ("before-claim", 19.0, False),
        ("after-reserve", 19.0, False),
        ("after-claim", 19.0, True),
        ("before-effect", 19.0, True),
        ("after-claim", 100.5, False),
    ],
)
def test_a_decision_whose_run_was_hit_when_it_had_its_claim_was_recorded_and_does_not_expire(
    run: Timed, step: str, hit_at: float, had_begun: bool
) -> None:
    run.cut(18.0, 19.5, "claimed", approval("pay-6"))
    run.fail(hit_at, hit_at + 2.0, FaultKind.KILL, step=step, thread="claimed")
    expires(run)

    expected = ["what is under way does not expire"] if had_begun else []
    assert [each.rule for each in violations(run.history, run.effects)] == expected


@pytest.mark.parametrize("is_killed", [True, False])
def test_what_was_under_way_in_time_expires_only_if_its_replica_failed(run: Timed, is_killed: bool) -> None:
    run.refuse(18.5, 19.0, "claimed", approval("pay-6"), code=IN_PROGRESS)
    if is_killed:
        run.fail(19.2, 22.0, FaultKind.KILL, step="before-claim", thread="claimed")
    expires(run)

    expected = [] if is_killed else ["what is under way does not expire"]
    assert [each.rule for each in violations(run.history, run.effects)] == expected
