"""Reserve, begin and settle around a tool call: one approved call has one effect, or a stated doubt."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, stop_never, wait_exponential_jitter

from app.errors import Code, Refusal, RunRefused
from app.metrics import Metrics
from app.steps import OnStep, Step
from app.tools import EffectCall
from stores.errors import StoreUnavailable
from stores.ports import AlreadySettled, Began, EffectLedger, Fenced, ReserveAnswer, Reserved, SecondEffect, Settled
from stores.records import EffectKind, Occurrence, ThreadKey, ToolResult

OPEN_ERRORS = (TimeoutError, ConnectionError, asyncio.CancelledError)
"""After one of these nobody knows whether the effect happened."""
BEGINS_MAX = 3
"""How often an unanswered begin is sent before the run gives up; nothing has been called by then."""

_log = logging.getLogger(__name__)


class ToolFailed(Exception):
    """A call's final failure, as the result to record; in a transaction it rolls back and then is recorded."""

    def __init__(self, result: ToolResult) -> None:
        super().__init__("the tool failed")
        self.result = result


@dataclass(frozen=True, slots=True)
class EffectLimits:
    """`tool_seconds` bounds one call, `retries_max` the repeats of an idempotent call after an open error.

    `transaction_seconds` bounds a transactional call: not above the lease, or a frozen holder keeps its rows locked
    from whoever takes its thread over.
    """

    tool_seconds: float
    retries_max: int
    transaction_seconds: float


class RunEffects:
    """The effects one claim may cause, and what became of them.

    `results` are known; `in_doubt` may have happened; `unstarted` were not started, though their begin may be recorded.

    Tool and settle run in a task of their own, shielded from the run: a sibling that fails, a client that leaves or a
    run that is cancelled cuts neither. `drain` keeps such tasks until they end.
    """

    def __init__(
        self,
        ledger: EffectLedger,
        key: ThreadKey,
        *,
        attempt: str,
        deadline: float,
        granted: Mapping[str, Occurrence],
        answers: Mapping[str, ReserveAnswer],
        limits: EffectLimits,
        drain: set[asyncio.Task[Any]],
        on_step: OnStep,
        metrics: Metrics,
    ) -> None:
        self.results = {name: answer.result for name, answer in answers.items() if isinstance(answer, Settled)}
        self.in_doubt: set[str] = set()
        self.unstarted: set[str] = set()
        self.refusal: Refusal | None = None
        self._ledger = ledger
        self._key = key
        self._attempt = attempt
        self._deadline = deadline
        self._granted = granted
        self._begun = {name for name, answer in answers.items() if isinstance(answer, Reserved) and answer.begun}
        self._limits = limits
        self._drain = drain
        self._tasks: dict[str, asyncio.Task[ToolResult]] = {}
        self._on_step = on_step
        self._metrics = metrics

    def is_granted(self, interrupt_id: object) -> bool:
        """Say whether this run's claim decides a call."""
        return isinstance(interrupt_id, str) and interrupt_id in self._granted

    async def perform(
        self, interrupt_id: str, digest: str, call: Callable[[EffectCall], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Return the result of one approved call: the recorded one, or that of running it now.

        Raises RunRefused where the call is not in this run's committed claim, differs from what was approved, may not
        start any more, or ended in doubt. The refusal is kept for the run, which fails with it.
        """
        self._approved(interrupt_id, digest)
        if interrupt_id in self.results:
            return self.results[interrupt_id]
        return await asyncio.shield(self.start({interrupt_id: digest}, call))

    def start(
        self, digests: Mapping[str, str], call: Callable[[EffectCall], Awaitable[ToolResult]]
    ) -> asyncio.Task[ToolResult]:
        """Run approved calls without a result, given with their digests, whose effects are one; see `perform`.

        All begin before it and are settled with its one result.
        """
        occurrences = [self._approved(name, digest) for name, digest in digests.items()]
        running = next((self._tasks[name] for name in digests if name in self._tasks), None)
        if running is not None:
            return running
        if time.monotonic() >= self._deadline:
            raise self._refuse(Code.RUN_FAILED, "The run's time is over; no further call starts.", *digests)
        task = asyncio.create_task(self._run(occurrences, call))
        self._tasks.update(dict.fromkeys(digests, task))
        self._drain.add(task)
        task.add_done_callback(self._drain.discard)
        task.add_done_callback(_retrieved)
        return task

    def _approved(self, interrupt_id: str, digest: str) -> Occurrence:
        occurrence = self._granted.get(interrupt_id)
        if occurrence is None or occurrence.decision is None or occurrence.decision.digest != digest:
            raise self._refuse(Code.RESUME_STALE, "The call differs from the one that was approved.", interrupt_id)
        return occurrence

    async def is_known(self, interrupts: Collection[str]) -> bool:
        """Say whether the ledger has rows of some of these calls already. Raises StoreUnavailable."""
        return bool(await self._ledger.read(self._key, interrupts=interrupts))

    async def ended(self) -> None:
        """Wait until no call of this claim is alive: only then may the claim be released."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _run(
        self, occurrences: Sequence[Occurrence], call: Callable[[EffectCall], Awaitable[ToolResult]]
    ) -> ToolResult:
        first = occurrences[0]
        if first.kind is EffectKind.TRANSACTIONAL:
            self.results[first.interrupt_id] = result = await self._run_in_transaction(first, call)
            return result
        names = [each.interrupt_id for each in occurrences]
        await self._begin([name for name in names if name not in self._begun])
        await self._on_step(f"before-{Step.EFFECT}", self._key)
        result = await self._call(occurrences, call)
        await self._on_step(f"after-{Step.EFFECT}", self._key)
        await self._on_step(f"before-{Step.SETTLE}", self._key)
        for name in names:
            self.results[name] = result = await self._settle(name, result)
        await self._on_step(f"after-{Step.SETTLE}", self._key)
        return result

    async def _begin(self, names: Sequence[str]) -> None:
        for name in names:
            await self._on_step(f"before-{Step.BEGIN}", self._key)
            self.unstarted.add(name)
            answer: Began | Fenced = await _retrying(stop_after_attempt(BEGINS_MAX))(
                self._ledger.begin, self._key, interrupt_id=name, attempt=self._attempt
            )
            await self._on_step(f"after-{Step.BEGIN}", self._key)
            if not isinstance(answer, Began):
                self.unstarted.discard(name)
                raise self._fenced(name)
        self.unstarted.difference_update(names)

    async def _call(
        self, occurrences: Sequence[Occurrence], call: Callable[[EffectCall], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Call the tool within its time; repeat an idempotent one after an open error, with the same key."""
        first = occurrences[0]
        tries = 1 + (self._limits.retries_max if first.kind is EffectKind.IDEMPOTENT else 0)
        for left in reversed(range(tries)):
            try:
                async with asyncio.timeout(self._limits.tool_seconds):
                    return await call(EffectCall(first.interrupt_id))
            except ToolFailed as failed:
                return failed.result
            except OPEN_ERRORS as error:
                if left and time.monotonic() < self._deadline and not isinstance(error, asyncio.CancelledError):
                    continue
                raise self._open(occurrences, error) from error
        raise AssertionError("the loop returns or raises")

    def _open(self, occurrences: Sequence[Occurrence], error: BaseException) -> RunRefused:
        first, names = occurrences[0], [each.interrupt_id for each in occurrences]
        _log.warning("Calls %s ended open: %s", ", ".join(names), type(error).__name__)
        if first.kind is EffectKind.IDEMPOTENT:
            return self._refuse(Code.RUN_FAILED, f"The service behind '{first.tool}' did not answer.", *names)
        self.in_doubt.update(names)
        message = f"The call '{first.tool}' ({names[0]}) may have run and left no result; an operator must say which."
        return self._refuse(Code.OUTCOME_INDETERMINATE, message, *names)

    async def _run_in_transaction(
        self, occurrence: Occurrence, call: Callable[[EffectCall], Awaitable[ToolResult]]
    ) -> ToolResult:
        name = occurrence.interrupt_id

        async def in_transaction(connection: Any) -> ToolResult:
            await self._on_step(f"before-{Step.EFFECT}", self._key)
            result = await call(EffectCall(name, connection))
            await self._on_step(f"after-{Step.EFFECT}", self._key)
            await self._on_step(f"before-{Step.SETTLE}", self._key)
            return result

        try:
            settled = await self._transact(name, in_transaction)
        except ToolFailed as failed:
            result = failed.result
            settled = await self._transact(name, lambda _connection: _value(result))
        except (TimeoutError, ConnectionError) as error:
            message = f"The transaction of '{occurrence.tool}' did not come to its end; send the same resume again."
            raise self._refuse(Code.RUN_FAILED, message, name) from error
        if isinstance(settled, Fenced):
            raise self._fenced(name)
        await self._on_step(f"after-{Step.SETTLE}", self._key)
        return settled

    async def _transact(self, name: str, call: Callable[[Any], Awaitable[ToolResult]]) -> ToolResult | Fenced:
        seconds = self._limits.transaction_seconds
        async with asyncio.timeout(seconds):
            return await self._ledger.transact(
                self._key, interrupt_id=name, attempt=self._attempt, call=call, seconds=seconds
            )

    async def _settle(self, name: str, result: ToolResult) -> ToolResult:
        """Record the result; repeated while the process lives, since the effect can not be taken back."""
        answer: Settled | AlreadySettled | SecondEffect | Fenced = await _retrying(stop_never)(
            self._ledger.settle, self._key, interrupt_id=name, attempt=self._attempt, result=result
        )
        match answer:
            case Settled() | AlreadySettled():
                return answer.result
            case SecondEffect():
                self._metrics.second_effect()
                _log.critical("Second effect: %s ran although it was resolved as not happened", name)
            case _:
                _log.critical("Result refused by the ledger: %s is not begun under this attempt", name)
        raise self._fenced(name)

    def _fenced(self, name: str) -> RunRefused:
        message = "Another run has taken this thread over; send the same resume again to get its answer."
        return self._refuse(Code.RESUME_IN_PROGRESS, message, name)

    def _refuse(self, code: Code, message: str, *names: str) -> RunRefused:
        refusal = Refusal(code, message, names)
        if self.refusal is None or code is Code.OUTCOME_INDETERMINATE:
            self.refusal = refusal
        return RunRefused(refusal)


async def _value(result: ToolResult) -> ToolResult:
    return result


def _retrieved(task: asyncio.Task[Any]) -> None:
    """Read how a shielded task ended, since the run that waited for it may be gone."""
    if not task.cancelled():
        task.exception()


def _retrying(stop: Any) -> AsyncRetrying:
    return AsyncRetrying(
        retry=retry_if_exception_type(StoreUnavailable),
        wait=wait_exponential_jitter(multiplier=0.05, max=2.0, jitter=0.05),
        stop=stop,
        reraise=True,
    )
