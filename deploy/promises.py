"""What the demonstration holds the cluster to: promises, said as kept or broken, and a count of effects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.text import Text

NAMES = {"payments": "payment", "wires": "wire", "refunds": "refund"}
"""The kinds of effects that the bank tells, with the word for one of each."""

Effects = Mapping[str, Sequence[Mapping[str, Any]]]
"""What the bank tells: the effects of each kind, each with its invoice; a payment also with the calls received."""


@dataclass(frozen=True, slots=True)
class Approved:
    """A call that a person approved: one effect of this kind on this invoice, no more and no less."""

    kind: str
    invoice: str


@dataclass(slots=True)
class Promises:
    """Says each promise on the console; `broken` has the sentences of those that were not kept."""

    console: Console
    broken: list[str] = field(default_factory=list)

    def check(self, sentence: str, is_kept: bool) -> None:
        """Say whether a promise was kept."""
        word, style = ("kept", "bold green") if is_kept else ("BROKEN", "bold red")
        self.console.print(Text.assemble("  ", (f"{word:<9}", style), sentence))
        if not is_kept:
            self.broken.append(sentence)


def misfits(effects: Effects, approved: Iterable[Approved]) -> list[str]:
    """Say where what happened is not what was approved: an effect too many, missing, or that nobody approved."""
    expected = Counter((each.kind, each.invoice) for each in approved)
    happened = Counter((kind, effect["invoice"]) for kind in NAMES for effect in effects[kind])
    return [
        f"{invoice}: {counted(happened[kind, invoice], kind)} happened, {expected[kind, invoice]} approved"
        for kind, invoice in sorted(expected | happened)
        if happened[kind, invoice] != expected[kind, invoice]
    ]


def payment_calls(effects: Effects, invoice: str) -> int:
    """Return how many calls the bank received to pay an invoice: repeats have no effect, but they are calls."""
    return sum(effect["calls"] for effect in effects["payments"] if effect["invoice"] == invoice)


def counted(count: int, kind: str) -> str:
    """Return "1 payment", "2 payments"."""
    return f"{count} {NAMES[kind] if count == 1 else kind}"
