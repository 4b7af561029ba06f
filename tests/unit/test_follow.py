"""What a record becomes that is behind its ledger, and what the caller is told whose batch was refused: pure rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from app.answers import approval_digest
from app.errors import Code
from app.follow import begun_and_free, follow, refusal
from app.lifecycle import EXPIRY, UNKNOWN_ARGUMENTS
from stores.ports import Begun, Closed, DigestMismatch, Held, ReserveAnswer, Reserved, Settled
from stores.records import (
    Decision,
    Effect,
    EffectKind,
    EffectState,
    Occurrence,
    OccurrenceState,
    Record,
    ToolResult,
    Verdict,
)
from tests.unit.threads import (
    APPROVAL,
    ARGUMENTS,
    CANCELLATION,
    NOW,
    REJECTION,
    claim,
    decided,
    in_doubt,
    loaded,
    occurrence,
)

RESULT = ToolResult(({"type": "text", "text": "wired"},))
EDITED_DIGEST = approval_digest("wire", '{"invoice":"INV-1","payee":"Another"}')
EDITED = Decision(Verdict.APPROVE, UNKNOWN_ARGUMENTS, EDITED_DIGEST)
KEY_LIFETIME_SECONDS = 60.0


def row(state: EffectState, **changes: Any) -> Effect:
    """Return i1's row of the ledger, as the approval of what was shown left it."""
    fields: dict[str, Any] = {"kind": EffectKind.UNSAFE, "digest": APPROVAL.digest, "attempt": "a", "holder": None}
    return Effect("i1", state, **{"until": 0.0, **fields, **changes})


def followed(each: Occurrence, its_row: Effect, *, begun: bool = False) -> Occurrence | None:
    """Return what becomes of one call; None if its record is not behind."""
    record = follow(loaded(each).record, {"i1": its_row}, begun={"i1"} if begun else (), now=NOW)
    if record is None:
        return None
    assert record.claim is None
    (after,) = record.occurrences
    return after


@pytest.mark.parametrize("before", [occurrence(), in_doubt(), decided(decision=REJECTION)])
def test_a_settled_call_is_decided_whatever_its_record_says(before: Occurrence) -> None:
    assert followed(before, row(EffectState.SETTLED, result=RESULT)) == decided()


def test_a_result_of_edited_arguments_is_known_by_their_digest_alone() -> None:
    settled = row(EffectState.SETTLED, result=RESULT, digest=EDITED_DIGEST)

    assert followed(occurrence(), settled) == decided(decision=EDITED)
    kept = Decision(Verdict.APPROVE, '{"invoice":"INV-1","payee":"Another"}', EDITED_DIGEST)
    assert followed(in_doubt(), settled) == decided(decision=EDITED)
    assert followed(replace(in_doubt(), decision=kept), settled) == decided(decision=kept)


@pytest.mark.parametrize(
    ("why", "decision"), [("rejected", REJECTION), ("cancelled", CANCELLATION), ("no reason of ours", CANCELLATION)]
)
@pytest.mark.parametrize("before", [occurrence(), decided(), in_doubt()])
def test_a_closed_call_ends_for_its_reason_also_when_it_was_decided(
    before: Occurrence, why: str, decision: Decision
) -> None:
    assert followed(before, row(EffectState.CLOSED, why=why)) == decided(decision=decision)


def test_expiry_is_not_followed_while_it_can_end_the_whole_pause() -> None:
    expired = row(EffectState.CLOSED, why="expired")

    assert followed(occurrence(), expired) is None
    assert followed(decided(), expired) == decided(decision=EXPIRY)


@pytest.mark.parametrize("decision", [REJECTION, CANCELLATION])
def test_a_recorded_no_stays_what_it_is(decision: Decision) -> None:
    assert followed(decided(decision=decision), row(EffectState.CLOSED, why="rejected")) is None


@pytest.mark.parametrize("before", [occurrence(), decided()])
def test_an_unsafe_call_that_began_is_in_doubt(before: Occurrence) -> None:
    assert followed(before, row(EffectState.BEGUN, begun_age_seconds=1.0), begun=True) == in_doubt()


@pytest.mark.parametrize(
    ("age_seconds", "digest", "state"),
    [
        (1.0, APPROVAL.digest, OccurrenceState.DECIDED),
        (KEY_LIFETIME_SECONDS, APPROVAL.digest, OccurrenceState.INDETERMINATE),
        (None, APPROVAL.digest, OccurrenceState.INDETERMINATE),
        (1.0, EDITED_DIGEST, OccurrenceState.INDETERMINATE),
    ],
)
def test_an_idempotent_call_that_began_goes_on_only_as_shown_and_while_its_key_lives(
    age_seconds: float | None, digest: str, state: OccurrenceState
) -> None:
    pending = occurrence(kind=EffectKind.IDEMPOTENT, key_lifetime_seconds=KEY_LIFETIME_SECONDS)
    began = row(EffectState.BEGUN, kind=EffectKind.IDEMPOTENT, digest=digest, begun_age_seconds=age_seconds)

    after = followed(pending, began, begun=True)

    assert after is not None
    assert (after.state, after.decision and after.decision.digest) == (state, digest)


def test_a_call_that_began_and_is_held_will_yet_get_its_result() -> None:
    assert followed(occurrence(), row(EffectState.BEGUN, begun_age_seconds=1.0)) is None


@pytest.mark.parametrize("before", [occurrence(), decided()])
def test_a_reservation_binds_nobody(before: Occurrence) -> None:
    assert followed(before, row(EffectState.RESERVED, digest=EDITED_DIGEST)) is None


def test_a_call_that_did_not_happen_is_in_doubt_no_more() -> None:
    assert followed(in_doubt(), row(EffectState.RESERVED)) == decided()
    assert followed(replace(in_doubt(), decision=None), row(EffectState.RESERVED)) == occurrence()


def test_a_doubt_ends_where_the_ledger_knows_and_the_count_of_failures_with_the_last() -> None:
    record = replace(loaded(in_doubt("i1"), in_doubt("i2"), decided("i3")).record, retries=7, retry_at=NOW)
    one = follow(record, {"i1": row(EffectState.SETTLED, result=RESULT)}, begun=(), now=NOW)

    assert one is not None
    assert (one.occurrences, one.retries) == ((decided("i1"), in_doubt("i2"), decided("i3")), 8)

    last = follow(one, {"i2": replace(row(EffectState.RESERVED), interrupt_id="i2")}, begun=(), now=NOW)
    assert last is not None
    assert last.occurrences == (decided("i1"), decided("i2"), decided("i3"))
    assert (last.retries, last.retry_at) == (0, None)


def test_what_the_ledger_does_not_know_stays() -> None:
    assert follow(loaded(occurrence(), in_doubt("i2")).record, {}, begun={"i1", "i2"}, now=NOW) is None


def test_a_row_that_began_is_free_if_the_ledger_says_so() -> None:
    answers = {"a": Begun(1.0), "b": DigestMismatch(), "c": Held(same=True), "d": Settled(RESULT), "e": Reserved()}

    assert begun_and_free(answers) == {"a", "b"}


@pytest.mark.parametrize(
    ("code", "answers", "became"),
    [
        (Code.RESUME_IN_PROGRESS, {"i1": Held(same=True), "i2": Reserved()}, None),
        (Code.THREAD_BUSY, {"i1": Held(same=True), "i2": Held(same=False)}, None),
        (Code.THREAD_BUSY, {"i1": Begun(1.0), "i2": Held(same=False)}, None),
        (Code.OUTCOME_INDETERMINATE, {"i1": Begun(1.0), "i2": Reserved()}, loaded(in_doubt()).record),
        (Code.RESUME_CONFLICT, {"i1": Reserved(), "i3": Begun(1.0)}, loaded(in_doubt("i3")).record),
        (Code.RESUME_CONFLICT, {"i1": Closed("expired"), "i2": Reserved()}, None),
        (Code.RESUME_CONFLICT, {"i1": Reserved(), "i3": Settled(RESULT)}, loaded(decided("i3")).record),
        (Code.RESUME_CONFLICT, {"i1": DigestMismatch()}, loaded(decided()).record),
    ],
)
def test_whose_batch_was_refused_is_told_what_that_means(
    code: Code, answers: Mapping[str, ReserveAnswer], became: Record | None
) -> None:
    told = refusal(answers, approved={"i1", "i2"}, followed=became)

    assert told.code is code
    assert set(told.interrupts) <= {"i1", "i2", "i3"}


def test_a_claim_that_is_dead_goes_with_what_it_missed() -> None:
    thread = loaded(decided(), claim=claim())

    record = follow(thread.record, {"i1": row(EffectState.CLOSED, why="cancelled")}, begun=(), now=NOW)

    assert record is not None
    assert (record.claim, record.occurrences[0].arguments) == (None, ARGUMENTS)
