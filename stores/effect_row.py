"""One row of the ledger as a value, and what may become of it: the rules of every adapter that runs Python.

`now` is always the store's own time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from stores.ports import (
    AlreadySettled,
    Batch,
    Began,
    Begun,
    Closed,
    DigestMismatch,
    Fenced,
    Held,
    Reservation,
    ReserveAnswer,
    Reserved,
    SecondEffect,
    Settled,
)
from stores.records import Effect, EffectKind, EffectState, ToolResult, result_from_json, to_json


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One row of the ledger.

    `holder` is None while it is free, `begun_at` the time of the first begin that still counts. `begun_by` are the
    attempts that may bring the result, `refuted` those whose begin was resolved as "did not happen".
    """

    interrupt_id: str
    state: EffectState
    kind: EffectKind = EffectKind.NONE
    digest: str = ""
    key_lifetime_seconds: float | None = None
    attempt: str | None = None
    holder: str | None = None
    until: float = 0.0
    begun_at: float | None = None
    begun_by: frozenset[str] = frozenset()
    refuted: frozenset[str] = frozenset()
    result: str | None = None
    why: str | None = None
    resolved_by: str | None = None
    evidence: str | None = None

    def effect(self, now: float) -> Effect:
        """Return the row as the port shows it."""
        return Effect(
            interrupt_id=self.interrupt_id,
            state=self.state,
            kind=self.kind,
            digest=self.digest,
            attempt=self.attempt,
            holder=self.holder,
            until=self.until,
            begun_age_seconds=None if self.begun_at is None else now - self.begun_at,
            result=None if self.result is None else result_from_json(self.result),
            why=self.why,
        )

    def to_reserve(self, wanted: Reservation, batch: Batch, now: float) -> ReserveAnswer:
        """Answer a claimant."""
        if self.state is EffectState.CLOSED:
            return Closed(self.why or "")
        if self.result is not None:
            return Settled(result_from_json(self.result))
        if self.attempt != batch.attempt and not self._is_free(batch.dead, now):
            return Held(same=self.digest == wanted.digest)
        return Reserved(begun=wanted.begin) if self.begun_at is None else self._to_repeat(wanted, now - self.begun_at)

    def to_close(self, why: str, dead: Collection[str], now: float) -> Closed | Held | Begun | Settled:
        """Answer who wants to end it without an effect."""
        if self.state is EffectState.CLOSED:
            return Closed(self.why or "")
        if self.result is not None:
            return Settled(result_from_json(self.result))
        if not self._is_free(dead, now):
            return Held(same=False)
        return Closed(why) if self.begun_at is None else Begun(now - self.begun_at)

    def to_begin(self, attempt: str) -> Began | Fenced:
        """Answer an attempt that wants the effect to start."""
        if self.attempt != attempt:
            return Fenced()
        is_reserved = self.state is EffectState.RESERVED and self.holder is not None
        return Began() if is_reserved or self.state is EffectState.BEGUN else Fenced()

    def to_settle(self, attempt: str, result: ToolResult) -> Settled | AlreadySettled | SecondEffect | Fenced:
        """Answer an attempt that brings a result."""
        if attempt not in self.begun_by | self.refuted:
            return Fenced()
        if attempt in self.refuted and (self.begun_by - {attempt} or self.state is EffectState.CLOSED):
            return SecondEffect()
        if self.state is EffectState.CLOSED:
            return Fenced()
        return Settled(result) if self.result is None else AlreadySettled(result_from_json(self.result))

    def to_resolve(self, attempt: str, result: ToolResult | None) -> Settled | Reserved | Fenced:
        """Answer who states what became of an attempt's begin (None: it did not happen)."""
        if self.result is not None:
            return Settled(result_from_json(self.result))
        if self.is_doubted_under(attempt):
            return Reserved() if result is None else Settled(result)
        is_unchanged = self.state is EffectState.RESERVED and self.holder is None and self.attempt == attempt
        return Reserved() if result is None and is_unchanged and attempt in self.refuted else Fenced()

    def is_doubted_under(self, attempt: str) -> bool:
        """Say whether a statement about this attempt's begin may change it."""
        return self.state is EffectState.BEGUN and self.attempt == attempt

    def reserved(self, wanted: Reservation, batch: Batch, now: float) -> EffectRow:
        """Hand it to an attempt that was answered Reserved; the time of the first begin stays."""
        held = replace(self, attempt=batch.attempt, holder=batch.holder, until=batch.until, digest=wanted.digest)
        return held.begun(now) if wanted.begin or held.state is EffectState.BEGUN else held

    def begun(self, now: float) -> EffectRow:
        """Note that the effect may start under the attempt that holds it."""
        assert self.attempt is not None, "only a row that was reserved is begun"
        first = now if self.begun_at is None else self.begun_at
        return replace(self, state=EffectState.BEGUN, begun_at=first, begun_by=self.begun_by | {self.attempt})

    def freed(self) -> EffectRow:
        """Drop the hold on it."""
        return replace(self, holder=None)

    def closed(self, why: str) -> EffectRow:
        """End it without an effect; a reason given earlier stands."""
        if self.state is EffectState.CLOSED:
            return self
        return replace(self, state=EffectState.CLOSED, why=why, holder=None)

    def settled(self, result: ToolResult) -> EffectRow:
        """Give it its result."""
        return replace(self, state=EffectState.SETTLED, result=to_json(result))

    def resolved(self, result: ToolResult | None, by: str, evidence: str) -> EffectRow:
        """State what became of a begun row; without a result it did not happen, and is free."""
        row = replace(self, resolved_by=by, evidence=evidence)
        if result is not None:
            return row.settled(result)
        refuted = self.refuted | self.begun_by
        reserved = EffectState.RESERVED
        return replace(row, state=reserved, holder=None, begun_at=None, begun_by=frozenset(), refuted=refuted)

    def _is_free(self, dead: Collection[str], now: float) -> bool:
        return self.holder is None or self.holder in dead or self.until < now

    def _to_repeat(self, wanted: Reservation, age_seconds: float) -> Reserved | Begun | DigestMismatch:
        if self.digest != wanted.digest:
            return DigestMismatch()
        is_repeatable = self.kind is EffectKind.IDEMPOTENT and age_seconds < (self.key_lifetime_seconds or 0)
        return Reserved(begun=True) if is_repeatable else Begun(age_seconds)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the ledger answers to a batch, and the rows to write; None if it refuses the batch."""

    answers: Mapping[str, ReserveAnswer]
    rows: Mapping[str, EffectRow] | None


def judged(rows: Mapping[str, EffectRow], batch: Batch, now: float) -> Judgement:
    """Reserve and close a whole batch, or none of it. `rows` are those that are there."""
    reserved = {each.interrupt_id: _to_reserve(rows.get(each.interrupt_id), each, batch, now) for each in batch.approve}
    closed = {name: _to_close(rows.get(name), why, batch.dead, now) for name, why in batch.close.items()}
    answers: Mapping[str, ReserveAnswer] = {**reserved, **closed}
    is_complete = all(isinstance(answer, Reserved | Settled) for answer in reserved.values())
    if not is_complete or not all(isinstance(answer, Closed) for answer in closed.values()):
        return Judgement(answers, None)
    written = {name: (rows.get(name) or new_closed(name)).closed(why) for name, why in batch.close.items()}
    for wanted in batch.approve:
        name = wanted.interrupt_id
        if isinstance(reserved[name], Reserved):
            written[name] = (rows.get(name) or new_row(wanted)).reserved(wanted, batch, now)
    return Judgement(answers, written)


def closed_or_refused(
    rows: Mapping[str, EffectRow], interrupts: Mapping[str, str], now: float
) -> tuple[Mapping[str, Held | Begun | Settled], Mapping[str, EffectRow]]:
    """Close rows, all or none: what stands in the way, else the rows to write."""
    answers = {name: _to_close(rows.get(name), why, (), now) for name, why in interrupts.items()}
    refused = {name: answer for name, answer in answers.items() if not isinstance(answer, Closed)}
    written = {name: (rows.get(name) or new_closed(name)).closed(why) for name, why in interrupts.items()}
    return refused, {} if refused else written


def new_row(wanted: Reservation) -> EffectRow:
    """Return the row of a call that nobody has reserved yet."""
    return EffectRow(wanted.interrupt_id, EffectState.RESERVED, wanted.kind, wanted.digest, wanted.key_lifetime_seconds)


def new_closed(interrupt_id: str) -> EffectRow:
    """Return the row, about to be closed, of an occurrence that was never reserved."""
    return EffectRow(interrupt_id, EffectState.RESERVED)


def _to_reserve(row: EffectRow | None, wanted: Reservation, batch: Batch, now: float) -> ReserveAnswer:
    return Reserved(begun=wanted.begin) if row is None else row.to_reserve(wanted, batch, now)


def _to_close(row: EffectRow | None, why: str, dead: Collection[str], now: float) -> Closed | Held | Begun | Settled:
    return Closed(why) if row is None else row.to_close(why, dead, now)
