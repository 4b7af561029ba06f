"""What clients are told of effects, of others' threads and of their own page, against all promises: it is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from app.end_texts import REJECTED_TEXT
from loadtests.history import Intent
from loadtests.invariants import violations
from loadtests.threads import EXPIRED, IN_PROGRESS, RUN_FAILED
from tests.unit import test_invariants_in_time as legal
from tests.unit.forged import Timed, approval, card, chaos_run, rejection, result


@pytest.fixture
def run() -> Timed:
    return chaos_run()


def replays_what_never_happened(run: Timed) -> None:
    legal.is_only_known_from_a_replay(run)
    run.effects.pop()


def pays_what_it_said_had_failed(run: Timed) -> None:
    """A tool that does not know leaves it open."""
    run.show(16.0, 17.0, "failed", "pay-6")
    error = replace(result("pay-6"), content="Error: failed.", is_error=True)
    run.send(17.0, 18.0, "failed", approval("pay-6"), results=(error,), text="done")
    run.happen(17.5, "pay-6")


def tells_of_a_failure_where_nothing_failed(run: Timed) -> None:
    pays_what_it_said_had_failed(run)
    run.effects.pop()


def tells_a_result_before_its_effect(run: Timed) -> None:
    legal.is_only_known_from_a_replay(run)
    run.effects[-1] = replace(run.effects[-1], at=32.5)


def shows_a_result_that_never_happened(run: Timed) -> None:
    run.show(16.0, 17.0, "open", "pay-6")
    run.send(18.0, 18.5, "open", intent=Intent.LOOK, page=(result("pay-6"),), is_paused=True, cards=(card("pay-6"),))


def tells_that_an_approved_call_was_rejected(run: Timed) -> None:
    run.show(16.0, 17.0, "yes", "refund-6")
    told = replace(result("refund-6"), content=REJECTED_TEXT)
    run.send(17.0, 18.0, "yes", approval("refund-6"), results=(told,))


def answers_an_approval_without_a_result(run: Timed) -> None:
    run.show(16.0, 17.0, "yes", "refund-6")
    run.happen(None, "refund-6")
    run.send(17.0, 18.0, "yes", approval("refund-6"), text="done")


def shows_other_words_than_its_effect_has(run: Timed) -> None:
    legal.is_only_known_from_a_replay(run)
    other = replace(result("pay-6"), content="done otherwise")
    run.send(30.5, 30.8, "cut", intent=Intent.LOOK, page=(other,))


def hides_a_result_on_the_page(run: Timed) -> None:
    run.send(37.0, 37.5, "two", intent=Intent.LOOK, page=())


def forgets_the_question_on_the_page(run: Timed) -> None:
    run.send(40.0, 41.0, "two", about=("INV-4",))
    run.send(42.0, 43.0, "two", intent=Intent.LOOK, page=(result("refund-4"),))


def asks_for_fewer_calls_than_it_was_told(run: Timed) -> None:
    run.send(16.0, 17.0, "fewer", calls=2, is_paused=True, cards=(card("pay-6"),), open=("pay-6",))
    run.send(18.0, 18.5, "fewer", intent=Intent.LAST, is_paused=True, cards=(card("pay-6"),), open=("pay-6",))


def tells_a_stranger_of_an_invoice(run: Timed) -> None:
    run.send(40.0, 41.0, "attacked", about=("INV-5",))
    run.send(42.0, 43.0, "attacked", scope="mallory", intent=Intent.LOOK, names=("INV-5",))


def never_shows_a_page_again(run: Timed) -> None:
    run.send(16.0, 17.0, "unseen")
    run.send(58.0, 59.0, "unseen", intent=Intent.LAST, code=RUN_FAILED)


def refunds_what_it_said_was_rolled_back(run: Timed) -> None:
    run.show(16.0, 17.0, "failed", "refund-6")
    error = replace(result("refund-6"), content="Error: failed.", is_error=True)
    run.send(17.0, 18.0, "failed", approval("refund-6"), results=(error,), text="done")
    run.happen(None, "refund-6")


def tells_a_definite_outage(run: Timed) -> None:
    run.refuse(0.5, 0.9, "moved", code="STORE_UNAVAILABLE", definite=True)


def fails_with_http_500(run: Timed) -> None:
    run.send(10.0, 11.0, "moved", code="HTTP 500", status=500, intent=None)


def answers_with_a_code_that_nobody_knows(run: Timed) -> None:
    run.refuse(10.0, 11.0, "moved", code="INTERNAL_ERROR", intent=None)


def answers_a_forgery(run: Timed) -> None:
    run.answer(37.0, 37.5, "attacked", rejection("pay-9"), intent=Intent.FORGE)


def knows_a_forgery(run: Timed) -> None:
    run.refuse(37.0, 37.5, "attacked", approval("pay-9"), code=EXPIRED, intent=None)


def tells_an_intruder_that_it_is_busy_with_it(run: Timed) -> None:
    run.refuse(37.0, 37.5, "attacked", approval("pay-5"), code=IN_PROGRESS, scope="mallory", intent=None)


def shows_a_card_to_an_intruder(run: Timed) -> None:
    run.send(37.2, 37.6, "attacked", scope="mallory", intent=Intent.LOOK, cards=(card("pay-5"),))


def shows_a_result_on_the_page_of_an_intruder(run: Timed) -> None:
    run.send(37.0, 37.5, "two", scope="mallory", intent=Intent.LOOK, page=(result("refund-4"),))


def refuses_to_show_a_page_that_is_busy(run: Timed) -> None:
    run.send(40.0, 41.0, "two", intent=Intent.LOOK, code=IN_PROGRESS)


def shows_a_card_with_other_arguments(run: Timed) -> None:
    run.show(16.0, 17.0, "open", "pay-6")
    run.show(18.0, 19.0, "open", "pay-6", arguments="{}")
    run.answer(20.0, 21.0, "open", rejection("pay-6"))


BROKEN = [
    (refuses_to_show_a_page_that_is_busy, "", "a refusal fits what was sent"),
    (shows_a_card_with_other_arguments, "pay-6", "a card stays as it was shown"),
    (pays_what_it_said_had_failed, "pay-6", "a definite refusal has no effect"),
    (tells_of_a_failure_where_nothing_failed, "pay-6", "a definite refusal has no effect"),
    (tells_a_result_before_its_effect, "pay-6", "an answered approval has its effect"),
    (shows_a_result_that_never_happened, "pay-6", "an answered approval has its effect"),
    (tells_that_an_approved_call_was_rejected, "refund-6", "an answered approval has its effect"),
    (answers_an_approval_without_a_result, "refund-6", "an answered approval has its effect"),
    (shows_other_words_than_its_effect_has, "pay-6", "an answered approval has its effect"),
    (forgets_the_question_on_the_page, "", "a page shows what was told"),
    (hides_a_result_on_the_page, "refund-4", "a page shows what was told"),
    (asks_for_fewer_calls_than_it_was_told, "", "a question is asked as it was said"),
    (tells_a_stranger_of_an_invoice, "", "a reply speaks of its own thread alone"),
    (never_shows_a_page_again, "", "a last look shows the page"),
    (replays_what_never_happened, "pay-6", "an answered approval has its effect"),
    (refunds_what_it_said_was_rolled_back, "refund-6", "a definite refusal has no effect"),
    (tells_a_definite_outage, "", "every reply is one that clients know"),
    (fails_with_http_500, "", "every reply is one that clients know"),
    (answers_with_a_code_that_nobody_knows, "", "every reply is one that clients know"),
    (answers_a_forgery, "pay-9", "a forged answer is told nothing"),
    (knows_a_forgery, "pay-9", "a forged answer is told nothing"),
    (shows_a_card_to_an_intruder, "pay-5", "other scopes and threads see nothing"),
    (shows_a_result_on_the_page_of_an_intruder, "refund-4", "other scopes and threads see nothing"),
    (tells_an_intruder_that_it_is_busy_with_it, "pay-5", "other scopes and threads see nothing"),
]


@pytest.mark.parametrize(("violate", "approval", "rule"), BROKEN)
def test_what_no_client_may_be_told_is_named_with_its_approval_and_nothing_else_is(
    run: Timed, violate: Callable[[Timed], None], approval: str, rule: str
) -> None:
    violate(run)

    found = violations(run.history, run.effects)

    assert (approval, rule) in {(each.approval, each.rule) for each in found}, found
    assert {each.rule for each in found} == {rule}, found
