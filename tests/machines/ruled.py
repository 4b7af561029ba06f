"""The approval rules over the memory store: no agent, no wire, a clock of its own, and the dead are who a test says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from app import admission, follow, lifecycle
from app.answers import Entry, call_digest, canonical
from app.errors import Refusal
from app.gated_tools import GatedTool
from app.lifecycle import Grant
from app.pairing import Replay
from stores.memory import MemoryWorld, memory_stores
from stores.ports import Batch, Began, Change, Loaded, NotReserved, Saved, Settled
from stores.records import (
    Bag,
    Claim,
    EffectKind,
    Occurrence,
    OccurrenceState,
    Record,
    Run,
    RunState,
    Scope,
    Snapshot,
    ThreadKey,
    ToolResult,
)

CLAIM_SECONDS = 300.0
APPROVAL_SECONDS = 1000.0
TOOLS = {kind.value: GatedTool(kind, key_lifetime_seconds=1e9) for kind in (EffectKind.IDEMPOTENT, EffectKind.UNSAFE)}


@dataclass(frozen=True, slots=True)
class Ticket:
    """A claim that was granted."""

    key: ThreadKey
    run: Run
    record: Record


class Ruled:
    """What a host asks the rules, in its order, each time with one compare-and-set."""

    def __init__(self, dead: set[str]) -> None:
        self.now = 0.0
        self._dead = dead
        self._stores = memory_stores(MemoryWorld(lambda: self.now))

    async def start(self, thread: str, holder: str) -> Ticket | str:
        """Begin a run that answers nothing; the refusal's code if it may not."""
        key, run = key_of(thread), Run(uuid4().hex, "said", RunState.RUNNING, uuid4().hex)
        opened = await self._stores.threads.open(
            key, run=run, holder=holder, claim_seconds=CLAIM_SECONDS, write_id=uuid4().hex
        )
        if opened.claimed:
            return Ticket(key, run, opened.loaded.record)
        loaded = await self._after_doubt(key, opened.loaded)
        answer = admission.start(
            loaded, run_id=run.run_id, input_digest="said", dead=self._dead, snapshot_bytes_max=1_000_000
        )
        assert not isinstance(answer, Replay), "the run id is new"
        return answer.code.value if isinstance(answer, Refusal) else await self._claim(key, loaded, run, answer, holder)

    async def resume(self, thread: str, holder: str, entries: Sequence[Entry]) -> Ticket | Replay | str:
        """Begin a run that answers interrupts."""
        key, run_id = key_of(thread), uuid4().hex
        names = [entry.name for entry in entries]
        loaded = await self._after_doubt(key, await self._stores.threads.load(key, interrupts=names, run_id=run_id))
        loaded = replace(loaded, known=(await self._stores.threads.load(key, interrupts=names)).known)
        answer = admission.resume(loaded, entries, run_id=run_id, tools=TOOLS, dead=self._dead)
        if isinstance(answer, Refusal):
            return answer.code.value
        if isinstance(answer, Replay):
            return answer
        return await self._claim(
            key, loaded, Run(run_id, answer.input_digest, RunState.RUNNING, uuid4().hex), answer, holder
        )

    async def begin(self, ticket: Ticket, name: str) -> bool:
        answer = await self._stores.effects.begin(ticket.key, interrupt_id=name, attempt=ticket.run.attempt)
        return isinstance(answer, Began)

    async def settle(self, ticket: Ticket, name: str) -> bool:
        """Record a result; whether it is the first."""
        answer = await self._stores.effects.settle(
            ticket.key, interrupt_id=name, attempt=ticket.run.attempt, result=ToolResult(({"text": name},))
        )
        return isinstance(answer, Settled)

    async def finish(self, ticket: Ticket, asked: Mapping[str, EffectKind]) -> bool:
        """Commit a run that asks for these calls; whether it could be."""
        rows = await self._stores.effects.read(
            ticket.key, interrupts=[each.interrupt_id for each in ticket.record.occurrences]
        )
        outcomes = lifecycle.outcomes_of(ticket.record, {name for name, row in rows.items() if row.result is not None})
        if outcomes is None:
            return False
        pause_id = uuid4().hex if asked else None
        pending = tuple(self._occurrence(name, kind, ticket.run.run_id) for name, kind in asked.items())
        change = Change(
            ticket.record.version,
            uuid4().hex,
            lifecycle.finish(pending=pending, pause_id=pause_id),
            snapshot=Snapshot(pause_id=pause_id),
            bag=Bag(pause_id, {}),
            runs=(replace(ticket.run, state=RunState.FINISHED, outcomes=outcomes),),
        )
        return isinstance(await self._stores.threads.save(ticket.key, change=change), Saved)

    async def release(self, ticket: Ticket) -> bool:
        record = lifecycle.release(ticket.record, in_doubt=(), now=self.now)
        change = Change(ticket.record.version, uuid4().hex, record, free=ticket.run.attempt)
        return isinstance(await self._stores.threads.save(ticket.key, change=change), Saved)

    async def states(self, thread: str) -> dict[str, OccurrenceState]:
        loaded = await self._stores.threads.load(key_of(thread))
        return {each.interrupt_id: each.state for each in loaded.record.occurrences}

    async def _claim(self, key: ThreadKey, loaded: Loaded, run: Run, grant: Grant, holder: str) -> Ticket | str:
        claim = Claim(run.attempt, holder, run.run_id, loaded.now + CLAIM_SECONDS)
        record = replace(loaded.record, occurrences=grant.occurrences, claim=claim)
        batch = lifecycle.batch_of(grant, claim, dead=self._dead, begin_idempotent=True)
        change = Change(loaded.record.version, uuid4().hex, record, runs=(run,), batch=batch)
        saved = await self._stores.threads.save(key, change=change)
        if isinstance(saved, Saved):
            return Ticket(key, run, replace(record, version=saved.version))
        assert isinstance(saved, NotReserved), "nobody writes between load and save here"
        return await self._refused(key, loaded, batch, saved)

    async def _refused(self, key: ThreadKey, loaded: Loaded, batch: Batch, refused: NotReserved) -> str:
        begun = follow.begun_and_free(refused.answers)
        rows = await self._stores.effects.read(key, interrupts=list(refused.answers))
        record = follow.follow(loaded.record, rows, begun=begun, now=loaded.now)
        if record is not None:
            await self._stores.threads.save(key, change=Change(loaded.record.version, uuid4().hex, record))
        approved = {row.interrupt_id for row in batch.approve}
        return follow.refusal(refused.answers, approved=approved, followed=record).code.value

    async def _after_doubt(self, key: ThreadKey, loaded: Loaded) -> Loaded:
        """Ask the ledger about what is in doubt, and follow it."""
        in_doubt = lifecycle.in_state(loaded.record, OccurrenceState.INDETERMINATE)
        rows = await self._stores.effects.read(key, interrupts=[each.interrupt_id for each in in_doubt])
        record = follow.follow(loaded.record, rows, begun=(), now=loaded.now) if in_doubt else None
        if record is None:
            return loaded
        await self._stores.threads.save(key, change=Change(loaded.record.version, uuid4().hex, record))
        return await self._stores.threads.load(key)

    def _occurrence(self, name: str, kind: EffectKind, run_id: str) -> Occurrence:
        arguments = canonical({"invoice": name})
        return Occurrence(
            name,
            f"call-{name}",
            kind.value,
            kind,
            arguments,
            call_digest(kind.value, arguments),
            run_id,
            created_at=self.now,
            expires_at=self.now + APPROVAL_SECONDS,
            key_lifetime_seconds=1e9,
            aliases=(f"call-{name}",),
        )


def entry_of(name: str, verdict: str) -> Entry:
    """Return the answer with this verdict, as a client sends it."""
    if verdict == "cancel":
        return Entry(name, "cancelled", None, "resume")
    payload = {"approved": verdict != "reject", **({"invoice": "edited"} if verdict == "edit" else {})}
    return Entry(name, "resolved", json.dumps(payload), "resume")


def key_of(thread: str) -> ThreadKey:
    return ThreadKey(Scope("alice"), "rules", thread)
