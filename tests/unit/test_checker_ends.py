"""The rule about the end of every answer: that there is one, and what is one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadtests.history import Answer, FaultKind
from loadtests.in_time import IN_TIME
from loadtests.threads import CONFLICT, EXPIRED, IN_DOUBT, IN_PROGRESS, NOT_FOUND
from stores.records import EffectKind
from stores.records import Verdict as Decision
from tests.unit.chaos_runs import (
    BEGAN_AT,
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

TOO_LATE = QUIET + BOUND_SECONDS + 5.0
"""When every answer of before the last fault has to have had its end."""
OTHER = Answer(card(9).interrupt_id, Decision.REJECT)
ENDLESS = {(card(9).interrupt_id, IN_TIME)}


@pytest.fixture
def run() -> Forged:
    return tried_enough()


def test_an_answer_whose_end_nobody_was_ever_told_is_lost(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    answer(run, 110, code=IN_PROGRESS)
    look(run, 160, card(9))

    assert rules(judge(run)) == ENDLESS


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


def test_decisions_that_all_conflict_have_no_end(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, code=CONFLICT)
    answer(run, 61.2, OTHER, code=CONFLICT)
    look(run, 160, card(9))

    assert rules(judge(run)) >= ENDLESS


@pytest.mark.parametrize(("expires_at", "is_endless"), [(60.5, False), (61.6, True)])
def test_decisions_that_all_conflict_with_time_have_one(run: Forged, expires_at: float, is_endless: bool) -> None:
    show(run, 60, replace(card(9), expires_at=BEGAN_AT + expires_at))
    answer(run, 61, code=CONFLICT)
    answer(run, 61.2, OTHER, code=CONFLICT)

    assert (ENDLESS & rules(judge(run)) == ENDLESS) is is_endless


def test_decisions_that_all_conflict_may_have_lost_theirs_with_a_failover(run: Forged) -> None:
    show(run, 47, card(9))
    answer(run, 48, code=CONFLICT)
    answer(run, 60, OTHER, code=CONFLICT)

    assert not ENDLESS & rules(judge(run))


def test_an_approval_that_nobody_answered_has_no_end_to_come(run: Forged) -> None:
    show(run, 60, card(9))
    look(run, 160, card(9))

    assert judge(run).violations == ()


def test_the_end_of_an_answer_may_be_that_time_was_over(run: Forged) -> None:
    show(run, 60, replace(card(9), expires_at=BEGAN_AT + 70))
    answer(run, 61, is_cut=True)
    answer(run, 71, code=EXPIRED, definite=True)
    answer(run, TOO_LATE, code=EXPIRED, definite=True)

    assert judge(run).violations == ()


def test_not_to_be_found_is_no_end_where_nothing_may_have_been_lost(run: Forged) -> None:
    show(run, 60, card(9))
    answer(run, 61, is_cut=True)
    answer(run, 110, code=NOT_FOUND)

    assert rules(judge(run)) >= ENDLESS
