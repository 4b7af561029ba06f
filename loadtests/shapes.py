"""How the load comes: how many users there are at which second. A run is ended by whoever began it, not by a shape."""

from __future__ import annotations

from collections.abc import Callable

RAMP_SECONDS = 120.0
BURST_SECONDS = 30.0
BURST_SHARE = 0.3
"""Between bursts there is this share of the users."""


def steady(_seconds: float, users: int) -> int:
    """Return all users, always."""
    return users


def ramp(seconds: float, users: int) -> int:
    """Return ever more users, until after two minutes all are there."""
    return max(1, min(users, round(users * seconds / RAMP_SECONDS)))


def burst(seconds: float, users: int) -> int:
    """Return all users for half a minute, then few of them for as long, and so on."""
    is_calm = int(seconds / BURST_SECONDS) % 2
    return max(1, round(users * BURST_SHARE)) if is_calm else users


SHAPES: dict[str, Callable[[float, int], int]] = {"steady": steady, "ramp": ramp, "burst": burst}
