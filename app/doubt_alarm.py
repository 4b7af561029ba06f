"""Says loudly, but once a day, that a call has been in doubt for long: it waits for a person and is never purged."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from app import lifecycle
from stores.ports import Loaded
from stores.records import Effect, OccurrenceState, ThreadKey

AGAIN_SECONDS = 86_400.0
"""A thread is spoken of once a day by each process."""
THREADS_MAX = 10_000
"""More threads than this are not kept apart; the oldest may be spoken of again."""

_log = logging.getLogger(__name__)


class DoubtAlarm:
    """`age_seconds` is how long a call may be in doubt before it is an error that nobody looked at it."""

    def __init__(self, *, age_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._age_seconds = age_seconds
        self._clock = clock
        self._said: dict[ThreadKey, float] = {}

    def look_at(self, key: ThreadKey, loaded: Loaded, rows: Mapping[str, Effect]) -> None:
        """Log an error for the thread's oldest call in doubt, if it is too old; no ids of people, no arguments.

        The age counts from when the call began; from when it was asked for, where the ledger knows no better.
        """
        in_doubt = lifecycle.in_state(loaded.record, OccurrenceState.INDETERMINATE)
        ages = [(_age_seconds(rows.get(each.interrupt_id)) or loaded.now - each.created_at, each) for each in in_doubt]
        age_seconds, oldest = max(ages, key=lambda aged: aged[0])
        if age_seconds <= self._age_seconds or not self._is_time_for(key):
            return
        _log.error(
            "Call %s of tool %s has been in doubt for %d s (AGUI_RETENTION_INDETERMINATE_SECONDS is %d): "
            "an operator must say whether it happened",
            oldest.interrupt_id,
            oldest.tool,
            age_seconds,
            self._age_seconds,
        )

    def _is_time_for(self, key: ThreadKey) -> bool:
        now = self._clock()
        if now - self._said.get(key, now - AGAIN_SECONDS) < AGAIN_SECONDS:
            return False
        self._said.pop(key, None)
        if len(self._said) >= THREADS_MAX:
            del self._said[next(iter(self._said))]
        self._said[key] = now
        return True


def _age_seconds(row: Effect | None) -> float | None:
    return None if row is None else row.begun_age_seconds
