"""Claims let go: once no call of theirs is alive, and again until the stores take it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from uuid import uuid4

from app import lifecycle
from app.again import save
from app.metrics import Metrics
from app.steps import OnStep, Step, no_step
from app.tickets import LetGo, Ticket
from stores.errors import StoreError, StoreUnavailable
from stores.ports import Change, Saved, Stores
from stores.records import EffectKind, EffectState, Record, Run, RunState, ThreadKey

_log = logging.getLogger(__name__)


class Releases:
    """Drops claims of this process, ledger first. `holder` is this process."""

    def __init__(
        self,
        stores: Stores,
        *,
        holder: str,
        retries_max: int,
        on_step: OnStep = no_step,
        metrics: Metrics | None = None,
    ) -> None:
        self._stores = stores
        self._holder = holder
        self._retries_max = retries_max
        self._on_step = on_step
        self._metrics = metrics or Metrics()
        self._unreleased: dict[str, tuple[ThreadKey, LetGo]] = {}

    def remember(self, key: ThreadKey, attempt: str) -> None:
        """Note a claim that may have been made, in either store: it is let go soon."""
        self._unreleased[attempt] = (key, LetGo())

    async def release(self, ticket: Ticket, let_go: LetGo) -> None:
        """Drop a claim whose calls have all ended; repeated until a store takes it."""
        try:
            await self._free(ticket.key, ticket.claim.attempt, let_go)
            await self._drop_claim(ticket.key, ticket.record, ticket.run, let_go, ticket.now())
        except StoreError:
            self._unreleased[ticket.claim.attempt] = (ticket.key, let_go)

    async def run(self, pause_seconds: float) -> None:
        """Repeat `release_again` until cancelled."""
        while True:
            await self.release_again()
            await asyncio.sleep(pause_seconds)

    async def release_again(self) -> None:
        """Repeat the releases that no store has taken yet; one that fails stands in no other's way."""
        for attempt, (key, let_go) in list(self._unreleased.items()):
            try:
                await self._release_again(key, attempt, let_go)
            except StoreUnavailable as error:
                _log.warning("A claim was not let go yet: %s", type(error).__name__)
                continue
            except StoreError as error:
                # What can not be read can not be let go: the claim, if there is one, ends with its time.
                _log.error("A claim can not be let go: %s", type(error).__name__)
            self._unreleased.pop(attempt, None)

    async def _release_again(self, key: ThreadKey, attempt: str, let_go: LetGo) -> None:
        # Also where the record has no such claim: it may have been reserved in the ledger and got no further.
        await self._free(key, attempt, let_go)
        loaded = await self._stores.threads.load(key)
        claim = loaded.record.claim
        if claim is not None and claim.attempt == attempt:
            run = await self._stores.threads.outcome(key, run_id=claim.run_id)
            await self._drop_claim(key, loaded.record, run, let_go, loaded.now)
        else:
            await self._free_after_all(key, attempt)

    async def _drop_claim(self, key: ThreadKey, record: Record, run: Run | None, let_go: LetGo, now: float) -> None:
        assert record.claim is not None, "only a claimed record is released"
        released = lifecycle.release(record, in_doubt=let_go.in_doubt, now=now)
        if released.occurrences and released.retries > self._retries_max:
            _log.error("A decided thread failed %d times and is not tried again by itself", released.retries)
        change = Change(
            expected=record.version,
            write_id=uuid4().hex,
            record=released,
            runs=(replace(run, state=RunState.FAILED),) if run else (),
            due_at=lifecycle.due_at(released, now=now, retries_max=self._retries_max),
            free=record.claim.attempt if self._stores.shared else None,
        )
        await self._on_step(f"before-{Step.RELEASE}", key)
        saved = await save(self._stores.threads, key, change)
        await self._on_step(f"after-{Step.RELEASE}", key)
        if isinstance(saved, Saved):
            self._metrics.changed(record, released)
        else:
            await self._free_after_all(key, record.claim.attempt)

    async def _free_after_all(self, key: ThreadKey, attempt: str) -> None:
        """Let go of the rows whose claim is gone already: who named a call in doubt dropped the claim, and no row.

        Else they would be held until their time is over, by a process that lives and has no run for them.
        """
        if self._stores.shared:
            await self._stores.effects.free(key, attempt=attempt)

    async def _free(self, key: ThreadKey, attempt: str, let_go: LetGo) -> None:
        """Let go of the rows before the record, where they are two stores; where they are one, it is one write."""
        await self._take_back_begins(key, attempt, let_go.unstarted)
        if not self._stores.shared:
            await self._on_step(f"before-{Step.FREE}", key)
            await self._stores.effects.free(key, attempt=attempt)
            await self._on_step(f"after-{Step.FREE}", key)

    async def _take_back_begins(self, key: ThreadKey, attempt: str, unstarted: frozenset[str]) -> None:
        """Resolve begun rows of calls that this very process knows it never started.

        An idempotent one needs no help, since the next attempt repeats it under its key; and the time of its first
        begin, from which the life of that key counts, must stay.
        """
        rows = await self._stores.effects.read(key, interrupts=unstarted) if unstarted else {}
        for name, row in rows.items():
            if row.state is EffectState.BEGUN and row.attempt == attempt and row.kind is not EffectKind.IDEMPOTENT:
                evidence = "the holder never started the call"
                await self._stores.effects.resolve(
                    key, interrupt_id=name, attempt=attempt, result=None, by=self._holder, evidence=evidence
                )
