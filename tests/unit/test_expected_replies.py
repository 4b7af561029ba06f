"""Which replies count as failures in the statistics of a load test."""

from __future__ import annotations

import pytest

from deploy.agui_client import RETRYABLE_CODES, Reply
from loadtests.expected import is_expected
from loadtests.history import Intent
from loadtests.threads import CONFLICT, EXPIRED, IN_DOUBT, NOT_FOUND, REQUIRED

FINISHED = Reply(200, "", ({"type": "RUN_FINISHED"},))


def _refused(code: str) -> Reply:
    return Reply(200, "", ({"type": "RUN_ERROR", "code": code},))


@pytest.mark.parametrize("intent", Intent)
def test_whatever_was_sent_an_end_a_cut_a_doubt_or_a_reason_to_send_it_again_is_no_failure(intent: Intent) -> None:
    replies = [FINISHED, Reply(), Reply(200), Reply(503), *map(_refused, (*RETRYABLE_CODES, IN_DOUBT))]
    assert all(is_expected(intent, reply) for reply in replies)


def test_a_no_is_expected_by_whoever_asked_for_it() -> None:
    assert is_expected(Intent.LATE, _refused(EXPIRED))
    assert is_expected(Intent.CONFLICT, _refused(CONFLICT))
    assert is_expected(Intent.FORGE, _refused(NOT_FOUND))
    assert is_expected(Intent.ELSEWHERE, _refused(CONFLICT)), "the other device was first"


@pytest.mark.parametrize(
    ("intent", "reply"),
    [
        (Intent.ANSWER, _refused(NOT_FOUND)),
        (Intent.TWICE, _refused(CONFLICT)),
        (Intent.ASK, _refused(REQUIRED)),
        (Intent.LOOK, _refused(EXPIRED)),
        (Intent.ANSWER, Reply(500)),
    ],
)
def test_any_other_no_is_a_failure(intent: Intent, reply: Reply) -> None:
    assert not is_expected(intent, reply)
