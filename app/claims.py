"""Takes claims, by compare-and-set alone: the rows of the ledger first, then the record; one write where it can be."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from uuid import uuid4

from app import lifecycle
from app.again import again_if_in_doubt, save
from app.errors import Refusal
from app.follow import refusal
from app.ledger import Ledger
from app.lifecycle import Grant
from app.releases import Releases
from app.steps import OnStep, Step
from app.tickets import Ticket
from app.upkeep import Upkeep
from stores.ports import Batch, Change, Loaded, Lost, NotReserved, ReserveAnswer, Saved, Settled, Stores
from stores.records import Claim, Json, Record, Run, ThreadKey


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
            opened = await again_if_in_doubt(
                lambda: self._stores.threads.open(
                    key, run=run, holder=self._holder, claim_seconds=self._claim_seconds, write_id=write_id
                )
            )
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

    async def _take(
        self, key: ThreadKey, loaded: Loaded, run: Run, record: Record, batch: Batch, since: float
    ) -> Ticket | Refusal | None:
        is_joint = self._stores.shared and bool(record.occurrences)
        await self._on_step(f"before-{Step.CLAIM}", key)
        answers: Mapping[str, ReserveAnswer] = {}
        if record.occurrences and not is_joint:
            answers = await self._ledger.reserve(key, batch)
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
