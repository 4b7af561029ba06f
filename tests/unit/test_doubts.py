"""Few doubts come of a failure that was merely near."""

from __future__ import annotations

import pytest

from loadtests.cases import cases
from loadtests.doubts import NEAR_FEW, NEAR_SHARE_MAX, too_many_doubts
from loadtests.history import FaultKind
from loadtests.invariants import DOUBTS_ARE_RARE, judged, violations
from tests.unit.forged import doubts_nearby


@pytest.mark.parametrize(
    ("answered", "doubted", "is_rare"),
    [(0, NEAR_FEW, True), (0, NEAR_FEW + 1, False), (90, 10, True), (89, 11, False)],
)
def test_a_few_pauses_or_a_tenth_of_them_may_be_in_doubt(answered: int, doubted: int, is_rare: bool) -> None:
    assert NEAR_SHARE_MAX == 0.1
    run = doubts_nearby(answered, doubted)

    assert violations(run.history, run.effects) == [], "each of them has a cause"
    assert [each.rule for each in judged(run.history, run.effects).violations] == ([] if is_rare else [DOUBTS_ARE_RARE])


def test_those_that_were_hit_for_sure_are_not_counted() -> None:
    run = doubts_nearby(0, 30)
    for number in range(30):
        at = 10.25 + number
        run.fail(at, at + 1, FaultKind.KILL, "a", step="after-effect", thread=f"thread-{number}")

    assert not list(too_many_doubts(cases(run.history, run.effects)[0]))
