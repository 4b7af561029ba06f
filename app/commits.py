"""Commits what a run leaves, whole, in one write: its end, or the calls of a standing rule with which it goes on."""

from __future__ import annotations

import logging
from dataclasses import replace
from uuid import uuid4

from app import lifecycle, standing
from app.again import save
from app.claims import Claims, taken_over
from app.errors import Code, Refusal, RunRefused
from app.open_approvals import OpenLimits, too_many, without_pause
from app.sizes import outgrown
from app.steps import OnStep, Step
from app.tickets import Ending, Ticket
from app.upkeep import Upkeep
from stores import history
from stores.ports import Change, Saved, Stores
from stores.records import Outcome, RunState, Snapshot

_log = logging.getLogger(__name__)


NOT_MADE_TEXT = "The run went on by standing rules too often; the call was not run."


class Commits:
    """Commits the runs of this process; the ledger first where it is a store of its own."""

    def __init__(
        self,
        stores: Stores,
        claims: Claims,
        upkeep: Upkeep,
        *,
        snapshot_bytes_max: int,
        open_limits: OpenLimits,
        on_step: OnStep,
    ) -> None:
        self._stores = stores
        self._claims = claims
        self._upkeep = upkeep
        self._snapshot_bytes_max = snapshot_bytes_max
        self._open_limits = open_limits
        self._on_step = on_step

    async def finish(self, ticket: Ticket, ending: Ending) -> Ticket | None:
        """Commit a run: record, snapshot, bag and run row in one write. A ticket if it goes on, in the same claim.

        Raises RunRefused if another run has taken the thread over, a decided call has not come to its end, the thread
        would outgrow its limit, too many approvals would be open, or rules alone have carried the run on too often; in
        the last two what was answered is committed all the same.
        """
        outcomes = lifecycle.outcomes_of(ticket.record, ending.ended)
        if outcomes is None:
            raise RunRefused(Refusal(Code.RUN_FAILED, "An approved call was not carried out; send the same again."))
        over = _too_often(ticket, ending) or await too_many(self._stores.threads, ticket, ending, self._open_limits)
        if over is not None:
            if not ticket.record.occurrences:
                raise RunRefused(over)
            ending = without_pause(ending, NOT_MADE_TEXT) if ending.goes_on else without_pause(ending)
        change = self._change(ticket, ending, outcomes)
        if ending.goes_on:
            return await self._claims.go_on(ticket, change, ending.decided)
        await self._on_step(f"before-{Step.FINISH}", ticket.key)
        change = await self._claims.reserved_for_later(ticket.key, change, ending.decided)
        saved = await save(self._stores.threads, ticket.key, change)
        await self._on_step(f"after-{Step.FINISH}", ticket.key)
        if not isinstance(saved, Saved):
            raise taken_over(ticket)
        if over is not None:
            raise RunRefused(over)
        return None

    def _change(self, ticket: Ticket, ending: Ending, outcomes: tuple[Outcome, ...]) -> Change:
        snapshot = history.carried_on(ticket.loaded.snapshot, ending.snapshot)
        self._check_size(ticket, snapshot)
        run = replace(
            ticket.run,
            state=RunState.RUNNING if ending.goes_on else RunState.FINISHED,
            outcomes=(*ticket.run.outcomes, *outcomes),
            events=(*ticket.run.events, *ending.events),
            interrupts=ending.cards,
        )
        rules = standing.rules_after(ticket.record, ticket.now())
        record = lifecycle.finish(pending=ending.asked, pause_id=ending.pause_id, rules=rules)
        if ending.goes_on:
            record = lifecycle.go_on(record, ticket.claim)
        return Change(
            expected=ticket.record.version,
            write_id=uuid4().hex,
            record=record,
            snapshot=snapshot,
            bag=ending.bag,
            runs=(run,),
            due_at=self._upkeep.due_at(record, ticket.loaded.now),
        )

    def _check_size(self, ticket: Ticket, snapshot: Snapshot) -> None:
        refusal = outgrown(ticket.loaded, snapshot, self._snapshot_bytes_max)
        if refusal is None:
            return
        if not ticket.record.occurrences:
            raise RunRefused(refusal)
        # What was decided and has happened must be recorded, whatever it takes; the thread is full from now on.
        _log.warning("A resume left a snapshot over AGUI_SNAPSHOT_BYTES_MAX (%d)", self._snapshot_bytes_max)


def _too_often(ticket: Ticket, ending: Ending) -> Refusal | None:
    if not ending.goes_on or ticket.rounds < standing.ROUNDS_MAX:
        return None
    message = (
        f"The run went on by standing rules {standing.ROUNDS_MAX} times and would again; what was done is kept. "
        "Send a new message, or take the rule back."
    )
    return Refusal(Code.LIMIT_EXCEEDED, message, tuple(each.interrupt_id for each in ticket.record.occurrences))
