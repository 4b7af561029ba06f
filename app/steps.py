"""The named steps of a resume, in order: the list the README prints, and where a test may stop a replica."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum

from stores.records import ThreadKey


class Step(StrEnum):
    """One step of a resume. Each is passed twice: `before` it is taken and `after`."""

    LOAD = "load"
    CLAIM = "claim"
    BEGIN = "begin"
    EFFECT = "effect"
    SETTLE = "settle"
    MODEL = "model"
    FINISH = "finish"
    ANSWER = "answer"


OnStep = Callable[[str, ThreadKey], Awaitable[None]]
"""Called with `before-claim`, `after-claim` and so on."""


async def no_step(_name: str, _key: ThreadKey) -> None:
    """What production does at a step: nothing."""
