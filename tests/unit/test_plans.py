"""What each plan strikes at, and what it refuses."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice

import pytest

from loadtests.history import FaultKind
from loadtests.plans import PLANS, Ground, Strike, resume_steps
from tests.crash_points.points import Journey, points

REPLICAS = ("host-1", "host-2", "host-3")
EVERYTHING = frozenset(FaultKind)
APPROVALS = (Journey.IDEMPOTENT, Journey.TRANSACTIONAL, Journey.UNSAFE)


def drawn(plan: str, count: int, faults: frozenset[FaultKind] = EVERYTHING) -> list[Strike]:
    ground = Ground(PLANS[plan].kinds(faults), REPLICAS, resume_steps(is_shared=True))
    return list(islice(PLANS[plan].strikes(ground, random.Random(1)), count))


@pytest.mark.parametrize("is_shared", [True, False])
def test_resumes_are_struck_at_every_step_from_their_claim_to_their_answer(is_shared: bool) -> None:
    passed = {point for journey in APPROVALS for point in points(journey, shared=is_shared)}
    assert set(resume_steps(is_shared=is_shared)) == passed - {"before-load", "after-load", "after-answer"}


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_does_the_kinds_it_says_and_no_other(plan: str) -> None:
    possible = EVERYTHING - {FaultKind.FAILOVER} if plan == "all" else EVERYTHING
    assert {strike.kind for strike in drawn(plan, 500, possible)} == PLANS[plan].kinds(possible)


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_that_can_not_be_carried_out_is_refused_and_what_can_be_is_named(plan: str) -> None:
    with pytest.raises(ValueError, match=rf"'{plan}' needs .* What can be done: nothing"):
        PLANS[plan].kinds(frozenset())


def test_the_refusal_names_what_is_missing_and_what_is_not() -> None:
    with pytest.raises(ValueError, match=r"deployment: failover\. What can be done: freeze, kill\.$"):
        PLANS["failover"].kinds(frozenset({FaultKind.KILL, FaultKind.FREEZE}))


def test_of_all_faults_each_comes_early_and_most_are_kills_of_resumes() -> None:
    strikes = drawn("all", 400)
    early = strikes[: 3 * len(EVERYTHING)]
    assert {strike.kind for strike in early} == EVERYTHING
    kills = [strike for strike in strikes if strike.kind is FaultKind.KILL and strike.step]
    assert len(kills) > 0.6 * len(strikes)


def test_aimed_kills_come_to_every_step_equally_often() -> None:
    counts = Counter(strike.step for strike in drawn("kill-one", 300) if strike.step)
    assert set(counts) == set(resume_steps(is_shared=True))
    assert max(counts.values()) <= 2 * min(counts.values())


def test_freezes_come_where_another_replica_takes_the_thread_over() -> None:
    steps = {strike.step for strike in drawn("freeze", 100)}
    assert steps == set(resume_steps(is_shared=True)) - {"before-claim", "after-finish", "before-answer"}


def test_a_rolling_restart_goes_from_one_replica_to_the_next_and_waits_for_each() -> None:
    strikes = drawn("rolling", 4)
    assert [strike.replica for strike in strikes] == ["host-1", "host-2", "host-3", "host-1"]
    assert all(strike.is_awaited for strike in strikes)


def test_the_same_seed_draws_the_same_strikes() -> None:
    assert drawn("all", 100) == drawn("all", 100)
