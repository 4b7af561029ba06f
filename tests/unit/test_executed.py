"""Each rule about effects by itself: what was executed and what was told of it, for one approval."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from app.end_texts import REJECTED_TEXT
from app.upkeep import CANCELLED_TEXT, EXPIRED_TEXT
from loadtests.cases import Case, cases
from loadtests.executed import (
    called_again,
    definite_with_effect,
    failed_with_effect,
    other_key,
    told_nothing,
    told_otherwise,
    without_effect,
)
from loadtests.history import Answer, FaultKind, Intent, Result
from loadtests.threads import CONFLICT
from tests.unit.forged import Timed, approval, cancellation, card, rejection, result

PAID = result("pay-1")
FAILED = replace(PAID, content="Error: nothing was paid.", is_error=True)
NOT_RUN = [replace(PAID, content=text) for text in (REJECTED_TEXT, CANCELLED_TEXT, EXPIRED_TEXT)]


@pytest.fixture
def run() -> Timed:
    """A card that waits since 2.0; what is sent next is served by replica `a`."""
    run = Timed()
    run.show(1.0, 2.0, "t", "pay-1")
    return run


def is_broken(run: Timed, rule: Callable[[Case], Iterator[str]]) -> bool:
    """Say whether the first approval of a history breaks a rule."""
    case = cases(run.history, run.effects)[0][0]
    return bool(list(rule(case)))


@pytest.mark.parametrize(
    ("name", "key", "expected"),
    [
        ("pay-1", "pay-1", False),
        ("pay-1", "pay-0", True),
        ("pay-1", None, True),
        ("wire-1", None, False),
        ("wire-1", "another", True),
    ],
)
def test_a_far_side_that_knows_keys_is_given_the_approvals_own(name: str, key: str | None, expected: bool) -> None:
    run = Timed()
    run.show(1.0, 2.0, "t", name)
    run.happen(3.5, name, key=key)

    assert is_broken(run, other_key) is expected


@pytest.mark.parametrize(("calls", "expected"), [(1, False), (2, True)])
def test_a_far_side_is_asked_once_if_nothing_fails(run: Timed, calls: int, expected: bool) -> None:
    run.happen(3.5, "pay-1", calls=calls)
    run.answer(3.0, 4.0, "t", approval("pay-1"))
    run.fail(3.2, 3.3, FaultKind.FREEZE, "b")
    run.fail(0.5, 0.6, FaultKind.KILL, "a", step="before-effect", thread="t")
    run.fail(4.1, 4.2, FaultKind.FREEZE, "a")

    assert is_broken(run, called_again) is expected, "another replica, before the approval and after its end"


def test_who_was_killed_meanwhile_may_have_asked_before(run: Timed) -> None:
    run.happen(3.5, "pay-1", calls=2)
    run.cut(3.0, 3.3, "t", approval("pay-1"))
    run.answer(3.4, 4.0, "t", approval("pay-1"), is_replay=True)
    run.fail(3.2, 5.0, FaultKind.KILL, "a", step="after-effect", thread="t")

    assert not is_broken(run, called_again)


def test_a_result_is_told_of_one_effect_and_after_it(run: Timed) -> None:
    run.answer(3.0, 4.0, "t", approval("pay-1"))
    assert is_broken(run, without_effect), "nothing happened"

    run.happen(4.5, "pay-1")
    assert is_broken(run, without_effect), "it happened afterwards"

    run.effects[0] = replace(run.effects[0], at=None)
    assert not is_broken(run, without_effect), "nobody knows when"

    run.effects[0] = replace(run.effects[0], at=3.5)
    assert not is_broken(run, without_effect)

    run.effects[0] = replace(run.effects[0], result="done otherwise")
    assert is_broken(run, without_effect)


@pytest.mark.parametrize(("happened_at", "expected"), [(None, True), (3.5, False), (5.5, True)])
def test_a_page_tells_a_result_too(run: Timed, happened_at: float | None, expected: bool) -> None:
    run.cut(3.0, 4.0, "t", approval("pay-1"))
    run.send(5.0, 5.2, "t", intent=Intent.LOOK, page=(PAID,))
    if happened_at is not None:
        run.happen(happened_at, "pay-1")

    assert is_broken(run, without_effect) is expected


@pytest.mark.parametrize("told", [FAILED, *NOT_RUN])
def test_what_is_told_of_a_call_that_did_not_run_needs_no_effect(run: Timed, told: Result) -> None:
    run.send(3.0, 4.0, "t", approval("pay-1"), results=(told,), text="done")

    assert not is_broken(run, without_effect)


@pytest.mark.parametrize(
    ("answer", "expected"), [(approval("pay-1"), True), (rejection("pay-1"), True), (cancellation("pay-1"), False)]
)
def test_an_answer_has_a_result_for_each_call_but_one_that_was_withdrawn(
    run: Timed, answer: Answer, expected: bool
) -> None:
    run.send(3.0, 4.0, "t", answer, text="done")

    assert is_broken(run, told_nothing) is expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [({}, True), ({"text": "done"}, False), ({"is_replay": True}, False), ({"cards": (card("pay-2"),)}, False)],
)
def test_an_answer_goes_on_with_words_or_with_another_question(
    run: Timed, reply: dict[str, object], expected: bool
) -> None:
    run.happen(3.5, "pay-1")
    run.send(3.0, 4.0, "t", approval("pay-1"), results=(PAID,), **reply)  # type: ignore[arg-type]  # fields of Replied

    assert is_broken(run, told_nothing) is expected


@pytest.mark.parametrize("told", NOT_RUN)
@pytest.mark.parametrize(
    ("answer", "is_approved"), [(approval("pay-1"), True), (rejection("pay-1"), False), (cancellation("pay-1"), False)]
)
def test_who_approved_is_not_told_that_it_did_not_run_and_all_others_are(
    run: Timed, answer: Answer, is_approved: bool, told: Result
) -> None:
    run.send(3.0, 4.0, "t", answer, results=(told,))

    assert is_broken(run, told_otherwise) is is_approved


@pytest.mark.parametrize("told", [PAID, FAILED])
@pytest.mark.parametrize(
    ("answer", "is_approved"), [(approval("pay-1"), True), (rejection("pay-1"), False), (cancellation("pay-1"), False)]
)
def test_only_who_approved_is_told_a_success_or_a_failure(
    run: Timed, answer: Answer, is_approved: bool, told: Result
) -> None:
    run.send(3.0, 4.0, "t", answer, results=(told,))

    assert is_broken(run, told_otherwise) is not is_approved


@pytest.mark.parametrize(
    ("is_frozen", "has_effect", "expected"),
    [(True, False, False), (True, True, True), (False, False, True), (False, True, True)],
)
def test_an_unsafe_call_has_failed_only_if_something_failed_and_nothing_happened(
    is_frozen: bool, has_effect: bool, expected: bool
) -> None:
    run = Timed()
    run.show(1.0, 2.0, "t", "wire-1")
    run.send(3.0, 4.0, "t", approval("wire-1"), results=(replace(FAILED, call_id="call-wire-1"),))
    run.fail(3.1, 3.2, FaultKind.FREEZE, "a" if is_frozen else "b")
    if has_effect:
        run.happen(3.5, "wire-1")

    assert is_broken(run, failed_with_effect) is expected


def test_what_can_be_made_again_never_fails(run: Timed) -> None:
    run.send(3.0, 4.0, "t", approval("pay-1"), results=(FAILED,))
    run.fail(3.1, 3.2, FaultKind.FREEZE, "a")

    assert is_broken(run, failed_with_effect)


@pytest.mark.parametrize(("sent_at", "expected"), [(3.5, False), (4.5, True)])
def test_a_refund_has_happened_when_its_result_is_told(sent_at: float, expected: bool) -> None:
    run = Timed()
    run.show(1.0, 2.0, "t", "refund-1")
    run.answer(3.0, 4.0, "t", approval("refund-1"))
    run.happen(None, "refund-1")
    run.refuse(sent_at, 5.0, "t", rejection("refund-1"), code=CONFLICT, definite=True)

    assert is_broken(run, definite_with_effect) is expected


def test_a_page_tells_a_failure_too(run: Timed) -> None:
    run.happen(3.5, "pay-1")
    run.cut(3.0, 4.0, "t", approval("pay-1"))
    run.send(5.0, 5.2, "t", intent=Intent.LOOK, page=(FAILED,))

    assert is_broken(run, failed_with_effect)
