"""What the scripts about threads and effects answer, as values of the ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stores.history import joined
from stores.ports import (
    Batch,
    Begun,
    Closed,
    DigestMismatch,
    Held,
    Loaded,
    ReserveAnswer,
    Reserved,
    Settled,
)
from stores.records import (
    Claim,
    Effect,
    EffectKind,
    EffectState,
    Record,
    Run,
    Version,
    bag_from_json,
    record_from_json,
    result_from_json,
    run_from_json,
)
from stores.redis.keys import parted

Reply = Sequence[Any]


def loaded_from(reply: Reply) -> Loaded:
    """Read a thread."""
    now, generation, write_id, claim, record, snapshot, bag, known, chunks = reply
    return Loaded(
        record=Record() if record is None else _record(record, generation, write_id, claim),
        now=float(now),
        snapshot=None if snapshot is None else joined(snapshot, chunks),
        bag=None if bag is None else bag_from_json(bag),
        known=run_from(known),
        snapshot_bytes=sum(map(len, chunks), 0 if snapshot is None else len(snapshot)),
    )


def run_from(reply: bytes | None) -> Run | None:
    """Read a run."""
    return None if reply is None else run_from_json(reply)


def answers_from(batch: Batch, reply: Iterable[Reply]) -> Mapping[str, ReserveAnswer]:
    """Read what the ledger answered to a batch."""
    names = [*(each.interrupt_id for each in batch.approve), *batch.close]
    return {name: _answer(*answer) for name, answer in zip(names, reply, strict=True)}


def effect_from(interrupt_id: str, reply: Reply) -> Effect:
    """Read a row of the ledger."""
    state, kind, digest, attempt, holder, until, age, result, why = reply
    return Effect(
        interrupt_id=interrupt_id,
        state=EffectState(state.decode()),
        kind=EffectKind(kind.decode()),
        digest=digest.decode(),
        attempt=None if attempt is None else attempt.decode(),
        holder=None if holder is None else holder.decode(),
        until=float(until),
        begun_age_seconds=None if age is None else float(age),
        result=None if result is None else result_from_json(result),
        why=None if why is None else why.decode(),
    )


def _record(text: bytes, generation: bytes, write_id: bytes, claim: bytes) -> Record:
    return record_from_json(text, Version(int(generation), write_id.decode()), _claim(claim) if claim else None)


def _claim(text: bytes) -> Claim:
    attempt, holder, run_id, until = parted(text)
    return Claim(attempt, holder, run_id, float(until))


def _answer(kind: bytes, value: bytes) -> ReserveAnswer:
    match kind:
        case b"reserved":
            return Reserved(begun=value == b"1")
        case b"held":
            return Held(same=value == b"1")
        case b"begun":
            return Begun(float(value))
        case b"settled":
            return Settled(result_from_json(value))
        case b"closed":
            return Closed(value.decode())
        case _:
            return DigestMismatch()
