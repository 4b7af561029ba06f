"""A record that is behind its ledger follows it: the rules for a crash between the two, and for a write that was lost.

Pure. The ledger is written first and loses nothing, so where the two differ the ledger is right.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from app.answers import CANCELLATION, REJECTION, approval_digest
from app.errors import Code, Refusal
from app.lifecycle import EXPIRED, EXPIRY, RETRY_SECONDS, UNKNOWN_ARGUMENTS, in_state, indeterminate, release
from stores.ports import Begun, DigestMismatch, Held, ReserveAnswer
from stores.records import (
    Decision,
    Effect,
    EffectKind,
    EffectState,
    Occurrence,
    OccurrenceState,
    Record,
    Verdict,
)


def follow(record: Record, rows: Mapping[str, Effect], *, begun: Collection[str], now: float) -> Record | None:
    """Return what the record must become, without its claim; None if it is not behind these rows.

    `begun` are the rows that began and that nobody holds: one that is held will yet get its result. Settled: decided
    with that result. Closed: ended for its reason. Begun: decided, if it may be repeated as it was shown, else in
    doubt. Reserved: nothing has happened, so it ends a doubt and binds nobody.
    """
    occurrences = tuple(_followed(each, rows.get(each.interrupt_id), begun) for each in record.occurrences)
    if occurrences == record.occurrences:
        return None
    followed = replace(record, occurrences=occurrences, claim=None, retries=0, retry_at=None)
    if not in_state(followed, OccurrenceState.INDETERMINATE):
        return followed
    return release(replace(followed, retries=record.retries), in_doubt=(), now=now)


def begun_and_free(answers: Mapping[str, ReserveAnswer]) -> frozenset[str]:
    """Return the rows that a ledger said have begun and have no holder."""
    return frozenset(name for name, answer in answers.items() if isinstance(answer, Begun | DigestMismatch))


def refusal(answers: Mapping[str, ReserveAnswer], *, approved: Collection[str], followed: Record | None) -> Refusal:
    """Say to whom the ledger refused a batch what that means. `followed` is what the record became because of it."""
    names = tuple(answers)
    held = [answer for answer in answers.values() if isinstance(answer, Held)]
    if held and all(answer.same for answer in held):
        message = "A replica that is presumed alive is carrying out this very resume; send it again to get its answer."
        return Refusal(Code.RESUME_IN_PROGRESS, message, names, RETRY_SECONDS)
    if held:
        return Refusal(Code.THREAD_BUSY, "Another run holds this thread; retry later.", names, RETRY_SECONDS)
    in_doubt = in_state(followed, OccurrenceState.INDETERMINATE) if followed is not None else []
    if any(each.interrupt_id in approved for each in in_doubt):
        return indeterminate(in_doubt)
    message = "A call of this thread was answered otherwise, or has begun; the answer can not be taken. Reload it."
    return Refusal(Code.RESUME_CONFLICT, message, names)


def _followed(occurrence: Occurrence, row: Effect | None, begun: Collection[str]) -> Occurrence:
    if row is None:
        return occurrence
    match row.state:
        case EffectState.SETTLED:
            return _decided(occurrence, _approval(occurrence, row))
        case EffectState.CLOSED:
            return _closed(occurrence, row.why)
        case EffectState.BEGUN if row.interrupt_id in begun:
            state = OccurrenceState.DECIDED if _is_repeatable(occurrence, row) else OccurrenceState.INDETERMINATE
            return replace(occurrence, state=state, decision=_approval(occurrence, row))
        case EffectState.RESERVED if occurrence.state is OccurrenceState.INDETERMINATE:
            state = OccurrenceState.DECIDED if occurrence.decision else OccurrenceState.PENDING
            return replace(occurrence, state=state)
    return occurrence


def _approval(occurrence: Occurrence, row: Effect) -> Decision:
    """Return the approval that the row was reserved for.

    If that was of edited arguments, no more than their digest is known: nobody can execute it, but who sends the same
    answer again is known by it, and brings them along.
    """
    if occurrence.decision is not None and occurrence.decision.digest == row.digest:
        return occurrence.decision
    is_as_shown = row.digest == approval_digest(occurrence.tool, occurrence.arguments)
    return Decision(Verdict.APPROVE, occurrence.arguments if is_as_shown else UNKNOWN_ARGUMENTS, row.digest)


def _closed(occurrence: Occurrence, why: str | None) -> Occurrence:
    if why == EXPIRED and occurrence.state is OccurrenceState.PENDING:
        return occurrence  # Expiry ends the whole pause, and does so in its own write.
    decision = {"rejected": REJECTION, EXPIRED: EXPIRY}.get(why or "", CANCELLATION)
    is_ended = occurrence.decision is not None and occurrence.decision.verdict is not Verdict.APPROVE
    return _decided(occurrence, occurrence.decision if occurrence.decision and is_ended else decision)


def _decided(occurrence: Occurrence, decision: Decision) -> Occurrence:
    return replace(occurrence, state=OccurrenceState.DECIDED, decision=decision)


def _is_repeatable(occurrence: Occurrence, row: Effect) -> bool:
    """Say whether the call may be made again under its key: what began is what the record would execute."""
    shown = approval_digest(occurrence.tool, occurrence.arguments)
    wanted = occurrence.decision.digest if occurrence.decision else shown
    age_seconds, lifetime_seconds = row.begun_age_seconds, occurrence.key_lifetime_seconds
    is_young = age_seconds is not None and lifetime_seconds is not None and age_seconds < lifetime_seconds
    return row.kind is EffectKind.IDEMPOTENT and row.digest == wanted and is_young
