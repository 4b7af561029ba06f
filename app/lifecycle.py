"""The approval rules that change what is stored, as pure functions: (record, event, now) -> record or refusal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from app.answers import CANCELLATION, digest
from app.errors import Code, Refusal
from stores.ports import Batch, Closed, Loaded, Reservation, ReserveAnswer, Reserved, Settled
from stores.records import (
    Claim,
    Decision,
    EffectKind,
    Occurrence,
    OccurrenceState,
    Outcome,
    Record,
    Run,
    RunState,
    StandingRule,
    Verdict,
)

RETRY_SECONDS = 1.0
"""First pause before a resume that failed is repeated; doubled each time."""
PUT_OFF_SECONDS = 60.0
"""Pause before a thread is looked at again that this version can not carry out (its tool is gone, say)."""
DOUBT_SECONDS = 5.0
"""First pause between two questions about an occurrence in doubt; doubled each time, up to 43 minutes."""
UNKNOWN_ARGUMENTS = ""
"""What a decision has for arguments where only the ledger kept it, by its digest."""

EXPIRY = Decision(Verdict.EXPIRE, "", digest("expire"))
"""What time decides of a call that nobody answered, where other calls of its pause go on."""
EXPIRED = "expired"
"""Why a row was closed whose approval was not answered in time."""

_ENDS = {
    Verdict.APPROVE: OccurrenceState.FINISHED,
    Verdict.REJECT: OccurrenceState.REJECTED,
    Verdict.CANCEL: OccurrenceState.CANCELLED,
    Verdict.EXPIRE: OccurrenceState.EXPIRED,
}
_CLOSE_REASONS = {Verdict.REJECT: "rejected", Verdict.CANCEL: "cancelled", Verdict.EXPIRE: EXPIRED}


@dataclass(frozen=True, slots=True)
class Grant:
    """The run may claim the thread with these decided occurrences (none for a plain run)."""

    occurrences: tuple[Occurrence, ...]

    @property
    def input_digest(self) -> str:
        """The digest of all decisions of the batch: what makes one resume the same as another."""
        parts = sorted((each.interrupt_id, each.decision.identity) for each in self.occurrences if each.decision)
        return digest("resume", *(text for part in parts for text in part))


def is_live(claim: Claim | None, *, now: float, dead: Collection[str]) -> bool:
    """A claim is live while its own `until` has not passed and its holder is not known to be dead."""
    return claim is not None and claim.until > now and claim.holder not in dead


def batch_of(grant: Grant, claim: Claim, *, dead: Collection[str], begin_idempotent: bool) -> Batch:
    """Return the ledger rows a claim needs: approved calls reserved, rejected and cancelled ones closed."""
    approve: list[Reservation] = []
    close: dict[str, str] = {}
    for each in grant.occurrences:
        assert each.decision is not None, "a grant holds decided occurrences only"
        if each.decision.verdict is Verdict.APPROVE:
            # What a context provider offers is seen in the run only: it may refuse before anything of it begins.
            is_begun = begin_idempotent and each.kind is EffectKind.IDEMPOTENT and not each.provided
            row = Reservation(each.interrupt_id, each.kind, each.decision.digest, each.key_lifetime_seconds, is_begun)
            approve.append(row)
        else:
            close[each.interrupt_id] = _CLOSE_REASONS[each.decision.verdict]
    return Batch(claim.attempt, claim.holder, claim.until, tuple(approve), close, tuple(dead))


def is_reserved(batch: Batch, answers: Mapping[str, ReserveAnswer]) -> bool:
    """Say whether a ledger took a whole batch."""
    is_approved = all(isinstance(answers.get(row.interrupt_id), Reserved | Settled) for row in batch.approve)
    return is_approved and all(isinstance(answers.get(name), Closed) for name in batch.close)


def finish(*, pending: tuple[Occurrence, ...], pause_id: str | None, rules: tuple[StandingRule, ...] = ()) -> Record:
    """Return the record after a run committed: what it decided is gone, what it raised is open, no claim."""
    return Record(pause_id=pause_id if pending else None, occurrences=pending, standing_rules=rules)


def go_on(finished: Record, claim: Claim) -> Record:
    """Return the record of a run that ends with no question to a person: it keeps its claim and carries on."""
    return replace(finished, claim=claim, resume_run_id=claim.run_id, goes_on=True)


def batch_for_later(decided: tuple[Occurrence, ...], *, attempt: str, holder: str) -> Batch:
    """Return the rows of calls that rules decided in a pause: reserved, and free at once for the run it waits for."""
    claim = Claim(attempt, holder, "", until=0.0)
    return batch_of(Grant(decided), claim, dead=(), begin_idempotent=False)


def outcomes_of(record: Record, ended: Collection[str]) -> tuple[Outcome, ...] | None:
    """Return the outcomes of the decided occurrences, or None if one of them has not come to its end."""
    if any(_is_approved(each) and each.interrupt_id not in ended for each in record.occurrences):
        return None
    return tuple(outcome_of(each, _ENDS[each.decision.verdict]) for each in record.occurrences if each.decision)


def left_run(record: Record, *, run_id: str, attempt: str, settled: Collection[str]) -> Run:
    """Return the run that a cancel leaves of a stuck thread: settled calls finished, undone ones cancelled."""
    outcomes: list[Outcome] = []
    for each in record.occurrences:
        if each.interrupt_id in settled:
            outcomes.append(outcome_of(each, OccurrenceState.FINISHED))
        elif each.decision is not None and each.decision.verdict is not Verdict.APPROVE:
            outcomes.append(outcome_of(each, _ENDS[each.decision.verdict]))
        else:
            outcomes.append(outcome_of(replace(each, decision=CANCELLATION), OccurrenceState.CANCELLED))
    return Run(run_id, left_digest(outcomes), RunState.FINISHED, attempt, tuple(outcomes))


def left_digest(outcomes: Collection[Outcome]) -> str:
    """Return the input digest of a run that left a stuck thread; the same cancel is known by it."""
    return digest("leave", *sorted(each.interrupt_id for each in outcomes))


def outcome_of(occurrence: Occurrence, state: OccurrenceState) -> Outcome:
    """Return the retained end of one occurrence."""
    return Outcome(
        interrupt_id=occurrence.interrupt_id,
        call_id=occurrence.call_id,
        tool=occurrence.tool,
        arguments=occurrence.arguments,
        state=state,
        decision=occurrence.decision,
        aliases=occurrence.aliases,
    )


def release(record: Record, *, in_doubt: Collection[str], now: float) -> Record:
    """Drop the claim only: decisions stay, named occurrences turn indeterminate, the next try waits a little longer."""
    occurrences = tuple(
        replace(each, state=OccurrenceState.INDETERMINATE) if each.interrupt_id in in_doubt else each
        for each in record.occurrences
    )
    pause = RETRY_SECONDS * 2.0 ** min(record.retries, 10)
    return replace(record, occurrences=occurrences, claim=None, retries=record.retries + 1, retry_at=now + pause)


def put_off(record: Record, *, now: float) -> Record:
    """Drop a dead claim of a thread that can not go on here and now; that is no failure and counts as no try."""
    if in_state(record, OccurrenceState.INDETERMINATE):
        return release(record, in_doubt=(), now=now)
    return replace(record, claim=None, retry_at=now + PUT_OFF_SECONDS)


def expired(loaded: Loaded) -> tuple[Occurrence, ...]:
    """Return the pending occurrences once all of them are past their time; nothing else expires."""
    record = loaded.record
    if record.claim is not None or in_state(record, OccurrenceState.INDETERMINATE):
        return ()
    pending = tuple(in_state(record, OccurrenceState.PENDING))
    return pending if all(each.expires_at <= loaded.now for each in pending) else ()


def without(record: Record, unanswered: Collection[Occurrence]) -> Record:
    """Return a record whose other calls go on without these, which nobody answered in time."""
    occurrences = tuple(
        replace(each, state=OccurrenceState.DECIDED, decision=EXPIRY) if each in unanswered else each
        for each in record.occurrences
    )
    return replace(record, occurrences=occurrences, retries=0, retry_at=None)


def due_at(record: Record, *, now: float, retries_max: int) -> float | None:
    """When a thread without a claim wants attention next: expiry, the next try, the next question to the ledger."""
    if in_state(record, OccurrenceState.INDETERMINATE):
        return now + DOUBT_SECONDS * 2.0 ** min(record.retries, 9)
    pending = in_state(record, OccurrenceState.PENDING)
    if pending:
        return max(record.retry_at or 0.0, *(each.expires_at for each in pending))
    if not record.occurrences or record.retries > retries_max:
        return None
    return record.retry_at or now


def indeterminate(in_doubt: Sequence[Occurrence]) -> Refusal:
    """Refuse because a call may have run and left no result; it names the calls and waits for an operator."""
    names = tuple(each.interrupt_id for each in in_doubt)
    message = f"The call '{in_doubt[0].tool}' ({names[0]}) may have run and left no result; an operator must say which."
    return Refusal(Code.OUTCOME_INDETERMINATE, message, names)


def _is_approved(occurrence: Occurrence) -> bool:
    return occurrence.decision is not None and occurrence.decision.verdict is Verdict.APPROVE


def in_state(record: Record, state: OccurrenceState) -> list[Occurrence]:
    """Return the open occurrences in this state."""
    return [each for each in record.occurrences if each.state is state]


def not_in_state(record: Record, state: OccurrenceState) -> list[Occurrence]:
    """Return the open occurrences in any other state."""
    return [each for each in record.occurrences if each.state is not state]
