"""The rule about the end of every answer: that there is one, and when it is late."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadtests.history import Answer, FaultKind
from loadtests.in_time import HEARD_SECONDS, IN_TIME
from loadtests.threads import CONFLICT, IN_DOUBT, IN_PROGRESS
from stores.records import EffectKind
from stores.records import Verdict as Decision
from tests.unit.chaos_runs import (
    BOUND_SECONDS,
    QUIET,
    Forged,
    answer,
    approval,
    card,
    judge,
    look,
    pay,
    rules,
    show,
    tried_enough,
)

OVER = QUIET + BOUND_SECONDS
"""When every answer of before the last fault has to have its end."""
TOO_LATE = OVER + 5.0
OTHER = Answer(card(9).interrupt_id, Decision.REJECT)
LATE = {(card(9).interrupt_id, IN_TIME)}


@pytest.fixture
def run() -> Forged:
    return tried_enough()


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
    run.fault(61.2, FaultKind.KILL, "host-2")
    answer(run, 70, *both, code=IN_DOUBT)

    verdict = judge(run)

    assert verdict.violations == ()
    assert (verdict.counts.in_doubt, verdict.counts.waiting) == (1, 1)


def test_a_doubt_may_end_by_itself_when_a_thawed_replica_settles_late(run: Forged) -> None:
    wire = replace(card(9), tool="wire_transfer", kind=EffectKind.UNSAFE)
    show(run, 60, wire)
    run.fault(60.5, FaultKind.FREEZE, "host-2", lasts=8)
    answer(run, 61, is_cut=True)
    answer(run, 66, code=IN_DOUBT)
    told = pay(run, 69)
    run.effects[-1] = replace(run.effects[-1], tool=wire.tool, key=None)
    answer(run, 75, **told)

    verdict = judge(run)

    assert verdict.violations == ()
    assert verdict.counts.in_doubt == 0


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


def test_who_left_at_once_gave_nobody_the_time_to_tell(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    answer(run, OVER + 1, is_cut=True, has_left=True)
    answer(run, OVER + 3, **pay(run, 61.2))

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


def test_decisions_that_all_conflict_have_no_end(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, code=CONFLICT)
    answer(run, 61.2, OTHER, code=CONFLICT)
    look(run, 160, card(9))

    assert rules(judge(run)) >= LATE


def test_decisions_that_all_conflict_with_time_have_one(run: Forged) -> None:
    shown = replace(card(9), expires_at=min(each.at for each in run.events) + 60.5)
    show(run, 60, shown)
    answer(run, 61, code=CONFLICT)
    answer(run, 61.2, OTHER, code=CONFLICT)

    assert not LATE & rules(judge(run))
