"""How a record changes, and what a ledger's answers mean for it: pure rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from app import lifecycle
from app.lifecycle import Grant
from stores.ports import Begun, Closed, DigestMismatch, Held, Reservation, ReserveAnswer, Reserved, Settled
from stores.records import Claim, EffectKind, OccurrenceState, Record, ToolResult
from tests.unit.threads import (
    APPROVAL,
    CANCELLATION,
    NOW,
    PAUSE,
    REJECTION,
    claim,
    decided,
    in_doubt,
    loaded,
    occurrence,
)

RESULT = ToolResult(({"type": "text", "text": "wired"},))
RETRIES_MAX = 3


@pytest.mark.parametrize(
    ("is_live", "held", "dead"),
    [
        (True, claim(until=NOW + 0.001), ()),
        (True, claim(), ("another",)),
        (False, claim(), ("holder",)),
        (False, claim(until=NOW), ()),
        (False, None, ()),
    ],
)
def test_a_claim_lives_until_its_time_or_its_holder_ends(
    is_live: bool, held: Claim | None, dead: tuple[str, ...]
) -> None:
    assert lifecycle.is_live(held, now=NOW, dead=dead) is is_live


def test_approved_calls_are_reserved_and_the_others_closed() -> None:
    grant = Grant((decided("i1"), decided("i2", REJECTION), decided("i3", CANCELLATION)))

    batch = lifecycle.batch_of(grant, claim(), dead=("d",), begin_idempotent=True)

    assert batch.approve == (Reservation("i1", EffectKind.UNSAFE, APPROVAL.digest),)
    assert batch.close == {"i2": "rejected", "i3": "cancelled"}
    assert (batch.attempt, batch.holder, batch.until, batch.dead) == ("attempt", "holder", NOW + 50, ("d",))


@pytest.mark.parametrize("is_shared", [True, False])
def test_only_an_idempotent_call_begins_with_its_claim_and_only_in_a_shared_database(is_shared: bool) -> None:
    calls = tuple(decided(kind, kind=kind, key_lifetime_seconds=9.0) for kind in EffectKind)

    batch = lifecycle.batch_of(Grant(calls), claim(), dead=(), begin_idempotent=is_shared)

    begun = [row.kind for row in batch.approve if row.begin]
    assert begun == ([EffectKind.IDEMPOTENT] if is_shared else [])
    assert all(row.key_lifetime_seconds == 9.0 for row in batch.approve)


@pytest.mark.parametrize(
    ("is_reserved", "answers"),
    [
        (True, {"i1": Reserved(), "i2": Closed("rejected")}),
        (True, {"i1": Reserved(begun=True), "i2": Closed("cancelled")}),
        (True, {"i1": Settled(RESULT), "i2": Closed("rejected")}),
        (False, {"i1": Begun(1.0), "i2": Closed("rejected")}),
        (False, {"i1": Held(same=True), "i2": Closed("rejected")}),
        (False, {"i1": DigestMismatch(), "i2": Closed("rejected")}),
        (False, {"i1": Closed("rejected"), "i2": Closed("rejected")}),
        (False, {"i1": Reserved(), "i2": Settled(RESULT)}),
        (False, {"i1": Reserved(), "i2": Begun(1.0)}),
        (False, {"i1": Reserved()}),
        (False, {"i2": Closed("rejected")}),
    ],
)
def test_a_batch_is_taken_whole_or_not(is_reserved: bool, answers: Mapping[str, ReserveAnswer]) -> None:
    grant = Grant((decided("i1"), decided("i2", REJECTION)))
    batch = lifecycle.batch_of(grant, claim(), dead=(), begin_idempotent=False)

    assert lifecycle.is_reserved(batch, answers) is is_reserved


def test_what_was_decided_is_gone_and_what_was_asked_is_open() -> None:
    asked = (occurrence("i9"),)

    assert lifecycle.finish(pending=asked, pause_id=PAUSE) == Record(pause_id=PAUSE, occurrences=asked)
    assert lifecycle.finish(pending=(), pause_id=None) == Record()


def test_every_decided_call_has_its_end() -> None:
    record = loaded(decided("i1"), decided("i2", REJECTION), decided("i3", CANCELLATION)).record

    outcomes = lifecycle.outcomes_of(record, {"i1"})

    assert outcomes is not None
    assert [(each.interrupt_id, each.state) for each in outcomes] == [
        ("i1", OccurrenceState.FINISHED),
        ("i2", OccurrenceState.REJECTED),
        ("i3", OccurrenceState.CANCELLED),
    ]
    assert [each.decision for each in outcomes] == [APPROVAL, REJECTION, CANCELLATION]
    assert outcomes[0].aliases == ("call-i1",)


def test_a_run_that_left_an_approved_call_out_can_not_finish() -> None:
    record = loaded(decided("i1"), decided("i2")).record

    assert lifecycle.outcomes_of(record, {"i1"}) is None


def test_the_claim_goes_and_everything_else_stays() -> None:
    record = loaded(decided("i1"), decided("i2"), claim=claim(), resume_run_id="answering").record

    released = lifecycle.release(record, in_doubt={"i2"}, now=NOW)

    assert released.claim is None
    assert released.occurrences == (decided("i1"), in_doubt("i2"))
    assert (released.pause_id, released.resume_run_id) == (PAUSE, "answering")


def test_each_failure_waits_twice_as_long_up_to_a_limit() -> None:
    record, pauses = loaded(decided(), claim=claim()).record, []
    for _ in range(13):
        record = lifecycle.release(record, in_doubt=(), now=NOW)
        assert record.retry_at is not None
        pauses.append(record.retry_at - NOW)

    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert pauses[-3:] == [1024.0, 1024.0, 1024.0]
    assert record.retries == 13


PAST = occurrence("past", expires_at=NOW)


def test_a_pause_expires_as_a_whole() -> None:
    assert lifecycle.expired(loaded(PAST)) == (PAST,)
    assert lifecycle.expired(loaded(PAST, occurrence("later"))) == ()


def test_a_call_that_nobody_answered_expires_beside_one_that_was_and_the_rest_goes_on_without_it() -> None:
    thread = loaded(PAST, decided("i2"))

    assert lifecycle.expired(thread) == (PAST,)

    record = lifecycle.without(thread.record, (PAST,))
    assert [each.decision for each in record.occurrences] == [lifecycle.EXPIRY, APPROVAL]
    assert due_at(record) == NOW


def test_nothing_but_pending_calls_without_a_claim_expires() -> None:
    assert lifecycle.expired(loaded()) == ()
    assert lifecycle.expired(loaded(decided(expires_at=NOW - 1))) == ()
    assert lifecycle.expired(loaded(PAST, in_doubt())) == ()
    assert lifecycle.expired(loaded(PAST, claim=claim())) == ()


def due_at(record: Record) -> float | None:
    return lifecycle.due_at(record, now=NOW, retries_max=RETRIES_MAX)


def test_an_idle_thread_is_never_due() -> None:
    assert due_at(Record()) is None
    assert due_at(Record(retries=1, retry_at=NOW + 1)) is None


def test_a_pause_is_due_when_all_of_it_has_expired() -> None:
    record = loaded(occurrence("i1", expires_at=NOW + 5), occurrence("i2", expires_at=NOW + 9)).record

    assert due_at(record) == NOW + 9
    assert due_at(lifecycle.put_off(record, now=NOW + 10)) == NOW + 10 + lifecycle.PUT_OFF_SECONDS


@pytest.mark.parametrize(
    ("retries", "retry_at", "expected"),
    [(0, None, NOW), (1, NOW + 1, NOW + 1), (RETRIES_MAX, NOW + 4, NOW + 4), (RETRIES_MAX + 1, NOW + 8, None)],
)
def test_decisions_are_tried_again_until_a_person_must_look(
    retries: int, retry_at: float | None, expected: float | None
) -> None:
    record = replace(loaded(decided()).record, retries=retries, retry_at=retry_at)

    assert due_at(record) == expected


def test_a_doubt_is_asked_about_ever_more_rarely_but_for_ever() -> None:
    def pause(retries: int) -> float:
        due = due_at(replace(loaded(in_doubt(), decided("i2")).record, retries=retries))
        assert due is not None
        return due - NOW

    pauses = [pause(retries) for retries in (1, 2, 3, 100)]

    assert pauses == sorted(pauses)
    assert len(set(pauses[:3])) == 3
    assert pauses[-1] < 3_600
