"""One row of the ledger as a value, and what may become of it: rules without a database."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from sqlalchemy import Row

from stores.ports import Batch, Begun, Closed, DigestMismatch, Held, Reservation, ReserveAnswer, Reserved, Settled
from stores.records import Effect, EffectKind, EffectState, ToolResult, result_from_json, to_json


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One row, named like the columns; `now` is the database's time at which it was read.

    `begun_by` are the attempts that may bring the result, `refuted` those whose begin was resolved as "did not happen".
    """

    interrupt_id: str
    state: EffectState
    kind: EffectKind
    digest: str
    key_lifetime_seconds: float | None
    attempt: str | None
    holder: str | None
    until: float
    begun_at: float | None
    begun_by: frozenset[str]
    refuted: frozenset[str]
    result: str | None
    why: str | None
    resolved_by: str | None
    evidence: str | None
    now: float

    @classmethod
    def of(cls, row: Row[Any]) -> EffectRow:
        """Read a row of the table."""
        columns = {field.name: getattr(row, field.name) for field in fields(cls)}
        return cls(
            **{
                **columns,
                "state": EffectState(row.state),
                "kind": EffectKind(row.kind),
                "begun_by": attempts_in(row.begun_by),
                "refuted": attempts_in(row.refuted),
            }
        )

    @property
    def begun_age_seconds(self) -> float | None:
        """How long ago the first begin was that still counts."""
        return None if self.begun_at is None else self.now - self.begun_at

    def effect(self) -> Effect:
        """Return the row as the port shows it."""
        return Effect(
            interrupt_id=self.interrupt_id,
            state=self.state,
            kind=self.kind,
            digest=self.digest,
            attempt=self.attempt,
            holder=self.holder,
            until=self.until,
            begun_age_seconds=self.begun_age_seconds,
            result=None if self.result is None else result_from_json(self.result),
            why=self.why,
        )

    def to_reserve(self, wanted: Reservation, batch: Batch) -> ReserveAnswer:
        """Answer a claimant."""
        if self.state is EffectState.CLOSED:
            return Closed(self.why or "")
        if self.result is not None:
            return Settled(result_from_json(self.result))
        if self.attempt != batch.attempt and not self._is_free(batch.dead):
            return Held(same=self.digest == wanted.digest)
        age_seconds = self.begun_age_seconds
        return Reserved(begun=wanted.begin) if age_seconds is None else self._to_repeat(wanted, age_seconds)

    def to_close(self, why: str, dead: Collection[str]) -> Closed | Held | Begun | Settled:
        """Answer who wants to end it without an effect."""
        if self.state is EffectState.CLOSED:
            return Closed(self.why or "")
        if self.result is not None:
            return Settled(result_from_json(self.result))
        if not self._is_free(dead):
            return Held(same=False)
        age_seconds = self.begun_age_seconds
        return Closed(why) if age_seconds is None else Begun(age_seconds)

    def reserved(self, wanted: Reservation, batch: Batch) -> EffectRow:
        """Hand it to an attempt that was answered Reserved; the time of the first begin stays."""
        held = replace(self, attempt=batch.attempt, holder=batch.holder, until=batch.until, digest=wanted.digest)
        if not wanted.begin and self.begun_at is None:
            return held
        first = self.now if self.begun_at is None else self.begun_at
        begun_by = self.begun_by | {batch.attempt}
        return replace(held, state=EffectState.BEGUN, begun_at=first, begun_by=begun_by)

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

    def _is_free(self, dead: Collection[str]) -> bool:
        return self.holder is None or self.holder in dead or self.until < self.now

    def _to_repeat(self, wanted: Reservation, age_seconds: float) -> Reserved | Begun | DigestMismatch:
        if self.digest != wanted.digest:
            return DigestMismatch()
        is_repeatable = self.kind is EffectKind.IDEMPOTENT and age_seconds < (self.key_lifetime_seconds or 0)
        return Reserved(begun=True) if is_repeatable else Begun(age_seconds)


def attempts_text(attempts: Collection[str]) -> str:
    """Return attempts as the table keeps them: a text that another one can be appended to by the database."""
    return "".join(f",{json.dumps(attempt)}" for attempt in sorted(attempts))


def attempts_in(text: str) -> frozenset[str]:
    """Return the attempts that a text of the table lists."""
    return frozenset(json.loads(f"[{text[1:]}]"))


def new_row(wanted: Reservation, batch: Batch) -> Mapping[str, object]:
    """Return the row that a reservation inserts where there is none."""
    return {
        "interrupt_id": wanted.interrupt_id,
        "state": EffectState.BEGUN if wanted.begin else EffectState.RESERVED,
        "kind": wanted.kind,
        "digest": wanted.digest,
        "key_lifetime_seconds": wanted.key_lifetime_seconds,
        "attempt": batch.attempt,
        "holder": batch.holder,
        "until": batch.until,
        "begun_by": attempts_text([batch.attempt] if wanted.begin else []),
    }


def new_closed_row(interrupt_id: str, why: str) -> Mapping[str, object]:
    """Return the row that is inserted for an occurrence that ends without an effect."""
    return {
        "interrupt_id": interrupt_id,
        "state": EffectState.CLOSED,
        "kind": EffectKind.NONE,
        "digest": "",
        "until": 0.0,
        "begun_by": "",
        "why": why,
    }
