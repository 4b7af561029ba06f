"""The nemesis, against processes that it really kills and freezes: it hits resumes, spares one, and mends it all."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from deploy.waiting import wait_until
from loadtests.breaking import Durations
from loadtests.history import Event, Fault, FaultKind, Mended
from loadtests.journal import Journal, read_history
from loadtests.mending import Mending
from loadtests.nemesis import Nemesis, Pace
from loadtests.orders import HITS, Orders
from loadtests.plans import PLANS, Plan, Strike
from tests.replicas.fault_lines import broken_at_once_max, ended, faults, mended_before_done
from tests.replicas.small_target import SmallTarget, small_target

NOT_SOON = Durations(freeze_seconds=3600)
SOON = Durations(freeze_seconds=0.05)


@dataclass(frozen=True, slots=True)
class Arena:
    """A small deployment and a nemesis; `run` returns the history that comes of a plan."""

    target: SmallTarget
    orders: Path
    history: Path

    def run(
        self,
        plan: Plan,
        until: Callable[[Sequence[Event]], bool],
        *,
        durations: Durations = SOON,
        aim_seconds: float = 60.0,
    ) -> list[Event]:
        nemesis = Nemesis(
            self.target,
            Orders(self.orders),
            Journal(self.history),
            random.Random(1),
            durations=durations,
            pace=Pace(pause_seconds_min=0.0, pause_seconds_max=0.05, aim_seconds=aim_seconds),
        )
        nemesis.run(plan, lambda: until(read_history(self.history)))
        return read_history(self.history)

    def is_quiet(self) -> bool:
        """Whether every replica runs, and no order is left that one could meet."""
        states = [self.target.state(replica) for replica in self.target.replicas]
        left = [path.name for path in self.orders.iterdir() if path.name != HITS]
        return left == [] and not {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE} & set(states)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("small")


@pytest.fixture(scope="module")
def target(folder: Path) -> Iterator[SmallTarget]:
    """One for all of them: each leaves it whole."""
    with small_target(folder) as target:
        yield target


@pytest.fixture
def arena(target: SmallTarget, folder: Path, tmp_path: Path) -> Arena:
    target.done.clear()
    return Arena(target, folder / "orders", tmp_path / "history.jsonl")


def so_many(count: int) -> Callable[[Sequence[Event]], bool]:
    return lambda history: len(faults(history)) >= count


def own(*strikes: Strike) -> Plan:
    return Plan("own", frozenset(strike.kind for strike in strikes), lambda _ground, _rng: iter(strikes))


def test_kills_hit_resumes_in_progress_and_one_replica_is_always_spared(arena: Arena) -> None:
    history = arena.run(PLANS["kill-one"], so_many(10))

    aimed = [fault for fault in faults(history, FaultKind.KILL) if fault.step]
    assert len(aimed) >= 5
    assert all(fault.done_at is not None and fault.done_at > fault.at for fault in faults(history))
    assert all(fault.is_resume and fault.thread and fault.replica for fault in aimed)
    assert broken_at_once_max(history) <= 2
    assert ended(history)
    assert arena.is_quiet()


def test_a_frozen_replica_is_thawed_after_its_time(arena: Arena) -> None:
    history = arena.run(PLANS["freeze"], so_many(4))

    assert {fault.kind for fault in faults(history)} == {FaultKind.FREEZE}
    assert all(
        any(
            each.replica == fault.replica and fault.at <= each.from_at <= each.until_at <= (fault.done_at or 0.0)
            for each in arena.target.done
        )
        for fault in faults(history)
    )
    assert ended(history)
    assert arena.is_quiet()


def test_whoever_is_struck_at_random_one_replica_is_always_spared(arena: Arena) -> None:
    one, majority = Strike(FaultKind.KILL), Strike(FaultKind.KILL, spares_one=True)
    history = arena.run(own(*[one, one, one, majority] * 3), lambda _: False)

    assert len(faults(history)) == 3 * (1 + 1 + 1 + 2)
    assert broken_at_once_max(history) == 2
    assert arena.is_quiet()


def test_a_fault_is_written_down_with_the_times_between_which_it_was_done(arena: Arena) -> None:
    kill, majority = Strike(FaultKind.KILL), Strike(FaultKind.KILL, spares_one=True)
    freeze, stop = Strike(FaultKind.FREEZE), Strike(FaultKind.STOP)
    history = arena.run(own(*[freeze, kill, kill, stop, majority] * 3), lambda _: False)

    for kind in (FaultKind.FREEZE, FaultKind.KILL, FaultKind.STOP):
        for replica in arena.target.replicas:
            written = [fault for fault in faults(history, kind) if fault.replica == replica]
            done = [each for each in arena.target.done if (each.kind, each.replica) == (kind, replica)]
            assert len(written) == len(done)
            for fault, each in zip(written, done, strict=True):
                assert fault.done_at is not None
                assert fault.at <= each.from_at <= each.until_at <= fault.done_at
    assert len(faults(history)) == 3 * (1 + 1 + 1 + 1 + 2)
    assert mended_before_done(history) == []
    assert ended(history)


def test_a_majority_dies_at_once_and_is_back_before_it_dies_again(arena: Arena) -> None:
    history = arena.run(PLANS["kill-majority"], so_many(4))

    assert broken_at_once_max(history) == 2
    assert [isinstance(event, Fault) for event in history] == [True, True, False, False] * (len(history) // 4)
    assert arena.is_quiet()


def test_in_a_rolling_restart_each_is_ready_before_the_next_one_stops(arena: Arena) -> None:
    history = arena.run(PLANS["rolling"], so_many(3))

    assert broken_at_once_max(history) == 1
    assert {fault.replica for fault in faults(history, FaultKind.STOP)} == set(arena.target.replicas)
    assert arena.is_quiet()


def test_an_order_that_no_resume_meets_is_withdrawn_and_another_step_tried(arena: Arena) -> None:
    # On a busy machine it may try more than once.
    plan = own(*[Strike(FaultKind.KILL, "before-release"), Strike(FaultKind.KILL, "before-settle")] * 100)
    history = arena.run(plan, so_many(1), aim_seconds=0.5)

    assert [fault.step for fault in faults(history)] == ["before-settle"]
    assert arena.is_quiet()


def test_when_it_is_told_to_stop_nothing_waits_for_its_time(arena: Arena) -> None:
    history = arena.run(PLANS["freeze"], so_many(1), durations=NOT_SOON)

    assert ended(history)
    assert arena.is_quiet()


def test_a_strike_that_raises_leaves_nothing_broken(arena: Arena) -> None:
    plan = own(Strike(FaultKind.FREEZE), Strike(FaultKind.KILL), Strike(FaultKind.STORE_RESTART))
    with pytest.raises(TimeoutError, match="store does not start"):
        arena.run(plan, lambda _: False, durations=NOT_SOON)

    history = read_history(arena.history)
    [restart] = faults(history, FaultKind.STORE_RESTART)
    assert restart.done_at is not None, "it may have happened"
    assert FaultKind.STORE_RESTART not in {event.kind for event in history if isinstance(event, Mended)}
    assert arena.is_quiet()


def test_what_does_not_come_back_ends_it(arena: Arena, tmp_path: Path) -> None:
    mending = Mending(Journal(tmp_path / "own.jsonl"))
    mending.note(FaultKind.STOP, "host-1")
    mending.begin(FaultKind.STOP, "host-1", arena.target.restart_store)
    wait_until(lambda: mending.has_failed, "it is known that it failed")

    assert not mending.is_whole("host-1")
    with pytest.raises(TimeoutError, match="store does not start"):
        mending.finish()
    assert read_history(tmp_path / "own.jsonl") == []


def test_what_a_deployment_can_not_do_is_refused_before_anything_is_broken(arena: Arena) -> None:
    with pytest.raises(ValueError, match=r"needs .*: cut\. What can be done: freeze, kill, stop, store restart\."):
        arena.run(PLANS["cut"], so_many(1))

    assert read_history(arena.history) == []
    assert arena.is_quiet()
