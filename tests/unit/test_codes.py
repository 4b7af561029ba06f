"""Refusals by what was sent, and by who else was there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.errors import Code
from loadtests.codes import busy_for_nothing, unfit
from loadtests.history import Answer, Exchange, Intent, Replied, Sent
from loadtests.threads import (
    CONFLICT,
    EXPIRED,
    IN_DOUBT,
    IN_PROGRESS,
    NOT_FOUND,
    REQUIRED,
    RUN_FAILED,
    STORE_UNAVAILABLE,
)
from tests.unit.forged import approval

WHILE_SOMETHING_FAILS = {RUN_FAILED, STORE_UNAVAILABLE, "HTTP 429", "HTTP 502", "HTTP 503", "HTTP 504"}
BUSY = {IN_PROGRESS, Code.THREAD_BUSY, Code.RUN_IN_PROGRESS}
CODES = {*map(str, Code), *WHILE_SOMETHING_FAILS, "HTTP 500"}


def refused(
    code: str | None, *, intent: Intent | None = Intent.ANSWER, at: float = 5.0, seconds: float = 1.0, **reply: object
) -> Exchange:
    answers: tuple[Answer, ...] = () if intent in {Intent.ASK, Intent.LOOK} else (approval("pay-1"),)
    sent = Sent(at, f"at {at}", "alice", "t", answers, intent is Intent.LOOK, intent)
    return Exchange(sent, replace(Replied(at + seconds, sent.request, code=code), **reply))  # type: ignore[arg-type]  # fields of Replied


@pytest.mark.parametrize(
    ("intent", "fitting"),
    [
        (Intent.LOOK, set()),
        (Intent.ASK, BUSY),
        (Intent.ANSWER, BUSY | {CONFLICT, EXPIRED, IN_DOUBT, NOT_FOUND}),
        (Intent.FORGE, {NOT_FOUND}),
        (Intent.INTRUDE, {NOT_FOUND}),
        (None, CODES),
    ],
)
def test_each_refusal_is_one_of_those_that_fit_what_was_sent(intent: Intent | None, fitting: set[str]) -> None:
    told = {code for code in CODES if not list(unfit([refused(code, intent=intent)]))}

    assert told == {*map(str, fitting), *WHILE_SOMETHING_FAILS}
    assert not list(unfit([refused(None, intent=intent)]))


def test_a_refusal_that_does_not_fit_is_told_with_its_approval() -> None:
    found = [name for name, _ in unfit([refused(REQUIRED), refused(REQUIRED, intent=Intent.LOOK)])]

    assert found == ["pay-1", ""]


@pytest.mark.parametrize("code", sorted(map(str, BUSY)))
def test_who_is_alone_in_a_thread_is_not_told_that_it_is_busy(code: str) -> None:
    alone = refused(code)

    assert list(busy_for_nothing([alone])) == [alone]
    assert not list(busy_for_nothing([refused(CONFLICT)]))


@pytest.mark.parametrize(
    ("other", "may_keep_busy"),
    [
        (refused(None, at=4.0, seconds=2.0), True),
        (refused(None, at=5.5), True),
        (refused(None, at=3.0), False),
        (refused(None, at=6.5), False),
        (refused(CONFLICT, at=4.0, seconds=2.0), False),
        (refused(IN_PROGRESS, at=4.0, seconds=9.0), True),
        (refused(IN_PROGRESS, at=4.0, seconds=1.5), False),
        (refused(IN_PROGRESS, at=5.5, seconds=2.5), False),
        (refused(None, intent=Intent.LOOK, at=4.0, seconds=2.0), False),
        (refused(None, at=1.0, is_cut=True), True),
        (refused(RUN_FAILED, at=1.0), True),
        (refused(IN_DOUBT, at=1.0), True),
    ],
)
def test_a_thread_is_busy_with_a_run_that_is_under_way_or_whose_end_nobody_was_told(
    other: Exchange, may_keep_busy: bool
) -> None:
    busy = refused(IN_PROGRESS)

    assert (busy not in busy_for_nothing([other, busy])) is may_keep_busy
    elsewhere = replace(other, sent=replace(other.sent, thread="another"))
    assert busy in busy_for_nothing([elsewhere, busy])
