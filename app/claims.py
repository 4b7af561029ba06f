"""Takes claims, by compare-and-set alone: the rows of the ledger first, then the record; one write where it can be."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

from app import lifecycle
from app.again import again_if_in_doubt, save
from app.errors import Code, Refusal, RunRefused
from app.follow import refusal
from app.ledger import Ledger
from app.lifecycle import Grant
from app.releases import Releases
from app.steps import OnStep, Step
from app.tickets import Ticket
from app.upkeep import Upkeep
from stores.ports import Batch, Change, Loaded, Lost, NotReserved, ReserveAnswer, Saved, Settled, Stores
from stores.records import Claim, Json, Occurrence, Record, Run, ThreadKey


class Claims:
    """Claims threads for this process, `holder`. A claim that may have been made is always let go again."""

    def __init__(
        self,
        stores: Stores,
        ledger: Ledger,
        upkeep: Upkeep,
        releases: Releases,
        *,
        holder: str,
        claim_seconds: float,
        on_step: OnStep,
    ) -> None:
        self._stores = stores
        self._ledger = ledger
        self._upkeep = upkeep
        self._releases = releases
        self._holder = holder
        self._claim_seconds = claim_seconds
        self._on_step = on_step

    async def open(self, key: ThreadKey, run: Run) -> Ticket | Loaded:
        """Claim an idle thread for a run that decides nothing, or answer what stands there."""
        since, write_id = time.monotonic(), uuid4().hex
        try:
            await self._on_step(f"before-{Step.OPEN}", key)
            opened = await again_if_in_doubt(
                lambda: self._stores.threads.open(
                    key, run=run, holder=self._holder, claim_seconds=self._claim_seconds, write_id=write_id
                )
            )
            await self._on_step(f"after-{Step.OPEN}", key)
        except BaseException:
            self._releases.remember(key, run.attempt)
            raise
        loaded = opened.loaded
        claim = loaded.record.claim
        is_mine = claim is not None and claim.attempt == run.attempt
        return _ticket(key, run, loaded.record, loaded, since, {}) if is_mine else loaded

    async def take(
        self,
        key: ThreadKey,
        loaded: Loaded,
        run: Run,
        grant: Grant,
        *,
        dead: frozenset[str],
        since: float,
        said: tuple[Json, ...] | None = None,
    ) -> Ticket | Refusal | None:
        """Claim the thread as it was loaded, with its ledger rows; None if it must be loaded again.

        `since` is this process's monotonic time before the load: the claim's time is counted from there, so that a
        process that was frozen meanwhile does not believe that it has more of it than the others do.
        `said` are the user's words that came with the answers; None if it goes on with those that are recorded.
        """
        if time.monotonic() - since >= self._claim_seconds:
            return None
        claim = Claim(run.attempt, self._holder, run.run_id, loaded.now + self._claim_seconds)
        claimed = replace(
            loaded.record,
            occurrences=grant.occurrences,
            claim=claim,
            resume_run_id=run.run_id if grant.occurrences else None,
            resume_messages=loaded.record.resume_messages if said is None else said,
        )
        batch = lifecycle.batch_of(grant, claim, dead=dead, begin_idempotent=self._stores.shared)
        try:
            return await self._take(key, loaded, run, claimed, batch, since)
        except BaseException:
            self._releases.remember(key, run.attempt)
            raise

    async def go_on(self, ticket: Ticket, change: Change, decided: tuple[Occurrence, ...]) -> Ticket:
        """Commit in the middle of a run, in the claim that it keeps, the calls that standing rules approved.

        What a person's answer does in a claim of its own: rows reserved, decisions recorded, nothing begun. Raises
        RunRefused if another run has taken the thread over, or the ledger knows such a call already.
        """
        key, claim = ticket.key, ticket.claim
        batch = lifecycle.batch_of(Grant(decided), claim, dead=(), begin_idempotent=self._stores.shared)
        try:
            answers, change = await self._reserved(key, change, batch)
            await self._on_step(f"before-{Step.CLAIM}", key)
            saved = await save(self._stores.threads, key, change)
            await self._on_step(f"after-{Step.CLAIM}", key)
            if not isinstance(saved, Saved):
                raise taken_over(ticket)
            # Read anew, for a store may have sealed more of the messages with this very write.
            loaded = await self._stores.threads.load(key)
            if loaded.record.version != saved.version:
                raise _carried_on(ticket, decided)
        except BaseException:
            self._releases.remember(key, claim.attempt)
            raise
        return replace(
            ticket,
            run=change.runs[0],
            record=loaded.record,
            loaded=loaded,
            answers=saved.answers or answers,
            rounds=ticket.rounds + 1,
        )

    async def reserved_for_later(self, key: ThreadKey, change: Change, decided: tuple[Occurrence, ...]) -> Change:
        """Reserve what rules approved in a pause that waits for a person all the same; free for whoever resumes it."""
        if not decided:
            return change
        batch = lifecycle.batch_for_later(decided, attempt=uuid4().hex, holder=self._holder)
        return (await self._reserved(key, change, batch))[1]

    async def _reserved(
        self, key: ThreadKey, change: Change, batch: Batch
    ) -> tuple[Mapping[str, ReserveAnswer], Change]:
        """Reserve a batch of new calls, or put it into the change where one write does both."""
        if self._stores.shared:
            return {}, replace(change, batch=batch)
        await self._on_step(f"before-{Step.RESERVE}", key)
        answers = await self._ledger.reserve(key, batch)
        await self._on_step(f"after-{Step.RESERVE}", key)
        if not lifecycle.is_reserved(batch, answers):
            raise RunRefused(refusal(answers, approved=set(answers), followed=None))
        return answers, change

    async def _take(
        self, key: ThreadKey, loaded: Loaded, run: Run, record: Record, batch: Batch, since: float
    ) -> Ticket | Refusal | None:
        is_joint = self._stores.shared and bool(record.occurrences)
        answers: Mapping[str, ReserveAnswer] = {}
        if record.occurrences and not is_joint:
            await self._on_step(f"before-{Step.RESERVE}", key)
            answers = await self._ledger.reserve(key, batch)
            await self._on_step(f"after-{Step.RESERVE}", key)
            if not lifecycle.is_reserved(batch, answers):
                return await self._refused(key, loaded, batch, answers)
            if await self._has_other_result(key, batch, answers):
                await self._stores.effects.free(key, attempt=run.attempt)
                return await self._refused(key, loaded, batch, answers)
        change = Change(
            expected=loaded.record.version,
            write_id=uuid4().hex,
            record=record,
            runs=(run,),
            batch=batch if is_joint else None,
        )
        await self._on_step(f"before-{Step.CLAIM}", key)
        saved = await save(self._stores.threads, key, change)
        await self._on_step(f"after-{Step.CLAIM}", key)
        match saved:
            case NotReserved():
                return await self._refused(key, loaded, batch, saved.answers)
            case Lost():
                if answers:
                    await self._stores.effects.free(key, attempt=run.attempt)
                return None
            case Saved():
                committed = replace(record, version=saved.version)
                return _ticket(key, run, committed, loaded, since, saved.answers or answers)

    async def _refused(
        self, key: ThreadKey, loaded: Loaded, batch: Batch, answers: Mapping[str, ReserveAnswer]
    ) -> Refusal:
        """Refuse as the ledger says, and bring a record that is behind its ledger after it."""
        followed = await self._upkeep.follow(key, loaded, answers)
        return refusal(answers, approved={row.interrupt_id for row in batch.approve}, followed=followed)

    async def _has_other_result(self, key: ThreadKey, batch: Batch, answers: Mapping[str, ReserveAnswer]) -> bool:
        """Say whether a result was recorded for other arguments than those approved here.

        A record that lost an approval of edited arguments can be answered anew, with others; the result is not theirs.
        """
        settled = {row.interrupt_id: row for row in batch.approve if isinstance(answers[row.interrupt_id], Settled)}
        rows = await self._stores.effects.read(key, interrupts=settled) if settled else {}
        return any(row.digest != settled[name].digest for name, row in rows.items())


def _ticket(
    key: ThreadKey, run: Run, record: Record, loaded: Loaded, since: float, answers: Mapping[str, ReserveAnswer]
) -> Ticket:
    assert record.claim is not None, "a ticket is made from a claimed record"
    deadline = since + record.claim.until - loaded.now
    return Ticket(key, run, record, loaded, deadline, answers)


def _carried_on(ticket: Ticket, decided: Sequence[Occurrence]) -> RunRefused:
    code = Code.RESUME_IN_PROGRESS if ticket.record.occurrences else Code.RUN_IN_PROGRESS
    message = "Another replica carries this very run on; send it again to get its answer."
    return RunRefused(Refusal(code, message, tuple(each.interrupt_id for each in decided)))


def taken_over(ticket: Ticket) -> RunRefused:
    """Return what a run fails with whose thread is another's now."""
    code = Code.RESUME_IN_PROGRESS if ticket.record.occurrences else Code.THREAD_BUSY
    message = "Another run has taken this thread over; send the same again to get its answer."
    return RunRefused(Refusal(code, message, tuple(ticket.answers)))
