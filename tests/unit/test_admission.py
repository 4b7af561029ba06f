"""Which run may go on, for every state a thread can be in: a grant, a replay or a refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app import admission
from app.errors import Code, Refusal
from app.lifecycle import Grant
from app.pairing import Replay
from stores.ports import Loaded
from stores.records import Run, RunState
from tests.unit.threads import (
    NOW,
    REJECTION,
    TOOLS,
    claim,
    code_of,
    decided,
    finished,
    in_doubt,
    loaded,
    occurrence,
)

DEAD = frozenset({"holder"})


def start(thread: Loaded, *, run_id: str = "new", dead: frozenset[str] = frozenset()) -> Grant | Replay | Refusal:
    return admission.start(thread, run_id=run_id, input_digest="input", dead=dead, snapshot_bytes_max=1_000)


def running(state: RunState = RunState.RUNNING, input_digest: str = "input") -> Run:
    return Run("new", input_digest, state, "attempt")


def test_an_idle_thread_is_granted() -> None:
    assert start(loaded()) == Grant(())


def test_a_live_claim_of_another_run_makes_the_thread_busy() -> None:
    refused = start(loaded(claim=claim()))

    assert code_of(refused) is Code.THREAD_BUSY
    assert isinstance(refused, Refusal)
    assert refused.retry_after_seconds == 1.0


def test_a_live_claim_of_this_very_run_is_in_progress() -> None:
    assert code_of(start(loaded(claim=claim(run_id="new"), known=running()))) is Code.RUN_IN_PROGRESS


@pytest.mark.parametrize("until", [NOW, NOW - 1])
def test_a_claim_past_its_time_holds_nobody_up(until: float) -> None:
    assert start(loaded(claim=claim(until=until))) == Grant(())


def test_a_claim_of_a_dead_holder_holds_nobody_up() -> None:
    assert start(loaded(claim=claim()), dead=DEAD) == Grant(())


def test_an_open_approval_must_be_answered_first() -> None:
    refused = start(loaded(occurrence("i1"), occurrence("i2")))

    assert code_of(refused) is Code.RESUME_REQUIRED
    assert isinstance(refused, Refusal)
    assert refused.interrupts == ("i1", "i2")


def test_decisions_that_wait_to_be_carried_out_come_first_too() -> None:
    assert code_of(start(loaded(decided()))) is Code.RESUME_REQUIRED


def test_a_doubt_comes_before_everything_new() -> None:
    assert code_of(start(loaded(in_doubt(), decided("i2")))) is Code.OUTCOME_INDETERMINATE


def test_a_finished_run_is_replayed_whatever_the_thread_does_now() -> None:
    known = finished(run_id="new")

    assert start(loaded(occurrence(), known=known)) == Replay(known)
    assert start(loaded(claim=claim(), known=known)) == Replay(known)


@pytest.mark.parametrize("state", list(RunState))
def test_other_input_under_a_known_run_id_is_a_conflict_in_every_state(state: RunState) -> None:
    assert code_of(start(loaded(known=running(state, "other")))) is Code.RUN_ID_CONFLICT


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.FAILED])
def test_a_run_that_did_not_finish_may_run_again(state: RunState) -> None:
    assert start(loaded(known=running(state))) == Grant(())


def take_over(thread: Loaded, dead: frozenset[str] = frozenset()) -> Grant | None:
    return admission.take_over(thread, tools=TOOLS, dead=dead)


def test_recorded_decisions_are_carried_out_as_they_were_made() -> None:
    thread = loaded(decided("i1"), decided("i2", REJECTION))

    assert take_over(thread) == Grant(thread.record.occurrences)
    assert take_over(loaded(decided(), claim=claim()), DEAD) is not None


@pytest.mark.parametrize(
    "thread",
    [
        pytest.param(loaded(), id="idle"),
        pytest.param(loaded(occurrence()), id="pending"),
        pytest.param(loaded(in_doubt("i1"), decided("i2")), id="in doubt"),
        pytest.param(loaded(decided(), claim=claim()), id="held by a live holder"),
        pytest.param(replace(loaded(decided()), bag=None), id="stale"),
        pytest.param(loaded(decided(tool="fax")), id="tool is gone"),
    ],
)
def test_nothing_else_goes_on_without_a_client(thread: Loaded) -> None:
    assert take_over(thread) is None


def test_a_full_thread_takes_no_new_message_but_an_answer() -> None:
    full = replace(loaded(), snapshot_bytes=1_000)

    assert code_of(start(full)) is Code.LIMIT_EXCEEDED
    assert start(replace(full, snapshot_bytes=999)) == Grant(())
    assert code_of(start(replace(loaded(occurrence()), snapshot_bytes=1_000))) is Code.RESUME_REQUIRED
