"""How each fault is done to a deployment, written into the history, and mended again."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import psutil

from deploy.waiting import wait_gone
from loadtests.history import Fault, FaultKind
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
            self.mending.note(kind, replica)
            match kind:
                case FaultKind.KILL:
                    self._do(kind, replica, partial(self._target.kill, replica))
                case FaultKind.FREEZE:
                    self._do(kind, replica, partial(self._target.freeze, replica))
                case FaultKind.CUT:
                    self._do(kind, replica, partial(self._target.cut, replica))
                case _:
                    assert kind is FaultKind.STOP, kind  # done where it is mended
        for replica in replicas:
            self._mend_later(kind, replica)

    def was_hit(self, hit: Hit, kind: FaultKind) -> None:
        """Follow an order that was carried out. Raises TimeoutError if the replica does not die or stop of it."""
        self.mending.note(kind, hit.replica)
        fault = Fault(
            hit.at,
            hit.replica,
            kind=kind,
            step=hit.step,
            thread=hit.thread_id,
            elsewhere=hit.elsewhere,
            is_resume=hit.is_resume,
        )
        # It logs its hit first and sends itself the signal then, on a busy machine some time later.
        try:
            if kind is FaultKind.FREEZE:
                # Thawed in between, it would stay frozen for good.
                self._target.freeze(hit.replica)
            else:
                _wait_gone(hit.pid)
        finally:
            self._journal.append(replace(fault, done_at=time.time()))
        self._mend_later(kind, hit.replica)

    def break_all(self, kind: FaultKind) -> None:
        """Break what all replicas use: restart, fail over or slow down the store, or reload the load balancer."""
        self.mending.note(kind, "")
        match kind:
            case FaultKind.SLOW_STORE:
                self._do(kind, "", partial(self._target.slow_store, self._durations.slow_store_seconds))
                self._mend(kind, "", partial(self._target.slow_store, 0.0), self._durations.slow_seconds)
                return
            case FaultKind.STORE_RESTART:
                self._do(kind, "", self._target.restart_store)
            case FaultKind.FAILOVER:
                self._do(kind, "", self._target.fail_over)
            case _:
                assert kind is FaultKind.BALANCER_RELOAD, kind
                self._do(kind, "", self._target.reload_balancer)
        self.mending.write_end(kind, "")

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

    def _do(self, kind: FaultKind, replica: str, fault: Callable[[], None]) -> None:
        """Let a fault happen and write down between which times it did; also if it raised, since it may have then."""
        at = time.time()
        try:
            fault()
        finally:
            self._journal.append(Fault(at, replica, kind=kind, done_at=time.time()))

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
        self._do(FaultKind.STOP, replica, partial(self._target.stop, replica))
        self._target.start(replica)

    def _heal(self, replica: str) -> None:
        self._target.heal(replica)
        self._target.start(replica)


def _wait_gone(pid: int) -> None:
    """Wait until a process of this machine has ended, whoever starts it anew as another one."""
    with suppress(psutil.NoSuchProcess):
        wait_gone([psutil.Process(pid)])
