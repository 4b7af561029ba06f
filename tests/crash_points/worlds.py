"""Which points are tried on which stores: every one that these stores pass."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.crash_points.crashes import MIXED_WORLD, SHARED_WORLDS, TRANSACTIONAL_WORLDS
from tests.crash_points.points import POINTS, Journey, apart_only, points

APPROVALS = (Journey.IDEMPOTENT, Journey.UNSAFE, Journey.TRANSACTIONAL)
_SERVERS = {"postgres", "redis", MIXED_WORLD}


def each_of(*journeys: Journey) -> pytest.MarkDecorator:
    """Parametrize a test with every point of these journeys, in every world that passes it."""
    return each_of_these([(journey, point) for journey in journeys for point in POINTS[journey]])


def each_of_these(
    cases: Sequence[tuple[Journey, str]], worlds: Sequence[str] = (*SHARED_WORLDS, MIXED_WORLD)
) -> pytest.MarkDecorator:
    """Parametrize a test with these points, in each of these worlds that passes them."""
    parameters = [
        pytest.param(
            world,
            journey,
            point,
            id=f"{world}-{journey}-{point}".replace(" ", "-"),
            marks=_marks(world, journey, point),
        )
        for world in worlds
        for journey, point in cases
        if point in points(journey, shared=world != MIXED_WORLD)
        if journey is not Journey.TRANSACTIONAL or world in TRANSACTIONAL_WORLDS
    ]
    return pytest.mark.parametrize(("world", "journey", "point"), parameters, indirect=["world"])


def in_worlds(journeys: Sequence[Journey]) -> pytest.MarkDecorator:
    """Parametrize a test with these journeys, each on stores of one technology and on stores of two."""
    parameters = [
        pytest.param(world, journey, id=f"{world}-{journey}".replace(" ", "-"), marks=pytest.mark.external_service)
        for world in ("postgres", MIXED_WORLD)
        for journey in journeys
    ]
    return pytest.mark.parametrize(("world", "journey"), parameters, indirect=["world"])


def _marks(world: str, journey: Journey, point: str) -> list[pytest.MarkDecorator]:
    marks = [pytest.mark.external_service] if world in _SERVERS else []
    return [*marks, pytest.mark.slow] if _is_slow(world, journey, point) else marks


def _is_slow(world: str, journey: Journey, point: str) -> bool:
    """Leave to `make prove` what others try too: tests/e2e kills replicas on SQLite, the mixed world is on Redis."""
    match world:
        case "memory":
            return False
        case "postgres":
            return journey not in APPROVALS
        case "redis" | "sqlite":
            return True
    return point not in apart_only(journey)
