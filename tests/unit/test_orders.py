"""Orders to kill or freeze a replica at a named step: who carries them out, and what is known of the moment."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.orders import Hit, Orders

HARMLESS = signal.SIGCONT
"""Sent to this very process, which it does nothing to."""
TAKE_A_STEP = """
import asyncio, sys
from pathlib import Path
from loadtests.orders import Orders

async def resume():
    orders.carry_out("thread-1", "before-load")
    print("ready", flush=True)
    sys.stdin.readline()
    orders.carry_out("thread-1", "before-claim")

orders = Orders(Path(sys.argv[1]))
asyncio.run(resume())
"""


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGUI_REPLICA_NAME", "host-1")


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path)


async def run(orders: Orders, thread_id: str, *steps: str) -> None:
    """Let a run take these steps, in a task of its own as every run of a host does."""

    async def take() -> None:
        for step in steps:
            orders.carry_out(thread_id, step)

    await asyncio.create_task(take())


def hit_steps(orders: Orders) -> list[tuple[str, str, bool]]:
    return [(hit.thread_id, hit.step, hit.is_resume) for hit in orders.hits()]


def test_of_many_replicas_at_the_same_step_one_is_killed(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    replicas = [
        subprocess.Popen(
            [sys.executable, "-c", TAKE_A_STEP, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for replica in replicas:
        assert replica.stdout is not None
        assert replica.stdout.readline() == "ready\n"
    order = orders.place_any("before-claim")

    for replica in replicas:
        assert replica.stdin is not None
        replica.stdin.write("go\n")
        replica.stdin.flush()
    for replica in replicas:
        replica.communicate()

    assert sorted(replica.returncode for replica in replicas) == [-signal.SIGKILL, 0, 0, 0]
    assert hit_steps(orders) == [("thread-1", "before-claim", True)]
    assert not orders.withdraw(order)


async def test_an_order_that_was_withdrawn_is_not_carried_out(orders: Orders) -> None:
    assert orders.withdraw(orders.place_any("before-effect", HARMLESS))
    assert orders.withdraw(orders.place("thread-1", "before-effect", HARMLESS))

    await run(orders, "thread-1", "before-load", "before-effect")

    assert orders.hits() == []


async def test_an_order_for_a_thread_is_for_its_step_alone(orders: Orders) -> None:
    orders.place("thread-1", "before-effect", HARMLESS)

    await run(orders, "thread-2", "before-load", "before-effect")
    await run(orders, "thread-1", "before-load", "before-claim", "before-effect", "before-effect")

    assert hit_steps(orders) == [("thread-1", "before-effect", True)]


async def test_an_order_for_any_resume_passes_over_plain_runs_and_upkeep(orders: Orders) -> None:
    orders.place_any("before-finish", HARMLESS)
    orders.place_any("after-record", HARMLESS)

    await run(orders, "plain", "before-open", "after-open", "before-claim", "before-finish")
    await run(orders, "upkeep", "before-record", "after-record")
    assert orders.hits() == []

    await run(orders, "resume", "before-load", "after-load", "before-claim", "before-finish")
    assert hit_steps(orders) == [("resume", "before-finish", True)]


async def test_a_take_over_is_a_resume_and_a_plain_run_is_none(orders: Orders) -> None:
    for thread_id in ("plain", "taken-over"):
        orders.place(thread_id, "before-effect", HARMLESS)

    await run(orders, "plain", "before-open", "before-claim", "before-effect")
    await run(orders, "taken-over", "before-claim", "before-effect")

    assert hit_steps(orders) == [("plain", "before-effect", False), ("taken-over", "before-effect", True)]


async def test_a_call_in_a_task_of_its_own_belongs_to_the_run_that_made_it(orders: Orders) -> None:
    orders.place_any("after-effect", HARMLESS)

    async def resume() -> None:
        orders.carry_out("thread-1", "before-load")
        await run(orders, "thread-1", "before-effect", "after-effect")

    await asyncio.create_task(resume())

    assert hit_steps(orders) == [("thread-1", "after-effect", True)]


async def test_a_hit_names_the_other_resumes_that_are_in_progress(orders: Orders) -> None:
    orders.place("thread-1", "before-effect", HARMLESS)
    there, held = asyncio.Barrier(4), asyncio.Event()

    async def hold(thread_id: str, *steps: str) -> None:
        for step in steps:
            orders.carry_out(thread_id, step)
        await there.wait()
        await held.wait()

    await run(orders, "ended", "before-load", "before-claim")
    others = [
        asyncio.create_task(hold("thread-2", "before-load", "after-claim", "after-begin")),
        asyncio.create_task(hold("thread-1", "before-load")),
        asyncio.create_task(hold("plain", "before-open", "after-open")),
    ]
    await there.wait()

    await run(orders, "thread-1", "before-load", "before-effect")
    held.set()
    await asyncio.gather(*others)
    orders.place("thread-1", "before-effect", HARMLESS)
    await run(orders, "thread-1", "before-load", "before-effect")

    first, second = orders.hits()
    assert sorted(first.elsewhere) == [("thread-1", "before-load"), ("thread-2", "after-begin")]
    assert second.elsewhere == ()


async def test_hits_are_read_by_whoever_else_has_the_folder(orders: Orders, tmp_path: Path) -> None:
    nemesis = Orders(tmp_path)
    assert nemesis.hits() == []
    for number in range(2):
        nemesis.place(f"thread-{number}", "after-claim", HARMLESS)
        await run(orders, f"thread-{number}", "before-claim", "after-claim")
        assert len(nemesis.hits()) == number + 1

    [hit, _] = nemesis.hits()
    assert hit == Hit(hit.at, "thread-0", "after-claim", "host-1", True, (), os.getpid())


async def test_any_thread_id_can_have_an_order(orders: Orders) -> None:
    hostile = "../" * 80 + "\0"
    orders.place(hostile, "before-claim", HARMLESS)

    await run(orders, hostile, "before-claim")

    assert hit_steps(orders) == [(hostile, "before-claim", True)]
