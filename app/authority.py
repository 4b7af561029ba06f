"""ApprovalAuthority: load, apply a rule, compare-and-set, act. It and its upkeep alone write the ThreadStore."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

from app import admission, lifecycle, lost_record
from app.admission import Replay
from app.again import save
from app.answers import Entry
from app.claims import Claims
from app.errors import Code, Refusal, RunRefused
from app.lifecycle import Grant
from app.releases import Releases
from app.replicas import Replica
from app.sizes import outgrown
from app.steps import OnStep, Step
from app.tickets import Ending, LetGo, Ticket
from app.upkeep import Upkeep
from stores import history
from stores.ports import Change, Loaded, Saved, Stores
from stores.records import EffectKind, Json, OccurrenceState, Run, RunState, Snapshot, ThreadKey

_log = logging.getLogger(__name__)

COMPARES_MAX = 5
"""How often a change that lost its compare is decided anew before the caller is told to retry."""


class ApprovalAuthority:
    """Decides, by compare-and-set alone, which run may work on a thread, and commits what it did."""

    def __init__(
        self,
        stores: Stores,
        replica: Replica,
        claims: Claims,
        upkeep: Upkeep,
        releases: Releases,
        *,
        snapshot_bytes_max: int,
        on_step: OnStep,
    ) -> None:
        self._stores = stores
        self._replica = replica
        self._claims = claims
        self._upkeep = upkeep
        self._releases = releases
        self._snapshot_bytes_max = snapshot_bytes_max
        self._on_step = on_step

    async def view(self, key: ThreadKey) -> Loaded:
        """Read a thread for showing it. Writes nothing."""
        return await self._stores.threads.load(key)

    async def start(self, key: ThreadKey, *, run_id: str, input_digest: str) -> Ticket | Replay | Refusal:
        """Claim the thread for a run that answers nothing, or say why not. Raises StoreUnavailable."""
        run = Run(run_id, input_digest, RunState.RUNNING, uuid4().hex)
        since = time.monotonic()
        loaded = await self._claims.open(key, run)
        if isinstance(loaded, Ticket):
            return await self._unless_unstartable(loaded)
        for _ in range(COMPARES_MAX):
            if not await self._upkeep.expire(key, loaded) and not await self._upkeep.end_doubt(key, loaded):
                dead = await self._dead(loaded)
                answer = admission.start(
                    loaded,
                    run_id=run_id,
                    input_digest=input_digest,
                    dead=dead,
                    snapshot_bytes_max=self._snapshot_bytes_max,
                )
                if not isinstance(answer, Grant):
                    return answer
                claimed = await self._claims.take(key, loaded, run, answer, dead=dead, since=since)
                if claimed is not None:
                    return claimed
            since = time.monotonic()
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
            since = time.monotonic()
            loaded = await self._stores.threads.load(key, interrupts=names, run_id=run_id)
            await self._on_step(f"after-{Step.LOAD}", key)
            if await self._upkeep.end_doubt(key, loaded):
                continue
            claimed = await self._resume_once(
                key, loaded, since=since, run_id=run_id, entries=entries, said=messages, tools=tools
            )
            if claimed is not None:
                return claimed
        return _busy()

    async def take_over(self, key: ThreadKey, *, tools: Mapping[str, EffectKind]) -> Ticket | None:
        """Bring a due thread on: expire it, end its doubt, free it, or claim it to carry out what was decided.

        Raises RunRefused if the ledger refuses the claim.
        """
        since = time.monotonic()
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
        claimed = await self._claims.take(key, loaded, run, grant, dead=dead, since=since)
        if isinstance(claimed, Refusal):
            raise RunRefused(claimed)
        return claimed

    async def finish(self, ticket: Ticket, ending: Ending) -> None:
        """Commit a run whole: record, snapshot, bag and run row in one write.

        Raises RunRefused if another run has taken the thread over, a decided call has not come to its end, or the
        thread would outgrow its limit.
        """
        outcomes = lifecycle.outcomes_of(ticket.record, ending.ended)
        if outcomes is None:
            raise RunRefused(Refusal(Code.RUN_FAILED, "An approved call was not carried out; send the same again."))
        snapshot = history.carried_on(ticket.loaded.snapshot, ending.snapshot)
        self._check_size(ticket, snapshot)
        interrupts = ending.snapshot.interrupts if ending.pending else ()
        run = replace(
            ticket.run, state=RunState.FINISHED, outcomes=outcomes, events=ending.events, interrupts=interrupts
        )
        record = lifecycle.finish(pending=ending.pending, pause_id=ending.pause_id)
        change = Change(
            expected=ticket.record.version,
            write_id=uuid4().hex,
            record=record,
            snapshot=snapshot,
            bag=ending.bag,
            runs=(run,),
            due_at=self._upkeep.due_at(record, ticket.loaded.now),
        )
        await self._on_step(f"before-{Step.FINISH}", ticket.key)
        saved = await save(self._stores.threads, ticket.key, change)
        await self._on_step(f"after-{Step.FINISH}", ticket.key)
        if not isinstance(saved, Saved):
            code = Code.RESUME_IN_PROGRESS if ticket.record.occurrences else Code.THREAD_BUSY
            message = "Another run has taken this thread over; send the same again to get its answer."
            raise RunRefused(Refusal(code, message, tuple(ticket.answers)))

    async def _unless_unstartable(self, ticket: Ticket) -> Ticket | Refusal:
        refusal = admission.unstartable(ticket.loaded, self._snapshot_bytes_max)
        if refusal is not None:
            await self._releases.release(ticket, LetGo())
        return refusal or ticket

    def _check_size(self, ticket: Ticket, snapshot: Snapshot) -> None:
        refusal = outgrown(ticket.loaded, snapshot, self._snapshot_bytes_max)
        if refusal is None:
            return
        if not ticket.record.occurrences:
            raise RunRefused(refusal)
        # What was decided and has happened must be recorded, whatever it takes; the thread is full from now on.
        _log.warning("A resume left a snapshot over AGUI_SNAPSHOT_BYTES_MAX (%d)", self._snapshot_bytes_max)

    async def _resume_once(
        self,
        key: ThreadKey,
        loaded: Loaded,
        *,
        since: float,
        run_id: str,
        entries: Sequence[Entry],
        said: tuple[Json, ...],
        tools: Mapping[str, EffectKind],
    ) -> Ticket | Replay | Refusal | None:
        """Decide about the thread as it was loaded; None if it has changed since."""
        dead = await self._dead(loaded)
        lost = await self._lost_effects(key, loaded, dead)
        retries_max = self._upkeep.retries_max
        is_stuck = admission.leaves_stuck(
            loaded, entries, tools=tools, dead=dead, retries_max=retries_max, lost_effects=lost
        )
        if is_stuck or lost_record.is_left_by(loaded, entries):
            used = await self._used_run_id(key, loaded, run_id, Grant(()))
            leave = self._upkeep.leave if is_stuck else self._upkeep.leave_lost
            left = used or await leave(key, loaded, run_id=run_id)
            return Replay(left, is_repeat=False) if isinstance(left, Run) else left
        answer = admission.resume(loaded, entries, run_id=run_id, tools=tools, dead=dead)
        if not isinstance(answer, Grant):
            return answer
        refusal = admission.effect_lost(lost) if lost else await self._used_run_id(key, loaded, run_id, answer)
        run = Run(run_id, answer.input_digest, RunState.RUNNING, uuid4().hex)
        return refusal or await self._claims.take(key, loaded, run, answer, dead=dead, since=since, said=said)

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


def _busy() -> Refusal:
    return Refusal(Code.THREAD_BUSY, "The thread changed under every try; retry later.", (), lifecycle.RETRY_SECONDS)
