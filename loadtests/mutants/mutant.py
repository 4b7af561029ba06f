"""What a deliberate bug is, and how it gets around the ports that it lies about."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import app.main
from stores.options import StoreOptions
from stores.ports import Stores

Replacement = tuple[object, str, object]
"""Whose attribute, which, and what takes its place."""
IN_THE_EFFECT = ("after-effect", "before-settle")
"""Where a call has had its effect, and nobody but its replica knows."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug. `does` says what is wrong; `rules` are the promises that it breaks: one at least has to be seen broken.

    `replacements` says what the bug takes the place of. `plan` names what the nemesis has to do so that it shows, and
    `steps` where it aims, if not at all of them.
    """

    name: str
    does: str
    rules: tuple[str, ...]
    replacements: Callable[[], tuple[Replacement, ...]]
    plan: str = "kill-one"
    steps: tuple[str, ...] = ()


class Around:
    """Stands around a port, and passes on what a subclass does not say otherwise."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def around_stores(change: Callable[[Stores], Stores]) -> Callable[[], tuple[Replacement, ...]]:
    """Return what lets this process open stores that are changed so."""

    def replacements() -> tuple[Replacement, ...]:
        honest = app.main.open_stores  # type: ignore[attr-defined]  # what it imported is what it calls

        @asynccontextmanager
        async def open_stores(options: StoreOptions) -> AsyncIterator[Stores]:
            async with honest(options) as stores:
                yield change(stores)

        return ((app.main, "open_stores", open_stores),)

    return replacements
