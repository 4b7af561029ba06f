"""A replica dies at a point of an approved call: the client sends the same again and gets the one outcome allowed."""

from __future__ import annotations

import pytest

from tests.crash_points.crashes import DOUBT, RESULTS, WORDS, Crash
from tests.crash_points.points import Journey, Outcome, calls, effects, outcome
from tests.crash_points.worlds import APPROVALS, each_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

STATES = {Outcome.ANEW: ["pending"], Outcome.REPLAYED: []}
"""How far the approval got by its record while the replica is dead; else it is decided, however far the call got."""


@each_of(*APPROVALS)
async def test_an_approved_call_has_the_outcome_that_is_allowed(crash: Crash, journey: Journey, point: str) -> None:
    allowed = outcome(journey, point)
    body = await crash.ask(WORDS[journey])
    await crash.dies(point, body)

    assert await crash.states() == STATES.get(allowed, ["decided"])
    answered = await crash.answered(body)

    assert await crash.counted(journey) == (effects(journey, point), calls(journey, point))
    assert (answered.is_replay, answered.code) == (
        allowed is Outcome.REPLAYED,
        DOUBT if allowed is Outcome.IN_DOUBT else None,
    )
    if allowed is Outcome.IN_DOUBT:
        assert answered.metadata["definite"] is False
        assert await crash.states() == ["indeterminate"]
    else:
        [result] = answered.results
        assert result.startswith(RESULTS[journey].format(invoice=crash.name))
        assert result in answered.text
        assert await crash.states() == []

    again = await crash.witness.send(body)
    assert (again.code, again.is_replay) == (answered.code, answered.code is None)
    assert (again.results, again.text) == (answered.results, answered.text)
    assert await crash.counted(journey) == (effects(journey, point), calls(journey, point))
