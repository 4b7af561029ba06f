"""The rule about the end of every answer: when it is late."""

from __future__ import annotations

from typing import Any

import pytest

from loadtests.history import Began, Phase
from loadtests.in_time import HEARD_SECONDS, IN_TIME
from loadtests.threads import IN_PROGRESS
from tests.unit.chaos_runs import (
    BOUND_SECONDS,
    QUIET,
    Forged,
    answer,
    card,
    judge,
    pay,
    rules,
    show,
    tried_enough,
)

OVER = QUIET + BOUND_SECONDS
"""When every answer of before the last fault has to have its end."""
TOO_LATE = OVER + 5.0
LATE = {(card(9).interrupt_id, IN_TIME)}


@pytest.fixture
def run() -> Forged:
    return tried_enough()


def test_an_answer_that_hosts_still_owed_after_the_bound_came_too_late(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    answer(run, TOO_LATE, code=IN_PROGRESS)
    answer(run, TOO_LATE + 2, **pay(run, 61.2))

    assert rules(judge(run)) == LATE


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


def test_an_end_that_was_asked_for_before_the_bound_and_told_after_it_is_late(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    answer(run, OVER - 20, takes=21, **pay(run, 61.2))

    assert rules(judge(run)) == LATE


def test_an_end_that_is_told_before_the_bound_is_not_late_however_long_it_took(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    answer(run, 62, takes=OVER - 63, **pay(run, 61.2))

    assert judge(run).violations == ()


def test_the_first_who_asks_after_the_bound_waits_as_long_as_a_run_takes(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    answer(run, OVER + 1, takes=20, **pay(run, 61.2))

    assert judge(run).violations == ()


def test_the_first_who_asks_after_the_bound_does_not_wait_for_longer_than_another(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    answer(run, OVER + 1, takes=BOUND_SECONDS + 1, **pay(run, 61.2))

    assert rules(judge(run)) == LATE


def test_two_who_ask_at_once_after_the_bound_and_are_told_are_not_late(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    told = pay(run, 61.2)
    answer(run, OVER + 1, **told)
    answer(run, OVER + 1.1, is_replay=True, **told)

    assert judge(run).violations == ()


@pytest.mark.parametrize("sent_at", [OVER - 5, OVER + 1])
def test_who_was_cut_off_after_the_bound_was_owed_the_end(run: Forged, sent_at: float) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    answer(run, sent_at, is_cut=True, takes=8)
    answer(run, OVER + 30, **pay(run, 61.2))

    assert rules(judge(run)) == LATE


def test_who_is_cut_off_when_somebody_knows_the_end_shows_nothing_about_when_it_came(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    answer(run, OVER + 1, **pay(run, 61.2))
    answer(run, OVER + 2, is_cut=True, takes=8)

    assert judge(run).violations == ()


@pytest.mark.parametrize("sent_at", [OVER - 0.2, OVER + 1, OVER + 2 * HEARD_SECONDS])
def test_who_left_at_once_gave_nobody_the_time_to_tell(run: Forged, sent_at: float) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    answer(run, sent_at, is_cut=True, has_left=True)
    answer(run, sent_at + 2, **pay(run, 61.2))

    assert judge(run).violations == ()


def test_who_left_after_long_was_owed_the_end(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    answer(run, OVER + 1, is_cut=True, has_left=True, takes=HEARD_SECONDS + 1)
    answer(run, OVER + 15, **pay(run, 61.2))

    assert rules(judge(run)) == LATE


def test_a_client_of_whom_no_more_is_known_was_owed_nothing(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, OVER - 5, is_cut=True)
    run.events.pop()
    answer(run, 2 * OVER, **pay(run, OVER - 4))

    assert judge(run).violations == ()


def test_a_host_that_says_after_the_bound_what_it_said_before_it_still_owes_the_end(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    answer(run, OVER - 1, code=IN_PROGRESS)
    answer(run, TOO_LATE, **pay(run, 61.2))

    assert judge(run).violations == ()

    answer(run, TOO_LATE - 1, code=IN_PROGRESS)

    assert rules(judge(run)) == LATE


def test_without_a_quiet_phase_nobody_can_say_what_is_late(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    answer(run, TOO_LATE, code=IN_PROGRESS)
    answer(run, TOO_LATE + 2, **pay(run, 61.2))
    run.events = [each for each in run.events if not (isinstance(each, Began) and each.phase is Phase.QUIET)]

    assert judge(run).violations == ()


@pytest.mark.parametrize(
    ("reply", "told"), [({"code": IN_PROGRESS}, IN_PROGRESS), ({"is_cut": True}, "nothing")], ids=["refused", "cut"]
)
def test_what_is_late_says_by_how_much_and_what_was_told_instead(run: Forged, reply: dict[str, Any], told: str) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    answer(run, TOO_LATE, **reply)
    answer(run, TOO_LATE + 2, **pay(run, 61.2))

    [violation] = judge(run).violations
    assert "had no end after 30 s without a fault, but 7.5 s later: " in violation.what
    assert violation.what.endswith(f" was told {told}")
