"""ApprovalAuthority: load, apply a rule, compare-and-set, act. It and its upkeep alone write the ThreadStore."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from uuid import uuid4

from app import admission, lifecycle, lost_record, standing
from app.answers import Entry
from app.claims import Claims
from app.commits import Commits
from app.errors import Code, Refusal, RunRefused
from app.gated_tools import GatedTool
from app.lifecycle import Grant
from app.pairing import Replay
from app.releases import Releases
from app.replicas import Replica
from app.retained import outcome_named, results_kept, retained
from app.steps import OnStep, Step
from app.tickets import Ending, LetGo, Ticket
from app.upkeep import Upkeep
from app.views import Views
from stores.ports import Loaded, Stores
from stores.records import Json, OccurrenceState, Run, RunState, ThreadKey

COMPARES_MAX = 5
"""How often a change that lost its compare is decided anew before the caller is told to retry."""


class ApprovalAuthority:
    """Decides, by compare-and-set alone, which run may work on a thread, and commits what it did."""

    def __init__(
        self,
        stores: Stores,
        replica: Replica,
        claims: Claims,
        commits: Commits,
        upkeep: Upkeep,
        releases: Releases,
        *,
        snapshot_bytes_max: int,
        on_step: OnStep,
    ) -> None:
        self.views = Views(stores, replica)
        self._stores = stores
        self._replica = replica
        self._claims = claims
        self._commits = commits
        self._upkeep = upkeep
        self._releases = releases
        self._snapshot_bytes_max = snapshot_bytes_max
        self._on_step = on_step

    async def start(
        self, key: ThreadKey, *, run_id: str, input_digest: str, tools: Mapping[str, GatedTool]
    ) -> Ticket | Replay | Refusal:
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
                if isinstance(answer, Refusal) and answer.code is Code.RESUME_REQUIRED and _goes_on(loaded, run_id):
                    answer = admission.sent_again(loaded, (), tools=tools, dead=dead)
                    lost = await self._lost_effects(key, loaded, dead)
                    answer = admission.effect_lost(lost) if lost else answer
                    run = _continued(loaded.known) or run
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
        tools: Mapping[str, GatedTool],
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

    async def take_over(self, key: ThreadKey, *, tools: Mapping[str, GatedTool]) -> Ticket | None:
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
        run = _continued(await self._going_on(key, loaded)) or run
        claimed = await self._claims.take(key, loaded, run, grant, dead=dead, since=since)
        if isinstance(claimed, Refusal):
            raise RunRefused(claimed)
        return claimed

    async def finish(self, ticket: Ticket, ending: Ending) -> Ticket | None:
        """Commit what a run leaves; a ticket if it goes on by itself. Raises RunRefused as `Commits.finish` says."""
        return await self._commits.finish(ticket, ending)

    async def revoke(self, key: ThreadKey, interrupts: Collection[str]) -> Refusal | None:
        """Take back the standing rules that these interrupts gave; refused while a run has the thread and may use them.

        A write of its own, before the request that asks for it is looked at; nothing is written where no rule is there.
        """
        for _ in range(COMPARES_MAX):
            loaded = await self._stores.threads.load(key)
            is_coming = standing.is_coming(loaded.record, interrupts)
            if standing.revoked(loaded.record, interrupts) == loaded.record and not is_coming:
                return None
            if loaded.record.claim is not None or is_coming:
                message = (
                    "A run that holds or waits for this thread has this rule; send the same again to take it back."
                )
                return Refusal(Code.THREAD_BUSY, message, (), lifecycle.RETRY_SECONDS)
            if await self._upkeep.revoke(key, loaded, interrupts):
                return None
        return _busy()

    async def _unless_unstartable(self, ticket: Ticket) -> Ticket | Refusal:
        refusal = admission.unstartable(ticket.loaded, self._snapshot_bytes_max)
        if refusal is not None:
            await self._releases.release(ticket, LetGo())
        return refusal or ticket

    async def _resume_once(
        self,
        key: ThreadKey,
        loaded: Loaded,
        *,
        since: float,
        run_id: str,
        entries: Sequence[Entry],
        said: tuple[Json, ...],
        tools: Mapping[str, GatedTool],
    ) -> Ticket | Replay | Refusal | None:
        """Decide about the thread as it was loaded; None if it has changed since."""
        dead = await self._dead(loaded)
        lost = await self._lost_effects(key, loaded, dead)
        retries_max = self._upkeep.retries_max
        is_stuck = admission.leaves_stuck(
            loaded, entries, tools=tools, dead=dead, retries_max=retries_max, lost_effects=lost
        )
        going_on = await self._going_on(key, loaded)
        if is_stuck or lost_record.is_left_by(loaded, entries):
            used = _under_way(going_on, run_id) or await self._used_run_id(key, loaded, run_id, Grant(()))
            leave = partial(self._upkeep.leave, under_way=going_on) if is_stuck else self._upkeep.leave_lost
            left = used or await leave(key, loaded, run_id=run_id)
            return Replay(left, is_repeat=False) if isinstance(left, Run) else left
        ended = await retained(self._stores.threads, key, loaded, entries)
        if going_on is not None and all(outcome_named(going_on, each.name) for each in entries):
            answer: Grant | Replay | Refusal = admission.sent_again(
                replace(loaded, known=going_on), entries, tools=tools, dead=dead
            )
        else:
            answer = admission.resume(loaded, entries, run_id=run_id, tools=tools, dead=dead, retained=ended)
        if not isinstance(answer, Grant):
            return answer
        refusal = admission.effect_lost(lost) if lost else await self._used_run_id(key, loaded, run_id, answer)
        run = _continued(going_on) or Run(run_id, answer.input_digest, RunState.RUNNING, uuid4().hex)
        new = None if going_on is not None else said
        claimed = refusal or await self._claims.take(key, loaded, run, answer, dead=dead, since=since, said=new)
        if not isinstance(claimed, Ticket):
            return claimed
        others = [each.name for each in entries if loaded.record.find(each.name) is None]
        return replace(claimed, before=results_kept([loaded.known, *ended] if loaded.known else ended, others))

    async def _going_on(self, key: ThreadKey, loaded: Loaded) -> Run | None:
        """Return the run that decided the calls of this thread by standing rules and was not at its end."""
        run_id = loaded.record.resume_run_id
        if not loaded.record.goes_on or run_id is None:
            return None
        return await self._stores.threads.outcome(key, run_id=run_id)

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


def _goes_on(loaded: Loaded, run_id: str) -> bool:
    known = loaded.known
    return loaded.record.goes_on and loaded.record.resume_run_id == run_id and known is not None


def _continued(run: Run | None) -> Run | None:
    """Return a run under a new attempt; it keeps its input, and what it has said and brought to an end."""
    return None if run is None else replace(run, state=RunState.RUNNING, attempt=uuid4().hex)


def _under_way(run: Run | None, run_id: str) -> Refusal | None:
    """Refuse the id of a run that has something to keep for what would take its place."""
    if run is None or run.run_id != run_id:
        return None
    return Refusal(Code.RUN_ID_CONFLICT, f"Run '{run_id}' is the one that is stuck; cancel it under a new run id.")


def _busy() -> Refusal:
    return Refusal(Code.THREAD_BUSY, "The thread changed under every try; retry later.", (), lifecycle.RETRY_SECONDS)
