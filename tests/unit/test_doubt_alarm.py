"""A call that has been in doubt for long is spoken of as an error, once a day, and not as gossip."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from app import doubt_alarm
from app.doubt_alarm import AGAIN_SECONDS, THREADS_MAX, DoubtAlarm
from stores.ports import Loaded
from stores.records import Effect, EffectKind, EffectState, Scope, ThreadKey
from tests.unit.threads import NOW, in_doubt, loaded

KEY = ThreadKey(Scope("alice"), "payments", "thread-of-alice")
AGE_SECONDS = 60.0


class Clock:
    """A process's own time, which a test moves on."""

    def __init__(self) -> None:
        self.now = 5.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def alarm(clock: Clock) -> DoubtAlarm:
    return DoubtAlarm(age_seconds=AGE_SECONDS, clock=clock)


def doubted(age_seconds: float) -> Loaded:
    """Return a thread with a call in doubt that was asked for this long ago."""
    return loaded(replace(in_doubt(), created_at=NOW - age_seconds))


def begun(age_seconds: float) -> Effect:
    return Effect("i1", EffectState.BEGUN, EffectKind.UNSAFE, "", "a", None, 0.0, begun_age_seconds=age_seconds)


def test_a_call_too_long_in_doubt_is_an_error_that_names_no_person_and_no_argument(
    alarm: DoubtAlarm, caplog: pytest.LogCaptureFixture
) -> None:
    alarm.look_at(KEY, doubted(AGE_SECONDS + 1), {})

    (record,) = caplog.records
    message = record.getMessage()
    assert record.levelno == logging.ERROR
    assert all(word in message for word in ("wire", "i1", "operator", "AGUI_RETENTION_INDETERMINATE_SECONDS"))
    assert not any(word in message for word in ("alice", "INV-1", "ACME"))


def test_a_young_doubt_is_nobodys_business_yet(alarm: DoubtAlarm, caplog: pytest.LogCaptureFixture) -> None:
    alarm.look_at(KEY, doubted(AGE_SECONDS), {})
    # Asked for long ago, but begun just now.
    alarm.look_at(KEY, doubted(AGE_SECONDS + 1), {"i1": begun(1.0)})

    assert caplog.records == []


def test_a_thread_is_spoken_of_once_a_day(alarm: DoubtAlarm, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        alarm.look_at(KEY, doubted(AGE_SECONDS), {"i1": begun(AGE_SECONDS + 1)})
    assert len(caplog.records) == 1
    alarm.look_at(replace(KEY, thread_id="another"), doubted(AGE_SECONDS + 1), {})
    assert len(caplog.records) == 2

    clock.now += AGAIN_SECONDS
    alarm.look_at(KEY, doubted(AGE_SECONDS + 1), {})

    assert len(caplog.records) == 3


def test_no_more_threads_than_the_limit_are_remembered(alarm: DoubtAlarm, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger(doubt_alarm.__name__).setLevel(logging.CRITICAL)
    try:
        for number in range(THREADS_MAX + 50):
            alarm.look_at(replace(KEY, thread_id=str(number)), doubted(AGE_SECONDS + 1), {})
    finally:
        logging.getLogger(doubt_alarm.__name__).setLevel(logging.NOTSET)

    assert len(alarm._said) == THREADS_MAX
