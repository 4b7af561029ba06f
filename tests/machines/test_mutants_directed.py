"""Each deliberate bug of the chaos runs, put into hosts of this process: the judge sees it, and nothing without it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from app import main
from loadtests.invariants import Violation
from loadtests.mutants import MUTANTS, put_in, threads
from loadtests.threads import NEVER
from stores.options import StoreOptions
from tests.host.worlds import World, memory_world
from tests.machines.conftest import MakeWorld
from tests.machines.far_side import FarSide, open_far_side
from tests.machines.mutant_stories import STORIES, Directed, Story


@pytest.fixture
async def bank(_no_certificates: None) -> AsyncIterator[FarSide]:
    async with open_far_side() as bank:
        yield bank


def test_every_bug_has_a_story() -> None:
    assert STORIES.keys() == MUTANTS.keys()


@pytest.mark.parametrize("name", MUTANTS)
async def test_the_judge_sees_the_bug_and_nothing_in_the_same_story_without_it(
    name: str, bank: FarSide, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await _try(memory_world, name, bank, monkeypatch)
    assert f"This host has a deliberate bug: {name}" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
async def test_so_it_does_on_every_store(
    name: str, make_world: MakeWorld, bank: FarSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _try(make_world, name, bank, monkeypatch)


async def _try(make_world: MakeWorld, name: str, bank: FarSide, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await _told(make_world, STORIES[name], bank, monkeypatch, bug="") == []
    broken = await _told(make_world, STORIES[name], bank, monkeypatch, bug=name)
    assert set(MUTANTS[name].rules) <= {each.rule for each in broken}, broken


async def _told(
    make_world: MakeWorld, story: Story, bank: FarSide, monkeypatch: pytest.MonkeyPatch, *, bug: str
) -> list[Violation]:
    """Tell a story in a fresh world, and return what the judge has to say of it."""
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(make_world())
        if bug:
            # Hosts that are given their stores open none, so what they would open is given to them.
            monkeypatch.setattr(main, "open_stores", lambda _options: world.open_another())
            monkeypatch.setenv("AGUI_BANK_URL", bank.url)
            monkeypatch.setattr(threads, "LATE_SECONDS", NEVER)
            put_in(bug, put=monkeypatch.setattr)
            replicas = World(lambda: main.open_stores(StoreOptions("memory")), world.dump, world.is_transactional)
        else:
            replicas = world
        example = Directed(world, replicas, bank, f"{'B' if bug else 'A'}-", stack)
        await example.open()
        await story(example)
        return await example.judged()
