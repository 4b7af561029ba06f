"""The table of points is what hosts really pass, and what the README shows."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from app.steps import Step
from tests.crash_points.crashes import WORDS, Crash
from tests.crash_points.points import POINTS, Journey, both, legend, points, table
from tests.crash_points.worlds import APPROVALS, in_worlds
from tests.host.bodies import answers, cancel, reject

README = Path(__file__).parents[2] / "README.md"
NOWHERE = ""


def test_every_step_has_a_place_where_a_replica_dies_before_and_after_it() -> None:
    assert set(chain.from_iterable(POINTS.values())) == set(both(*Step))


def test_the_readme_shows_the_table_and_explains_its_words() -> None:
    text = README.read_text()
    assert table() in text
    assert legend() in text


@pytest.mark.asyncio(loop_scope="module")
@in_worlds((*APPROVALS, Journey.REJECT, Journey.CANCEL, Journey.PAUSE))
async def test_a_run_passes_the_points_of_the_table_in_their_order(crash: Crash, journey: Journey) -> None:
    body = crash.says(WORDS[Journey.UNSAFE])
    if journey is not Journey.PAUSE:
        body = await crash.ask(WORDS.get(journey, WORDS[Journey.UNSAFE]))
    if journey in {Journey.REJECT, Journey.CANCEL}:
        decide = reject if journey is Journey.REJECT else cancel
        body = answers(crash.name, decide(body["resume"][0]["interruptId"]))

    async with crash.mortal(NOWHERE) as host:
        assert (await host.host.send(body)).code is None

    assert tuple(host.life.passed) == points(journey, shared=crash.survivor.stores.shared)
