"""ApprovalAuthority: load, apply a rule, compare-and-set, act. It and its upkeep alone write the ThreadStore."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

from app import admission, lifecycle
from app.admission import Replay
from app.answers import Entry
from app.errors import Code, Refusal, RunRefused
from app.lifecycle import Grant
from app.replicas import Replica
from app.steps import OnStep, Step
from app.tickets import Ending, Ticket
from app.upkeep import Upkeep, again_if_in_doubt
from stores.errors import WriteInDoubt
from stores.ports import Change, Loaded, Lost, NotReserved, ReserveAnswer, Saved, Stores
from stores.records import (
    Claim,
    EffectKind,
    Json,
    OccurrenceState,
    Record,
    Run,
    RunState,
    ThreadKey,
)

COMPARES_MAX = 5
"""How often a change that lost its compare is decided anew before the caller is told to retry."""


class ApprovalAuthority:
    """Decides, by compare-and-set alone, which run may work on a thread, and commits what it did."""

    def __init__(
        self, stores: Stores, replica: Replica, upkeep: Upkeep, *, claim_seconds: float, on_step: OnStep
    ) -> None:
        self._stores = stores
        self._replica = replica
        self._claim_seconds = claim_seconds
        self._on_step = on_step
        self._upkeep = upkeep

    async def view(self, key: ThreadKey) -> Loaded:
        """Read a thread for showing it. Writes nothing."""
        return await self._stores.threads.load(key)

    async def start(self, key: ThreadKey, *, run_id: str, input_digest: str) -> Ticket | Replay | Refusal:
        """Claim the thread for a run that answers nothing, or say why not. Raises StoreUnavailable."""
        run = Run(run_id, input_digest, RunState.RUNNING, uuid4().hex)
        since = time.monotonic()
        loaded = await self._open(key, run)
        if loaded.record.claim is not None and loaded.record.claim.attempt == run.attempt:
            return self._ticket(key, run, loaded.record, loaded, since)
        for _ in range(COMPARES_MAX):
            if not await self._upkeep.expire(key, loaded) and not await self._upkeep.end_doubt(key, loaded):
                dead = await self._dead(loaded)
                answer = admission.start(loaded, run_id=run_id, input_digest=input_digest, dead=dead)
                claimed = await self._claim(key, loaded, run, answer, dead) if isinstance(answer, Grant) else answer
                if claimed is not None:
                    return claimed
            loaded = await self._stores.threads.load(key, run_id=run_id)
        return _busy()

    async def resume(
        self,
        key: ThreadKey,
        *,
        run_id: str,
        entries: Sequence[Entry],
        messages: tuple[Json, ...],
        tools: Mapping[str, EffectKind],
    ) -> Ticket | Replay | Refusal:
        """Claim the thread with the decisions of these answers, or say why not. Raises StoreUnavailable.

        `messages` are the user's words that came with them: kept with the claim for whoever takes it over.
        """
        names = [entry.name for entry in entries]
        for _ in range(COMPARES_MAX):
            await self._on_step(f"before-{Step.LOAD}", key)
            loaded = await self._stores.threads.load(key, interrupts=names, run_id=run_id)
            await self._on_step(f"after-{Step.LOAD}", key)
            if await self._upkeep.end_doubt(key, loaded):
                continue
            said = replace(loaded, record=replace(loaded.record, resume_messages=messages))
            claimed = await self._resume_once(key, said, run_id=run_id, entries=entries, tools=tools)
            if claimed is not None:
                return claimed
        return _busy()

    async def take_over(self, key: ThreadKey, *, tools: Mapping[str, EffectKind]) -> Ticket | None:
        """Bring a due thread on: expire it, end its doubt, free it, or claim it to carry out what was decided."""
        loaded = await self._stores.threads.load(key)
        record = loaded.record
        if await self._upkeep.expire(key, loaded) or await self._upkeep.end_doubt(key, loaded):
            return None
        dead = await self._dead(loaded)
        if lifecycle.is_live(record.claim, now=loaded.now, dead=dead):
            return None
        grant = admission.take_over(loaded, tools=tools, dead=dead)
        if grant is None or await self._lost_effects(key, loaded, dead):
            await self._upkeep.put_off(key, loaded)
            return None
        run_id = record.claim.run_id if record.claim else record.resume_run_id
        run = Run(run_id or uuid4().hex, grant.input_digest, RunState.RUNNING, uuid4().hex)
        claimed = await self._claim(key, loaded, run, grant, dead)
        return claimed if isinstance(claimed, Ticket) else None

    async def finish(self, ticket: Ticket, ending: Ending) -> None:
        """Commit a run whole: record, snapshot, bag and run row in one write.

        Raises RunRefused if another run has taken the thread over, or a decided call has not come to its end.
        """
        outcomes = lifecycle.outcomes_of(ticket.record, ending.ended)
        if outcomes is None:
            raise RunRefused(Refusal(Code.RUN_FAILED, "An approved call was not carried out; send the same again."))
        interrupts = ending.snapshot.interrupts if ending.pending else ()
        run = replace(
            ticket.run, state=RunState.FINISHED, outcomes=outcomes, events=ending.events, interrupts=interrupts
        )
        record = lifecycle.finish(pending=ending.pending, pause_id=ending.pause_id)
        change = Change(
            expected=ticket.record.version,
            write_id=uuid4().hex,
            record=record,
            snapshot=ending.snapshot,
            bag=ending.bag,
            runs=(run,),
            due_at=self._upkeep.due_at(record, ticket.loaded.now),
        )
        await self._on_step(f"before-{Step.FINISH}", ticket.key)
        saved = await self._upkeep.save(ticket.key, change)
        await self._on_step(f"after-{Step.FINISH}", ticket.key)
        if not isinstance(saved, Saved):
            code = Code.RESUME_IN_PROGRESS if ticket.record.occurrences else Code.THREAD_BUSY
            message = "Another run has taken this thread over; send the same again to get its answer."
            raise RunRefused(Refusal(code, message, tuple(ticket.answers)))

    async def _resume_once(
        self,
        key: ThreadKey,
        loaded: Loaded,
        *,
        run_id: str,
        entries: Sequence[Entry],
        tools: Mapping[str, EffectKind],
    ) -> Ticket | Replay | Refusal | None:
        """Decide about the thread as it was loaded; None if it has changed since."""
        dead = await self._dead(loaded)
        lost = await self._lost_effects(key, loaded, dead)
        retries_max = self._upkeep.retries_max
        if admission.leaves_stuck(loaded, entries, tools=tools, dead=dead, retries_max=retries_max, lost_effects=lost):
            used = await self._used_run_id(key, loaded, run_id, Grant(()))
            left = used or await self._upkeep.leave(key, loaded, run_id=run_id)
            return Replay(left, is_repeat=False) if isinstance(left, Run) else left
        answer = admission.resume(loaded, entries, run_id=run_id, tools=tools, dead=dead)
        if not isinstance(answer, Grant):
            return answer
        refusal = admission.effect_lost(lost) if lost else await self._used_run_id(key, loaded, run_id, answer)
        run = Run(run_id, answer.input_digest, RunState.RUNNING, uuid4().hex)
        return refusal or await self._claim(key, loaded, run, answer, dead)

    async def _open(self, key: ThreadKey, run: Run) -> Loaded:
        write_id = uuid4().hex
        try:
            opened = await again_if_in_doubt(
                lambda: self._stores.threads.open(
                    key,
                    run=run,
                    holder=self._replica.holder,
                    claim_seconds=self._claim_seconds,
                    write_id=write_id,
                )
            )
        except WriteInDoubt:
            self._upkeep.remember(key, run.attempt)
            raise
        return opened.loaded

    async def _claim(
        self, key: ThreadKey, loaded: Loaded, run: Run, grant: Grant, dead: frozenset[str]
    ) -> Ticket | Refusal | None:
        """Reserve in the ledger, then claim the record; one write where they share a database. None: compare lost."""
        since = time.monotonic()
        claim = Claim(run.attempt, self._replica.holder, run.run_id, loaded.now + self._claim_seconds)
        resume_run_id = run.run_id if grant.occurrences else None
        record = replace(loaded.record, occurrences=grant.occurrences, claim=claim, resume_run_id=resume_run_id)
        batch = lifecycle.batch_of(grant, claim, dead=dead, begin_idempotent=self._stores.shared)
        is_joint = self._stores.shared and bool(grant.occurrences)
        await self._on_step(f"before-{Step.CLAIM}", key)
        answers: Mapping[str, ReserveAnswer] = {}
        if grant.occurrences and not is_joint:
            answers = await self._stores.effects.reserve(key, batch=batch)
            if not lifecycle.is_reserved(batch, answers):
                return await self._follow_ledger(key, loaded, record, answers)
        change = Change(
            expected=loaded.record.version,
            write_id=uuid4().hex,
            record=record,
            runs=(run,),
            batch=batch if is_joint else None,
        )
        try:
            saved = await self._upkeep.save(key, change)
        except WriteInDoubt:
            self._upkeep.remember(key, run.attempt)
            raise
        await self._on_step(f"after-{Step.CLAIM}", key)
        match saved:
            case NotReserved():
                return await self._follow_ledger(key, loaded, record, saved.answers)
            case Lost():
                if answers:
                    await self._stores.effects.free(key, attempt=run.attempt)
                return None
            case Saved():
                committed = replace(record, version=saved.version)
                return self._ticket(key, run, committed, loaded, since, saved.answers or answers)

    async def _follow_ledger(
        self, key: ThreadKey, loaded: Loaded, record: Record, answers: Mapping[str, ReserveAnswer]
    ) -> Refusal:
        """Refuse as the ledger says, and bring a record that is behind its ledger after it."""
        refusal, followed = lifecycle.not_reserved(record, answers, now=loaded.now)
        if followed is not None:
            due_at = self._upkeep.due_at(followed, loaded.now)
            await self._upkeep.save(key, Change(loaded.record.version, uuid4().hex, followed, due_at=due_at))
        return refusal

    async def _used_run_id(self, key: ThreadKey, loaded: Loaded, run_id: str, grant: Grant) -> Refusal | None:
        """Refuse a run id under which other input has finished; `known` may be another run, found by an interrupt."""
        if loaded.known is None or loaded.known.run_id == run_id:
            return None
        run = await self._stores.threads.outcome(key, run_id=run_id)
        return admission.other_run(run, run_id, grant) if run and run.state is RunState.FINISHED else None

    async def _lost_effects(self, key: ThreadKey, loaded: Loaded, dead: frozenset[str]) -> frozenset[str]:
        """Return the decided calls without a row in the ledger: their decision and row were committed together."""
        record = loaded.record
        if lifecycle.is_live(record.claim, now=loaded.now, dead=dead):
            return frozenset()
        decided = {each.interrupt_id for each in lifecycle.in_state(record, OccurrenceState.DECIDED)}
        rows = await self._stores.effects.read(key, interrupts=decided) if decided else {}
        return frozenset(decided - rows.keys())

    async def _dead(self, loaded: Loaded) -> frozenset[str]:
        claim = loaded.record.claim
        is_open = claim is not None and claim.until > loaded.now
        return await self._replica.dead({claim.holder}) if claim is not None and is_open else frozenset()

    def _ticket(
        self,
        key: ThreadKey,
        run: Run,
        record: Record,
        loaded: Loaded,
        since: float,
        answers: Mapping[str, ReserveAnswer] | None = None,
    ) -> Ticket:
        assert record.claim is not None, "a ticket is made from a claimed record"
        deadline = since + record.claim.until - loaded.now
        return Ticket(key, run, record, loaded, deadline, answers or {})


def _busy() -> Refusal:
    return Refusal(Code.THREAD_BUSY, "The thread changed under every try; retry later.", (), lifecycle.RETRY_SECONDS)
