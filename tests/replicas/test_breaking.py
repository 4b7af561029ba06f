"""When a fault counts as done, and when as over, if its replica is slow to die or quick to come back."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.waiting import wait_until
from loadtests.breaking import Breaking, Durations
from loadtests.history import Fault, FaultKind, Mended
from loadtests.journal import Journal, read_history
from loadtests.orders import Hit
from tests.replicas.fault_lines import ended, faults, mended_before_done
from tests.replicas.small_target import SmallTarget, small_target


@pytest.fixture
def target(tmp_path: Path) -> Iterator[SmallTarget]:
    with small_target(tmp_path, replicas=1) as target:
        yield target


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return tmp_path / "history.jsonl"


def test_a_kill_at_a_step_is_done_when_the_process_is_gone(target: SmallTarget, history: Path) -> None:
    breaking = Breaking(target, Journal(history), Durations())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as victim:
        hit = Hit(time.time(), "thread-1", "before-settle", "host-1", True, (), victim.pid)
        following = threading.Thread(target=breaking.was_hit, args=(hit, FaultKind.KILL))
        following.start()
        wait_until(lambda: not breaking.mending.is_whole("host-1"), "it is known that it was hit")
        killed_at = time.time()
        victim.kill()
        following.join()
    breaking.mending.finish()

    [fault] = faults(read_history(history))
    assert (fault.at, fault.thread, fault.step) == (hit.at, "thread-1", "before-settle")
    assert fault.done_at is not None
    assert fault.done_at >= killed_at
    assert ended(read_history(history))


def test_who_is_killed_again_while_it_comes_back_is_mended_after_that(
    target: SmallTarget, history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaking = Breaking(target, Journal(history), Durations())
    breaking.mending.note(FaultKind.KILL, "host-1")
    kill = target.kill

    def kill_one_that_was_ready(replica: str) -> None:
        breaking.mending.write_end(FaultKind.KILL, replica)
        kill(replica)

    monkeypatch.setattr(target, "kill", kill_one_that_was_ready)
    breaking.break_replicas(FaultKind.KILL, "host-1")
    breaking.mending.finish()

    found = read_history(history)
    assert [type(event) for event in found] == [Fault, Mended, Mended]
    assert mended_before_done(found) == []
    assert breaking.mending.is_whole("host-1")
