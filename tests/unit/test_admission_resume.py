"""What an answer to an interrupt leads to, for every state a thread can be in: a grant, a replay, or a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from app import admission
from app.answers import Entry, approval_digest
from app.errors import Code, Refusal
from app.lifecycle import UNKNOWN_ARGUMENTS, Grant
from app.pairing import Replay
from stores.ports import Loaded
from stores.records import Bag, Decision, EffectKind, OccurrenceState, Run, RunState, Snapshot, Verdict
from tests.unit.threads import (
    APPROVAL,
    CANCELLATION,
    NOW,
    REJECTION,
    TOOLS,
    approve,
    cancel,
    claim,
    code_of,
    decided,
    finished,
    in_doubt,
    loaded,
    occurrence,
    outcome,
    reject,
)

DEAD = frozenset({"holder"})


def resume(
    thread: Loaded, *entries: Entry, run_id: str = "new", dead: frozenset[str] = frozenset()
) -> Grant | Replay | Refusal:
    return admission.resume(thread, entries, run_id=run_id, tools=TOOLS, dead=dead)


def verdicts_of(answer: Grant | Replay | Refusal) -> Sequence[Decision | None]:
    assert isinstance(answer, Grant), answer
    assert all(each.state is OccurrenceState.DECIDED for each in answer.occurrences)
    return [each.decision for each in answer.occurrences]


def running(state: RunState = RunState.RUNNING, input_digest: str = "input") -> Run:
    return Run("new", input_digest, state, "attempt")


def test_answers_to_all_open_interrupts_are_granted_together() -> None:
    thread = loaded(occurrence("i1"), occurrence("i2"), occurrence("i3"))

    granted = resume(thread, cancel("i3"), reject("i2"), approve("i1"))

    assert verdicts_of(granted) == [APPROVAL, REJECTION, CANCELLATION]


def test_an_alias_names_the_same_occurrence() -> None:
    assert verdicts_of(resume(loaded(occurrence("i1")), approve("call-i1"))) == [APPROVAL]


def test_an_alias_that_also_names_an_earlier_call_decides_nothing() -> None:
    earlier = replace(outcome("i0", APPROVAL, OccurrenceState.FINISHED), aliases=("call-i1",))

    assert code_of(resume(loaded(occurrence("i1"), known=finished(earlier)), approve("call-i1"))) is (
        Code.RESUME_INVALID
    )


@pytest.mark.parametrize("thread", [loaded(), loaded(occurrence("i1"))], ids=["idle", "paused"])
def test_an_id_that_is_not_here_is_not_found(thread: Loaded) -> None:
    refused = resume(thread, approve("forged"))

    assert code_of(refused) is Code.RESUME_NOT_FOUND
    assert isinstance(refused, Refusal)
    assert refused.interrupts == ()


def test_every_open_interrupt_must_be_answered() -> None:
    refused = resume(loaded(occurrence("i1"), occurrence("i2")), approve("i1"))

    assert code_of(refused) is Code.RESUME_MISSING_INTERRUPT
    assert isinstance(refused, Refusal)
    assert refused.interrupts == ("i2",)


@pytest.mark.parametrize("second", [approve(), reject(), approve("call-i1")], ids=["same", "other", "by alias"])
def test_one_road_answers_an_interrupt_once(second: Entry) -> None:
    assert code_of(resume(loaded(occurrence()), approve(), second)) is Code.RESUME_INVALID


def test_roads_that_agree_are_one_answer() -> None:
    assert verdicts_of(resume(loaded(occurrence()), approve(), approve(road="tool message"))) == [APPROVAL]


def test_roads_that_contradict_each_other_are_refused() -> None:
    refused = resume(loaded(occurrence()), approve(), reject(road="tool message"))

    assert code_of(refused) is Code.RESUME_INVALID


@pytest.mark.parametrize("expires_at", [NOW, NOW - 1])
def test_only_what_is_pending_expires(expires_at: float) -> None:
    assert code_of(resume(loaded(occurrence(expires_at=expires_at)), approve())) is Code.RESUME_EXPIRED
    assert verdicts_of(resume(loaded(decided(expires_at=expires_at)), approve())) == [APPROVAL]


def test_a_recorded_decision_may_be_repeated_or_left_out() -> None:
    thread = loaded(decided("i1"), decided("i2", REJECTION))

    assert verdicts_of(resume(thread, approve("i1"), reject("i2"))) == [APPROVAL, REJECTION]
    assert verdicts_of(resume(thread, approve("i1"))) == [APPROVAL, REJECTION]


@pytest.mark.parametrize("other", [reject(), cancel(), approve(payee="Bolt")], ids=["no", "cancel", "edited"])
def test_a_recorded_decision_can_not_be_changed(other: Entry) -> None:
    assert code_of(resume(loaded(decided()), other)) is Code.RESUME_CONFLICT
    assert code_of(resume(loaded(decided(), claim=claim()), other)) is Code.RESUME_CONFLICT


def test_the_same_answer_while_a_live_replica_has_it_is_in_progress() -> None:
    refused = resume(loaded(decided(), claim=claim()), approve())

    assert code_of(refused) is Code.RESUME_IN_PROGRESS
    assert isinstance(refused, Refusal)
    assert refused.retry_after_seconds == 1.0


def test_the_same_answer_after_its_holder_died_is_granted() -> None:
    assert verdicts_of(resume(loaded(decided(), claim=claim()), approve(), dead=DEAD)) == [APPROVAL]
    assert verdicts_of(resume(loaded(decided(), claim=claim(until=NOW)), approve())) == [APPROVAL]


def test_a_doubt_stops_the_whole_batch_and_names_the_call() -> None:
    refused = resume(loaded(in_doubt("i1"), decided("i2")), approve("i1"), approve("i2"))

    assert code_of(refused) is Code.OUTCOME_INDETERMINATE
    assert isinstance(refused, Refusal)
    assert refused.interrupts == ("i1",)


def test_a_tool_that_is_gone_or_changed_its_kind_is_refused_before_the_claim() -> None:
    gone = loaded(occurrence(tool="fax"))
    changed = loaded(occurrence(kind=EffectKind.IDEMPOTENT))

    assert code_of(resume(gone, approve())) is Code.TOOL_UNAVAILABLE
    assert code_of(resume(changed, approve())) is Code.TOOL_UNAVAILABLE
    assert verdicts_of(resume(gone, reject())) == [REJECTION]


@pytest.mark.parametrize(
    ("part", "thread"),
    [
        ("approval record", loaded(occurrence(), pause_id=None)),
        ("snapshot", replace(loaded(occurrence()), snapshot=None)),
        ("snapshot", replace(loaded(occurrence()), snapshot=Snapshot(pause_id="another"))),
        ("tool_approval bag", replace(loaded(occurrence()), bag=None)),
        ("tool_approval bag", replace(loaded(occurrence()), bag=Bag("another"))),
    ],
)
def test_a_pause_that_lost_a_part_is_stale_and_can_be_cancelled(part: str, thread: Loaded) -> None:
    for entry in (approve(), reject()):
        refused = resume(thread, entry)
        assert code_of(refused) is Code.RESUME_STALE
        assert isinstance(refused, Refusal)
        assert part in refused.message
    assert verdicts_of(resume(thread, cancel())) == [CANCELLATION]


@pytest.mark.parametrize(
    ("entry", "decision", "state"),
    [
        (approve(), APPROVAL, OccurrenceState.FINISHED),
        (reject(), REJECTION, OccurrenceState.REJECTED),
        (cancel(), CANCELLATION, OccurrenceState.CANCELLED),
        (approve("call-i1"), APPROVAL, OccurrenceState.FINISHED),
    ],
)
def test_the_same_answer_after_the_end_is_replayed_whatever_its_run_id(
    entry: Entry, decision: Decision, state: OccurrenceState
) -> None:
    known = finished(outcome("i1", decision, state))

    assert resume(loaded(known=known), entry, run_id="new") == Replay(known)
    assert resume(loaded(occurrence("i2"), known=known), entry, run_id="new") == Replay(known)
    assert resume(loaded(claim=claim(), known=known), entry, run_id="answering") == Replay(known)


def test_answers_of_several_finished_runs_are_replayed_together_with_the_end_of_the_last() -> None:
    result = {"type": "TOOL_CALL_RESULT", "toolCallId": "call-i1", "content": "paid"}
    text = {"type": "TEXT_MESSAGE_CONTENT", "delta": "done"}
    one = replace(finished(outcome("i1", APPROVAL, OccurrenceState.FINISHED)), run_id="one", events=(result, text))
    two = replace(finished(outcome("i2", REJECTION, OccurrenceState.REJECTED)), run_id="two")

    answer = admission.resume(
        loaded(known=one), [approve("i1"), reject("i2")], run_id="new", tools=TOOLS, dead=(), retained=[two]
    )

    assert answer == Replay(two, before=(result,))


def test_a_name_that_several_open_calls_share_decides_none_of_them() -> None:
    shared = [replace(occurrence(name), aliases=("call",)) for name in ("i1", "i2")]
    known = finished(replace(outcome("i0", APPROVAL, OccurrenceState.FINISHED), aliases=("call",)))

    assert code_of(resume(loaded(*shared), approve("call"))) is Code.RESUME_INVALID
    assert code_of(resume(loaded(*shared, known=known), approve("call"))) is Code.RESUME_INVALID


@pytest.mark.parametrize("entry", [reject(), cancel(), approve(payee="Bolt")], ids=["no", "cancel", "edited"])
def test_another_answer_after_the_end_is_a_conflict(entry: Entry) -> None:
    known = finished(outcome("i1", APPROVAL, OccurrenceState.FINISHED))

    assert code_of(resume(loaded(known=known), entry)) is Code.RESUME_CONFLICT


def test_any_answer_to_what_expired_is_told_so() -> None:
    known = finished(replace(outcome("i1", APPROVAL, OccurrenceState.EXPIRED), decision=None))

    assert code_of(resume(loaded(known=known), approve())) is Code.RESUME_EXPIRED


def test_a_malformed_repeat_is_malformed_first() -> None:
    known = finished(outcome("i1", APPROVAL, OccurrenceState.FINISHED))

    assert code_of(resume(loaded(known=known), approve(amount=1))) is Code.RESUME_INVALID


def test_a_repeat_beside_a_forged_id_is_not_found() -> None:
    known = finished(outcome("i1", APPROVAL, OccurrenceState.FINISHED))

    assert code_of(resume(loaded(known=known), approve(), approve("forged"))) is Code.RESUME_NOT_FOUND


def test_a_run_id_that_is_recorded_with_other_input_is_a_conflict() -> None:
    known = finished(run_id="new", input_digest="other")

    assert code_of(resume(loaded(occurrence(), known=known), approve(), run_id="new")) is Code.RUN_ID_CONFLICT


def test_a_run_that_failed_with_these_decisions_may_go_on_under_its_id() -> None:
    granted = resume(loaded(occurrence()), approve())
    assert isinstance(granted, Grant)
    known = running(RunState.FAILED, granted.input_digest)

    assert resume(loaded(decided(), known=known), approve(), run_id="new") == granted


def test_the_digest_of_an_answer_does_not_depend_on_the_order_of_its_parts() -> None:
    one = resume(loaded(occurrence("i1"), occurrence("i2")), approve("i1"), reject("i2"))
    two = resume(loaded(occurrence("i2"), occurrence("i1")), reject("i2"), approve("i1"))
    other = resume(loaded(occurrence("i1"), occurrence("i2")), reject("i1"), approve("i2"))

    assert isinstance(one, Grant)
    assert isinstance(two, Grant)
    assert isinstance(other, Grant)
    assert one.input_digest == two.input_digest != other.input_digest


EDITED = '{"invoice":"INV-1","payee":"Another"}'
BY_DIGEST = Decision(Verdict.APPROVE, UNKNOWN_ARGUMENTS, approval_digest("wire", EDITED))


def test_a_decision_that_is_known_by_its_digest_goes_on_with_whoever_brings_it_again() -> None:
    granted = resume(loaded(decided(decision=BY_DIGEST)), approve(payee="Another"))

    assert isinstance(granted, Grant)
    assert granted.occurrences[0].decision == replace(BY_DIGEST, arguments=EDITED)


def test_a_decision_that_is_known_by_its_digest_is_carried_out_by_nobody_else() -> None:
    thread = loaded(decided(decision=BY_DIGEST))

    assert code_of(resume(thread, approve())) is Code.RESUME_CONFLICT
    assert code_of(resume(thread, reject())) is Code.RESUME_CONFLICT
    assert admission.take_over(thread, tools=TOOLS, dead=()) is None
    assert admission.leaves_stuck(thread, [cancel()], tools=TOOLS, dead=(), retries_max=9, lost_effects=())
