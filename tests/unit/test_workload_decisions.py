"""What the users of a load test decide, as they send it and as the host reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.answers import Entry, decide
from loadtests.decisions import OTHER_PAYEE, approval, calls_in, cancellation, decision, edited, in_short, rejection
from loadtests.history import Answer, Card
from stores.records import Decision, EffectKind, Verdict

PAY = Card("i-1", "c-1", "pay_invoice", EffectKind.IDEMPOTENT, '{"invoice":"INV-1","payee":"ACME"}', 9.0)
REFUND = Card("i-2", "c-2", "refund_invoice", EffectKind.TRANSACTIONAL, '{"invoice":"INV-1"}', 9.0)


def _read(sent: dict[str, Any], shown: Card) -> Decision:
    """Read one answer as the host does."""
    entry = Entry(sent["interruptId"], sent["status"], sent.get("payload"), "resume")
    read = decide(entry, tool=shown.tool, arguments=shown.arguments)
    assert isinstance(read, Decision), read
    return read


@pytest.mark.parametrize("shown", [PAY, REFUND], ids=lambda shown: shown.tool)
@pytest.mark.parametrize("choose", [approval, edited, rejection, cancellation])
def test_a_decision_is_the_same_spelled_out_and_in_short_and_is_what_the_history_says(
    choose: Callable[[Card], Answer], shown: Card
) -> None:
    answer = choose(shown)
    read = _read(decision(answer), shown)
    assert (read.verdict, read.arguments) == (answer.verdict, answer.arguments)
    assert _read(in_short(answer, shown), shown) == read


def test_in_short_an_approval_has_only_what_it_changes() -> None:
    assert in_short(approval(PAY), PAY)["payload"] == {"approved": True}
    assert in_short(edited(PAY), PAY)["payload"] == {"approved": True, "payee": OTHER_PAYEE}


def test_an_edit_changes_the_payee_and_never_the_invoice_that_its_effect_is_known_by() -> None:
    assert edited(PAY).arguments == f'{{"invoice":"INV-1","payee":"{OTHER_PAYEE}"}}'
    assert edited(REFUND) == Answer("i-2", Verdict.APPROVE, REFUND.arguments)


@pytest.mark.parametrize(
    ("words", "calls"),
    [
        ("pay INV-1 to ACME", 1),
        ("pay INV-1 to ACME and wire INV-2 to ACME and refund INV-3", 3),
        ("pay INV-1 to ACME and refund INV-2 then pay INV-3 to ACME", 2),
        ("thank you", 0),
    ],
)
def test_a_question_is_for_so_many_calls_at_once_as_it_names_invoices_before_it_goes_on(words: str, calls: int) -> None:
    assert calls_in(words) == calls
