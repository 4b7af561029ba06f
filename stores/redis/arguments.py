"""What the scripts about threads and effects are given, in the order in which they take it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from stores.history import divided
from stores.ports import Batch, Change
from stores.records import Claim, Occurrence, Run, RunState, Snapshot, ThreadKey, to_json
from stores.redis.client import Argument
from stores.redis.keys import joined


def counted(texts: Collection[str]) -> Sequence[Argument]:
    """Return a list as `take_list` reads it."""
    return [len(texts), *texts]


def optional(text: str | None) -> Sequence[Argument]:
    """Return a text or none as a list that `take_list` reads."""
    return [0] if text is None else [1, text]


def ended_by(interrupts: Iterable[str]) -> Sequence[Argument]:
    """Return where to look for the run that ended one of these: by interrupt ids first, then by aliases."""
    names = list(interrupts)
    return counted([f"{of}{name}" for of in "ia" for name in names])


def changed(name: str, key: ThreadKey, change: Change) -> Sequence[Argument]:
    """Return a change as `thread_save.lua` takes it."""
    claim = change.record.claim
    return [
        name,
        change.expected.generation,
        change.expected.write_id,
        change.write_id,
        to_json(change.record),
        *(("", "") if claim is None else _claim(claim)),
        "" if change.due_at is None else change.due_at,
        *counted([_open(key, each) for each in change.record.occurrences]),
        *_snapshot(change.snapshot),
        "" if change.bag is None else to_json(change.bag),
        len(change.runs),
        *(part for run in change.runs for part in _run(run)),
        *optional(change.free),
        *((0,) if change.batch is None else (1, *reserved(change.batch))),
    ]


def claim_begins(run: Run, holder: str) -> str:
    """Return how a run's claim is stored, but for its `until`."""
    return joined(run.attempt, holder, run.run_id, "")


def reserved(batch: Batch) -> Sequence[Argument]:
    """Return a batch as `take_batch` reads it."""
    arguments: list[Argument] = [batch.attempt, batch.holder, batch.until, *counted(batch.dead), len(batch.approve)]
    for each in batch.approve:
        lifetime = "" if each.key_lifetime_seconds is None else each.key_lifetime_seconds
        arguments += [each.interrupt_id, each.kind.value, each.digest, lifetime, int(each.begin)]
    arguments.append(len(batch.close))
    for name, why in batch.close.items():
        arguments += [name, why]
    return arguments


def _claim(claim: Claim) -> Sequence[Argument]:
    return joined(claim.attempt, claim.holder, claim.run_id, repr(claim.until)), f"{claim.until!r} {claim.holder}"


def _open(key: ThreadKey, each: Occurrence) -> str:
    times = repr(each.created_at), repr(each.expires_at)
    return joined(each.interrupt_id, key.agent, key.thread_id, each.state, each.tool, *times)


def _snapshot(snapshot: Snapshot | None) -> Sequence[Argument]:
    if snapshot is None:
        return "", 1, ""
    parts = divided(snapshot)
    return parts.text, int(parts.keeps), parts.chunk or ""


def _run(run: Run) -> Sequence[Argument]:
    fields = []
    if run.state is RunState.FINISHED:
        fields = [f"i{each.interrupt_id}" for each in run.outcomes]
        fields += [f"a{alias}" for each in run.outcomes for alias in each.aliases]
    return run.run_id, to_json(run), *counted(fields)
