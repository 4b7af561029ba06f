"""The named steps of a run, in order: the list the README prints, and where a test may stop or kill a replica."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum

from stores.records import ThreadKey


class Step(StrEnum):
    """One step, nearly each a write. It is passed twice: `before` it is taken and `after`."""

    OPEN = "open"
    LOAD = "load"
    RESERVE = "reserve"
    CLAIM = "claim"
    BEGIN = "begin"
    EFFECT = "effect"
    SETTLE = "settle"
    MODEL = "model"
    FINISH = "finish"
    ANSWER = "answer"
    FREE = "free"
    RELEASE = "release"
    CLOSE = "close"
    RECORD = "record"


OnStep = Callable[[str, ThreadKey], Awaitable[None]]
"""Called with `before-claim`, `after-claim` and so on."""


async def no_step(_name: str, _key: ThreadKey) -> None:
    """What production does at a step: nothing."""
