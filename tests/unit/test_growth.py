"""The judgement about cost curves, and how they are drawn."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from math import log2
from random import Random

import pytest

from loadtests.bench.measuring import Cost, Curve, Growth, Meter, Verdict, curves
from loadtests.bench.showing import bars

DECADES = (100, 1_000, 10_000, 100_000, 1_000_000)


def curve(medians: Mapping[int, float], **changes: bool | int) -> Curve:
    costs = {size: Cost(median, p95=median, cpu=median, samples=200) for size, median in medians.items()}
    return Curve("stored threads", "load", costs, **changes)  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize("noise", [0.7, 1.0, 1.4])
def test_a_cost_that_differs_by_noise_alone_is_flat(noise: float) -> None:
    assert curve({100: 1.0, 1_000: noise, 10_000: 1 / noise, 100_000: 1.0, 1_000_000: noise}).verdict is Verdict.FLAT


def test_a_search_in_a_tree_is_logarithmic() -> None:
    assert curve({size: log2(size) for size in DECADES}).verdict is Verdict.LOGARITHMIC


@pytest.mark.parametrize("constant", [0, 1_000, 100_000, 1_000_000])
def test_a_cost_with_a_share_that_is_proportional_grows_however_large_the_constant_share(constant: int) -> None:
    assert curve({size: constant + 2 * size for size in DECADES}).verdict is Verdict.GROWS


def test_a_logarithm_of_the_square_of_the_size_does_not_pass_for_one_of_the_size() -> None:
    assert curve({size: log2(size) ** 2 for size in DECADES}).verdict is Verdict.GROWS


def test_what_the_contract_lets_be_proportional_is_not_judged() -> None:
    assert curve({1: 1.0, 1_000: 1_000.0}, is_proportional=True).verdict is Verdict.PROPORTIONAL


def test_sizes_below_the_base_are_not_compared() -> None:
    found = curve({1: 1.0, 10: 10.0, 100: 10.0}, base=10)
    assert (found.ratio, found.verdict) == (1.0, Verdict.FLAT)


def test_a_bar_higher_is_twice_the_cost() -> None:
    assert bars(curve({1: 3.0, 10: 6.0, 100: 24.0, 1_000: 3_000_000.0})) == "▁▂▄█"


def test_each_place_takes_each_script_as_often_as_asked_after_warming_up() -> None:
    taken: list[str] = []

    async def script(place: str, meter: Meter, _random: Random) -> None:
        taken.append(place)
        with meter.time("step"):
            pass

    growth = Growth("places", {1: "small", 10: "large"}, (script,))
    (found,) = asyncio.run(curves(growth, rounds=5, random=Random(1)))

    assert {size: cost.samples for size, cost in found.costs.items()} == {1: 5, 10: 5}
    assert taken.count("small") == taken.count("large") > 5
