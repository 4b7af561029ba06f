"""Removes runs that ended long ago, with the rows and checkpoints that only they needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import groupby

from app.again import again_if_in_doubt
from app.drain import Drain
from stores.errors import StoreError
from stores.ports import OldRun, Stores
from stores.records import ThreadKey, Version

_log = logging.getLogger(__name__)


class Retention:
    """`run` repeats `run_once`, which looks at no more than `batch` runs; any number of replicas may do so at once.

    Per thread the ledger's rows go first, then the runs, then, with the last run, the checkpoints. That causes no
    second effect and loses no row, wherever a process dies and whoever else does the same:

    - A row answers for an interrupt that is open or may be claimed. Those that go are of runs that ended: no record has
      them open, `ThreadStore.old` leaves out threads that have anything open or claimed, and the ledger keeps every row
      that is not settled or closed. Until its run is gone too, a duplicate is answered from the run and asks no ledger;
      afterwards its interrupt is not found. Either way nothing is executed.
    - The other way round, a crash would leave rows that nobody finds any more: only runs name them. In this order the
      run is still old in the next pass, of any replica, and both steps do nothing the second time.
    - A thread that was claimed, or asked something, since it was listed keeps its runs (`purge` says so in its own
      write). Their rows are gone then, which costs nothing: the runs answer.
    - A thread store that forgets a purge gives runs back that are old: they go again. One that was restored from before
      an approval was answered is past that approval's expiry, which is never longer than what is kept (Settings).
    - Checkpoints go last, since only `purge` knows that no run is left which could go on from them. A crash just before
      leaves them where nothing reads them; they go when a thread of the same name does.
    """

    def __init__(self, stores: Stores, *, drain: Drain, age_seconds: float, batch: int, pause_seconds: float) -> None:
        self._stores = stores
        self._drain = drain
        self._age_seconds = age_seconds
        self._batch = batch
        self._pause_seconds = pause_seconds
        self._after: str | None = None

    async def run(self) -> None:
        """Repeat until cancelled; a store that is away is tried again in the next pass."""
        while True:
            try:
                await self.run_once()
            except StoreError as error:
                _log.warning("Purging failed: %s", type(error).__name__)
                self._after = None
            # A page that was full is followed by the next at once: otherwise more could end than is ever purged. Not
            # when this host drains: nothing is looked at then, and it would do nothing else until it is killed.
            if self._after is None or self._is_over():
                await asyncio.sleep(self._pause_seconds)

    async def run_once(self) -> int:
        """Purge what is old among the next runs; answers how many went. A thread that fails is met again later."""
        if self._is_over():
            return 0
        old = await self._stores.threads.old(age_seconds=self._age_seconds, limit=self._batch, after=self._after)
        self._after = old.after
        count = 0
        in_order = sorted(old.runs, key=lambda run: (run.key.scope, run.key.agent, run.key.thread_id))
        for key, runs in groupby(in_order, key=lambda run: run.key):
            if self._is_over():
                break
            try:
                count += await self._purge(key, list(runs))
            except StoreError as error:
                _log.warning("A thread was not purged: %s", type(error).__name__)
        return count

    def _is_over(self) -> bool:
        return self._drain.is_draining

    async def _purge(self, key: ThreadKey, runs: Sequence[OldRun]) -> int:
        interrupts = [name for run in runs for name in run.interrupts]
        if interrupts:
            await self._stores.effects.forget(key, interrupts=interrupts)
        run_ids = [run.run_id for run in runs]
        purged = await again_if_in_doubt(
            lambda: self._stores.threads.purge(key, run_ids=run_ids, age_seconds=self._age_seconds)
        )
        if purged.is_whole or (not purged.runs and await self._is_gone(key)):
            await self._stores.checkpoints.forget(key)
        return purged.runs

    async def _is_gone(self, key: ThreadKey) -> bool:
        """Say whether a purge that removed nothing was the repeat of one whose answer was lost."""
        return (await self._stores.threads.load(key)).record.version == Version()
