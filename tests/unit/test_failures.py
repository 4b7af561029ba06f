"""What went wrong reaches a client as a code and one sentence, and nothing of the inside of the host."""

from __future__ import annotations

import asyncio
import logging

import pytest
from agent_framework import MiddlewareFailure

from app.errors import Code, Refusal, RunRefused
from app.failures import refusal_for
from stores.errors import StoreUnavailable, UnknownFormat, WriteInDoubt

REFUSAL = Refusal(Code.OUTCOME_INDETERMINATE, "The call may have run.", ("i1",), 2.0)
SECRET = "postgresql://agui:secret@db/agui"


def caused_by(cause: BaseException) -> BaseException:
    """Return what core makes of an exception that the guard raised."""
    error = MiddlewareFailure(SECRET)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("error", [RunRefused(REFUSAL), caused_by(RunRefused(REFUSAL))])
def test_a_refusal_is_handed_on_as_it_is(error: BaseException) -> None:
    assert refusal_for(error, "r1") == REFUSAL


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoreUnavailable(SECRET), Code.STORE_UNAVAILABLE),
        (WriteInDoubt(SECRET), Code.STORE_UNAVAILABLE),
        (UnknownFormat(SECRET), Code.STORE_UNAVAILABLE),
        (caused_by(StoreUnavailable(SECRET)), Code.STORE_UNAVAILABLE),
        (TimeoutError(SECRET), Code.RUN_FAILED),
        (asyncio.CancelledError(SECRET), Code.RUN_FAILED),
        (ValueError(SECRET), Code.RUN_FAILED),
        (caused_by(ValueError(SECRET)), Code.MIDDLEWARE_FAILURE),
        (caused_by(TimeoutError(SECRET)), Code.MIDDLEWARE_FAILURE),
        (KeyError(SECRET), Code.RUN_FAILED),
    ],
)
def test_every_other_failure_has_a_code_and_a_sentence_without_internals(error: BaseException, code: Code) -> None:
    refusal = refusal_for(error, "r1")

    assert refusal.code is code
    assert refusal.message.endswith(".")
    assert SECRET not in refusal.message
    assert refusal.interrupts == ()


def test_an_old_format_is_told_apart_from_a_store_that_is_away() -> None:
    assert "another version" in refusal_for(UnknownFormat(SECRET), "r1").message
    assert "another version" not in refusal_for(StoreUnavailable(SECRET), "r1").message


def test_only_what_nobody_expected_is_logged_and_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        refusal_for(RunRefused(REFUSAL), "r1")
        refusal_for(StoreUnavailable(SECRET), "r2")
        refusal_for(ValueError("a bug"), "r3")

    (record,) = caplog.records
    assert record.getMessage().startswith("Run 'r3' failed: ValueError")
    assert "a bug" not in record.getMessage()
    assert record.exc_info is None
