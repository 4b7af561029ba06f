"""Percentiles of times that were measured, by the nearest rank: each is a value that occurred. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True)
class Percentiles:
    """How a measure spreads, in seconds; `count` is how often it was taken."""

    count: int
    p50: float
    p95: float
    p99: float
    max: float


def percentiles(values: Sequence[float]) -> Percentiles | None:
    """Return the percentiles of a measure, or None where it was never taken."""
    if not values:
        return None
    ordered = sorted(values)
    return Percentiles(len(ordered), _rank(ordered, 0.50), _rank(ordered, 0.95), _rank(ordered, 0.99), max=ordered[-1])


def _rank(ordered: Sequence[float], share: float) -> float:
    return ordered[ceil(share * len(ordered)) - 1]
