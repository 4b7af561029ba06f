"""Forged chaos runs that are only counted: what the tests of counts show and tell in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from loadtests.counts import Counts, count
from loadtests.history import Result
from stores.records import EffectKind
from tests.unit.chaos_runs import Forged, card


def counted(run: Forged) -> Counts:
    return count(run.history, run.effects)


def show(run: Forged, at: float, *numbers: int, kind: EffectKind = EffectKind.IDEMPOTENT, replica: str = "a") -> None:
    """Show cards in one thread; what is not idempotent has a tool of its own."""
    cards = tuple(replace(card(number), kind=kind, tool=f"tool-{kind}") for number in numbers)
    run.exchange(at, f"thread-{numbers[0]}", is_paused=True, cards=cards, replica=replica)


def done(number: int, replica: str = "b") -> dict[str, Any]:
    """Return a reply that tells of a payment."""
    return {"results": (Result(card(number).call_id, f"Paid INV-{number}."),), "replica": replica}
