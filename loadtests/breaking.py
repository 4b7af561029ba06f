"""How each fault is done to a deployment, written into the history, and mended again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from loadtests.history import Fault, FaultKind, Mended
from loadtests.journal import Journal
from loadtests.mending import Mending
from loadtests.orders import Hit
from loadtests.target import Target
from stores.sql.sqlite import BUSY_SHARE


@dataclass(frozen=True, slots=True)
class Durations:
    """How long faults last that do not end by themselves, in seconds."""

    freeze_seconds: float = 6.0
    cut_seconds: float = 6.0
    slow_seconds: float = 6.0
    slow_store_seconds: float = 0.1
    """So much later comes each answer of a slow store."""

    @classmethod
    def of(cls, *, is_sqlite: bool, lease_seconds: float, store_timeout_seconds: float) -> Durations:
        """Return those that fit these hosts: who is frozen or cut off is past its lease then, and is taken over.

        Not on SQLite: a freeze inside a write stalls every writer there, so it is over before they give up.
        """
        long, short = 1.5 * lease_seconds, BUSY_SHARE * store_timeout_seconds / 2
        return cls(freeze_seconds=short if is_sqlite else long, cut_seconds=long)


class Breaking:
    """Breaks replicas one by one, or what all of them use. What takes time to mend is mended meanwhile."""

    def __init__(self, target: Target, journal: Journal, durations: Durations) -> None:
        self._target = target
        self._journal = journal
        self._durations = durations
        self.mending = Mending(journal)

    def whole(self) -> list[str]:
        """Return the replicas that no fault of this nemesis is left of."""
        return [replica for replica in self._target.replicas if self.mending.is_whole(replica)]

    def break_replicas(self, kind: FaultKind, *replicas: str) -> None:
        """Kill, freeze, cut off or stop them, before any of them is mended."""
        for replica in replicas:
            # Written before it happens: whatever comes of it comes later.
            self._journal.append(Fault(time.time(), replica, kind=kind))
            match kind:
                case FaultKind.KILL:
                    self._target.kill(replica)
                case FaultKind.FREEZE:
                    self._target.freeze(replica)
                case FaultKind.CUT:
                    self._target.cut(replica)
                case _:
                    assert kind is FaultKind.STOP, kind
        for replica in replicas:
            self._mend_later(kind, replica)

    def was_hit(self, hit: Hit, kind: FaultKind) -> None:
        """Follow an order that was carried out."""
        fault = Fault(
            hit.at,
            hit.replica,
            kind=kind,
            step=hit.step,
            thread=hit.thread_id,
            elsewhere=hit.elsewhere,
            is_resume=hit.is_resume,
        )
        self._journal.append(fault)
        if kind is FaultKind.FREEZE:
            # It logs its hit first and stops then: thawed in between, it would stay frozen for good.
            self._target.freeze(hit.replica)
        self._mend_later(kind, hit.replica)

    def break_all(self, kind: FaultKind) -> None:
        """Break what all replicas use: restart, fail over or slow down the store, or reload the load balancer."""
        self._journal.append(Fault(time.time(), "", kind=kind))
        match kind:
            case FaultKind.SLOW_STORE:
                self._target.slow_store(self._durations.slow_store_seconds)
                self._mend(kind, "", partial(self._target.slow_store, 0.0), self._durations.slow_seconds)
                return
            case FaultKind.STORE_RESTART:
                self._target.restart_store()
            case FaultKind.FAILOVER:
                self._target.fail_over()
            case _:
                assert kind is FaultKind.BALANCER_RELOAD, kind
                self._target.reload_balancer()
        self._journal.append(Mended(time.time(), "", kind))

    def mend_all(self) -> None:
        """Mend what is broken, and what may have been left half done. Raises what a mending has raised."""
        try:
            self.mending.finish()
        finally:
            target, replicas = self._target, self._target.replicas
            for replica in replicas if FaultKind.FREEZE in target.faults else ():
                target.thaw(replica)
            for replica in replicas if FaultKind.CUT in target.faults else ():
                target.heal(replica)
            if FaultKind.SLOW_STORE in target.faults:
                target.slow_store(0.0)
            for replica in replicas:
                target.start(replica)

    def _mend_later(self, kind: FaultKind, replica: str) -> None:
        match kind:
            case FaultKind.KILL:
                self._mend(kind, replica, partial(self._target.start, replica))
            case FaultKind.FREEZE:
                self._mend(kind, replica, partial(self._target.thaw, replica), self._durations.freeze_seconds)
            case FaultKind.CUT:
                self._mend(kind, replica, partial(self._heal, replica), self._durations.cut_seconds)
            case _:
                # It drains first, which takes seconds in which others can be struck.
                self._mend(kind, replica, partial(self._stop_and_start, replica))

    def _mend(self, kind: FaultKind, replica: str, mend: Callable[[], None], after_seconds: float = 0.0) -> None:
        self.mending.begin(kind, replica, mend, after_seconds=after_seconds)

    def _stop_and_start(self, replica: str) -> None:
        self._target.stop(replica)
        self._target.start(replica)

    def _heal(self, replica: str) -> None:
        self._target.heal(replica)
        self._target.start(replica)
