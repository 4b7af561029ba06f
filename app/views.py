"""Reads threads for showing them. Writes nothing, whatever it finds."""

from __future__ import annotations

from dataclasses import replace

from app import lifecycle
from app.follow import follow
from app.replicas import Replica
from app.view import View
from stores.ports import Loaded, Stores
from stores.records import OccurrenceState, Record, Run, ThreadKey


class Views:
    """Threads as any replica shows them. Who is presumed alive, `replica` says."""

    def __init__(self, stores: Stores, replica: Replica) -> None:
        self._stores = stores
        self._replica = replica

    async def thread(self, key: ThreadKey, loaded: Loaded | None = None) -> View:
        """Return a thread as it stands; read anew unless it was just `loaded`."""
        loaded = loaded or await self._stores.threads.load(key)
        claim = loaded.record.claim
        dead = await self._replica.dead({claim.holder}) if claim is not None else ()
        is_running = lifecycle.is_live(claim, now=loaded.now, dead=dead)
        return View(replace(loaded, record=await self._as_known(key, loaded)), is_running)

    async def run(self, run: Run, key: ThreadKey, loaded: Loaded | None) -> View:
        """Return a thread with the end of what one of its runs had asked for."""
        view = await self.thread(key, loaded)
        open_ones = {each.interrupt_id for each in view.loaded.record.occurrences}
        ended = {str(each.get("id")) for each in run.interrupts} - open_ones
        known = (await self._stores.threads.load(key, interrupts=ended)).known if ended else None
        return replace(view, ended=known.outcomes if known else ())

    async def _as_known(self, key: ThreadKey, loaded: Loaded) -> Record:
        """Return the record as it will be once it was brought after its ledger about its doubts."""
        in_doubt = [each.interrupt_id for each in lifecycle.in_state(loaded.record, OccurrenceState.INDETERMINATE)]
        rows = await self._stores.effects.read(key, interrupts=in_doubt) if in_doubt else {}
        return follow(loaded.record, rows, begun=(), now=loaded.now) or loaded.record
