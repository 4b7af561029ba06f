"""Which resumes moved to another replica, on forged runs: that it carried them out, and did not only tell of them."""

from __future__ import annotations

import pytest

from loadtests.history import Intent
from loadtests.threads import IN_DOUBT
from stores.records import EffectKind
from tests.unit.chaos_runs import Forged, approval
from tests.unit.counted_runs import counted, done, show


def test_a_resume_crossed_if_another_replica_carried_it_out_to_its_end() -> None:
    run = Forged()
    run.approved(1, 1, paused_on="a", ended_on="b")
    run.approved(5, 2, paused_on="a", ended_on="a")
    show(run, 10, 3, replica="a")
    run.exchange(11, "thread-3", [approval(3)], intent=Intent.ANSWER, **done(3, "a"))
    run.exchange(13, "thread-3", [approval(3)], intent=Intent.TWICE, is_replay=True, **done(3, "b"))

    counts = counted(run)

    assert (counts.resumes, counts.live, counts.crossed, counts.retold) == (3, 3, 1, 0)
    assert counts.crossed_share == pytest.approx(1 / 3)


def test_a_resume_crossed_if_its_end_was_told_live_later_than_by_a_replay() -> None:
    run = Forged()
    show(run, 1, 1, replica="a")
    run.exchange(2, "thread-1", [approval(1)], intent=Intent.ANSWER, takes=9, **done(1, "b"))
    run.exchange(8, "thread-1", [approval(1)], intent=Intent.TWICE, is_replay=True, **done(1, "a"))

    counts = counted(run)

    assert (counts.live, counts.crossed, counts.retold) == (1, 1, 0)


@pytest.mark.parametrize(("replica", "retold"), [("b", 1), ("a", 0)])
def test_who_replays_an_end_is_not_known_to_have_carried_it_out(replica: str, retold: int) -> None:
    run = Forged()
    show(run, 1, 1, replica="a")
    run.exchange(2, "thread-1", [approval(1)], intent=Intent.ANSWER, is_cut=True, replica="a")
    run.exchange(5, "thread-1", [approval(1)], intent=Intent.AGAIN, is_replay=True, **done(1, replica))

    counts = counted(run)

    assert (counts.resumes, counts.live, counts.crossed, counts.retold) == (1, 0, 0, retold)
    assert counts.crossed_share == 0


def test_who_says_that_there_is_a_doubt_is_not_known_to_have_carried_it_out() -> None:
    run = Forged()
    show(run, 1, 1, kind=EffectKind.UNSAFE, replica="a")
    run.exchange(2, "thread-1", [approval(1)], intent=Intent.ANSWER, code=IN_DOUBT, replica="b")

    counts = counted(run)

    assert (counts.resumes, counts.live, counts.crossed, counts.retold) == (1, 0, 0, 1)


@pytest.mark.parametrize(("paused_on", "ended_on"), [("", "b"), ("a", "")])
def test_a_resume_of_which_nobody_said_who_served_it_did_not_cross(paused_on: str, ended_on: str) -> None:
    run = Forged()
    run.approved(1, 1, paused_on=paused_on, ended_on=ended_on)

    assert counted(run).crossed == 0


def test_several_calls_of_one_pause_are_one_resume() -> None:
    run = Forged()
    show(run, 1, 1, 2, replica="a")
    run.exchange(2, "thread-1", [approval(1), approval(2)], intent=Intent.ANSWER, **done(1, "b"))

    counts = counted(run)

    assert (counts.resumes, counts.crossed, counts.ended) == (1, 1, 2)
