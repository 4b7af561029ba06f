"""Ends doubts by what an operator found out: the ledger first, then the record follows it as it does anywhere else."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never
from uuid import uuid4

from app.again import again_if_in_doubt
from app.answers import approval_digest
from app.upkeep import Upkeep
from stores.ports import Batch, Closed, Fenced, Reservation, Reserved, Settled, Stores
from stores.records import Effect, EffectState, Occurrence, OccurrenceState, Scope, ThreadKey, ToolResult, Verdict

LOST = "lost"
"""Instead of an attempt, where the ledger has no row of the call any more."""
PAGE = 100
"""Occurrences read at once."""
LOADS_MAX = 5
"""How often a record that changes meanwhile is read again; whoever looks at it next brings it after its ledger."""
_OWN_SECONDS = 60.0
"""How long a row that had to be made anew is kept for the statement that follows at once."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Doubt:
    """A call that may have happened. A statement is about one `attempt` at it; `age_seconds` is since it began.

    `is_held` says whether the process that began it is presumed alive and has not reported that the call ended.
    """

    key: ThreadKey
    occurrence: Occurrence
    attempt: str
    age_seconds: float | None
    is_held: bool


@dataclass(frozen=True, slots=True)
class Statement:
    """What `by` found out about one attempt, with the evidence: it happened with `result`, or (None) it did not.

    `has_ended`: the process that began the call ended, or the call in it did, so it can not happen any more. Only then
    may one say that it did not.
    """

    attempt: str
    result: ToolResult | None
    by: str
    evidence: str
    has_ended: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """The doubt is over, as it was stated; `result` is what the thread goes on with (None: the call may run again)."""

    result: ToolResult | None


@dataclass(frozen=True, slots=True)
class NotTaken:
    """The statement was not taken: one sentence that says why."""

    why: str


class Doubts:
    """Calls in doubt, and their end. `lease_seconds` is how long a silent process is presumed alive."""

    def __init__(self, stores: Stores, upkeep: Upkeep, *, lease_seconds: float) -> None:
        self._stores = stores
        self._upkeep = upkeep
        self._lease_seconds = lease_seconds

    async def list(self, scope: Scope, *, agent: str | None = None) -> Sequence[Doubt]:
        """Return the calls in doubt of a scope, of one agent or of all."""
        found: list[Doubt] = []
        after: str | None = None
        while page := await self._stores.threads.list(scope, limit=PAGE, after=after):
            after = page[-1].interrupt_id
            for listed in page:
                is_wanted = listed.state == OccurrenceState.INDETERMINATE and agent in (None, listed.key.agent)
                doubt = await self.find(listed.key, listed.interrupt_id) if is_wanted else None
                found += [doubt] if doubt is not None else []
        return found

    async def find(self, key: ThreadKey, interrupt_id: str) -> Doubt | None:
        """Return one call in doubt; None if it is in none."""
        record = (await self._stores.threads.load(key)).record
        occurrence = record.find(interrupt_id)
        if occurrence is None or occurrence.state is not OccurrenceState.INDETERMINATE:
            return None
        name = occurrence.interrupt_id
        row = (await self._stores.effects.read(key, interrupts=[name])).get(name)
        if row is None or row.attempt is None:
            return Doubt(key, occurrence, LOST, None, is_held=False)
        return Doubt(key, occurrence, row.attempt, row.begun_age_seconds, is_held=await self._is_held(row))

    async def resolve(self, key: ThreadKey, interrupt_id: str, statement: Statement) -> Ended | NotTaken:
        """Take a statement, or say why not: what was stated or recorded first stands."""
        doubt = await self.find(key, interrupt_id)
        if doubt is None:
            return NotTaken("The call is not in doubt, or not any more; look at its thread.")
        if doubt.attempt != statement.attempt:
            return NotTaken("Another attempt at the call is in doubt by now; show it again, and look into that one.")
        if statement.result is None and doubt.is_held:
            return NotTaken("The process that began the call is alive and has not said that the call ended.")
        if statement.result is None and not statement.has_ended:
            return NotTaken("That it did not happen may be said only if the call can not happen any more.")
        if doubt.attempt == LOST:
            return await self._resolve_lost(doubt, statement)
        return await self._resolve(doubt, statement)

    async def _resolve(self, doubt: Doubt, statement: Statement) -> Ended | NotTaken:
        interrupt_id = doubt.occurrence.interrupt_id
        answer = await again_if_in_doubt(
            lambda: self._stores.effects.resolve(
                doubt.key,
                interrupt_id=interrupt_id,
                attempt=statement.attempt,
                result=statement.result,
                by=statement.by,
                evidence=statement.evidence,
            )
        )
        await self._follow(doubt)
        match answer:
            case Settled(result) if result != statement.result:
                return NotTaken("Another result was recorded before; it stands, and the thread goes on with it.")
            case Settled() | Reserved():
                self._note(doubt, statement)
                return Ended(statement.result)
            case Fenced():
                return NotTaken("Something else was stated of the call before, or it has begun anew; show it again.")
            case _:
                assert_never(answer)

    async def _resolve_lost(self, doubt: Doubt, statement: Statement) -> Ended | NotTaken:
        """Make the row anew that is gone, as begun, so that the statement has one to be about."""
        occurrence, attempt = doubt.occurrence, uuid4().hex
        decision = occurrence.decision
        if decision is not None and decision.verdict is not Verdict.APPROVE:
            return await self._close_lost(doubt, statement)
        digest = decision.digest if decision else approval_digest(occurrence.tool, occurrence.arguments)
        row = Reservation(occurrence.interrupt_id, occurrence.kind, digest, occurrence.key_lifetime_seconds, begin=True)
        now = (await self._stores.threads.load(doubt.key)).now
        batch = Batch(attempt, f"operator-{attempt}", now + _OWN_SECONDS, (row,))
        answers = await again_if_in_doubt(lambda: self._stores.effects.reserve(doubt.key, batch=batch))
        if not isinstance(answers[occurrence.interrupt_id], Reserved):
            return NotTaken("Another operator is just stating something of the call; show it again.")
        return await self._resolve(doubt, replace(statement, attempt=attempt))

    async def _close_lost(self, doubt: Doubt, statement: Statement) -> Ended | NotTaken:
        """Close the row of a call that was rejected or cancelled; how, the record says better than the row would."""
        if statement.result is not None:
            return NotTaken("The call was never approved, so no result of it can be taken.")
        interrupt_id = doubt.occurrence.interrupt_id
        answer = await again_if_in_doubt(
            lambda: self._stores.effects.close(doubt.key, interrupts={interrupt_id: "did not happen"})
        )
        await self._follow(doubt)
        if not isinstance(answer, Closed):
            return NotTaken("The ledger has a row of the call again; show it again.")
        self._note(doubt, statement)
        return Ended(None)

    async def _follow(self, doubt: Doubt) -> None:
        for _ in range(LOADS_MAX):
            loaded = await self._stores.threads.load(doubt.key)
            if not await self._upkeep.end_doubt(doubt.key, loaded):
                return

    async def _is_held(self, row: Effect) -> bool:
        if row.holder is None or row.state is not EffectState.BEGUN:
            return False
        age_seconds = (await self._stores.replicas.seen()).get(row.holder)
        return age_seconds is not None and age_seconds <= self._lease_seconds

    def _note(self, doubt: Doubt, statement: Statement) -> None:
        _log.warning(
            "Call %s of tool %s is in doubt no more: it %s, says %r; evidence: %r",
            doubt.occurrence.interrupt_id,
            doubt.occurrence.tool,
            "did not happen" if statement.result is None else "happened",
            statement.by,
            statement.evidence,
        )
