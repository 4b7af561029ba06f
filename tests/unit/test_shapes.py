"""How many users there are when."""

from __future__ import annotations

from loadtests.shapes import BURST_SECONDS, RAMP_SECONDS, SHAPES


def users(shape: str, *seconds: float) -> list[int]:
    return [SHAPES[shape](each, 30) for each in seconds]


def test_a_steady_load_is_the_same_at_all_times() -> None:
    assert users("steady", 0.0, 1000.0) == [30, 30]


def test_a_ramp_begins_with_somebody_and_ends_with_all() -> None:
    assert users("ramp", 0.0, RAMP_SECONDS / 2, RAMP_SECONDS, 10 * RAMP_SECONDS) == [1, 15, 30, 30]


def test_bursts_come_and_go_and_somebody_is_always_there() -> None:
    assert users("burst", 0.0, 1.5 * BURST_SECONDS, 2.5 * BURST_SECONDS) == [30, 9, 30]
    assert SHAPES["burst"](1.5 * BURST_SECONDS, 1) == 1
