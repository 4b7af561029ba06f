"""What a thread shows: its questions as they were asked, what was told of them, and nothing of others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadtests.banked import PAY, REFUND, WIRE
from loadtests.history import Exchange, Intent, Replied, Result, Sent
from loadtests.pages import changed_card, never_shown, not_as_asked, not_shown, of_others
from tests.unit.forged import approval, card

PAID = Result("call-pay-1", "done pay-1")


def asked(at: float = 1.0, *, run: str = "q", calls: int = 1, names: tuple[str, ...] = (), **reply: object) -> Exchange:
    """Ask for calls in alice's thread, and see their card."""
    sent = Sent(at, f"ask-{at}", "alice", "t", intent=Intent.ASK, run=run, calls=calls, names=names)
    replied = Replied(at + 0.5, sent.request, is_paused=True, cards=(card("pay-1"),), text="May I?")
    return Exchange(sent, replace(replied, **reply))  # type: ignore[arg-type]  # fields of Replied


def answered(at: float = 3.0) -> Exchange:
    sent = Sent(at, f"answer-{at}", "alice", "t", (approval("pay-1"),))
    return Exchange(sent, Replied(at + 0.5, sent.request, results=(PAID,)))


def looked(at: float, *, scope: str = "alice", intent: Intent = Intent.LOOK, **reply: object) -> Exchange:
    sent = Sent(at, f"look-{at}", scope, "t", looks=True, intent=intent)
    return Exchange(sent, replace(Replied(at + 0.5, sent.request), **reply))  # type: ignore[arg-type]  # fields of Replied


def test_a_stranger_who_is_told_of_an_invoice_sees_another_thread() -> None:
    question = asked(names=("INV-1",))

    assert list(of_others([question, looked(5.0, scope="bob", names=("INV-1",))]))
    assert not list(of_others([question, looked(5.0, names=("INV-1",)), looked(5.0, scope="bob", names=("INV-2",))]))


def test_a_name_that_a_cut_has_shortened_is_nobody_elses() -> None:
    other = replace(asked(names=("INV-1",)), sent=replace(asked(names=("INV-1",)).sent, thread="other"))
    mine = asked(names=("INV-12",))

    assert not list(of_others([other, mine, looked(5.0, names=("INV-1",), is_cut=True)]))
    assert list(of_others([other, mine, looked(5.0, names=("INV-1",))]))


def test_a_question_waits_for_all_its_calls() -> None:
    assert not list(not_as_asked([asked()]))
    assert list(not_as_asked([asked(calls=2)]))
    assert list(not_as_asked([asked(cards=(), is_paused=False)]))
    assert not list(not_as_asked([asked(calls=2, is_cut=True, cards=())]))


def test_a_question_that_is_sent_again_is_answered_the_same() -> None:
    first = asked()

    assert not list(not_as_asked([first, asked(2.0)]))
    assert list(not_as_asked([first, asked(2.0, cards=(card("pay-2"),))]))
    assert list(not_as_asked([first, asked(2.0, text="Something else.")]))
    assert not list(not_as_asked([first, asked(2.0, run="another", text="Something else.")]))
    assert not list(not_as_asked([first, asked(2000.0, cards=())])), "it has expired"


def orders(*, words: str, names: tuple[str, ...], calls: int = 1, tool: str = PAY) -> Exchange:
    """Ask for something in words, and see the card of INV-1 for ACME."""
    arguments = '{"invoice":"INV-1"}' if tool == REFUND else '{"invoice":"INV-1","payee":"ACME"}'
    question = asked(names=names, calls=calls, cards=(replace(card("pay-1"), tool=tool, arguments=arguments),))
    return replace(question, sent=replace(question.sent, words=words))


@pytest.mark.parametrize(
    ("tool", "words", "is_asked"),
    [
        (PAY, "pay INV-1 to ACME", True),
        (PAY, "wire INV-0 to ACME and pay INV-1 to ACME", True),
        (PAY, "pay INV-1 to Globex", False),
        (PAY, "pay INV-2 to ACME", False),
        (PAY, "wire INV-1 to ACME", False),
        (WIRE, "wire INV-1 to ACME", True),
        (REFUND, "refund INV-1", True),
        (REFUND, "pay INV-1 to ACME", False),
    ],
)
def test_a_card_is_for_what_somebody_said_in_its_thread(tool: str, words: str, is_asked: bool) -> None:
    question = orders(words=words, names=("INV-1",), tool=tool)

    assert bool(list(not_as_asked([question]))) is not is_asked


def test_what_was_said_in_another_thread_was_not_said_here() -> None:
    said = orders(words="pay INV-1 to ACME", names=("INV-1",))
    elsewhere = replace(said, sent=replace(said.sent, thread="other"))

    assert not list(not_as_asked([elsewhere]))
    assert list(not_as_asked([elsewhere, orders(words="pay INV-2 to ACME", names=("INV-2",))]))


def test_what_was_asked_for_later_is_asked_about_when_the_first_is_done() -> None:
    words = "pay INV-1 to ACME then pay INV-2 to ACME"
    question = orders(words=words, names=("INV-1", "INV-2"))
    done = answered()
    next_card = replace(card("pay-2"), tool=PAY, arguments='{"invoice":"INV-2","payee":"ACME"}')
    goes_on = replace(done, replied=replace(done.replied, is_paused=True, cards=(next_card,)))

    assert list(not_as_asked([question, done]))
    assert not list(not_as_asked([question, goes_on]))
    assert not list(not_as_asked([question, replace(done, replied=replace(done.replied, is_replay=True))]))
    assert not list(not_as_asked([question, replace(done, replied=replace(done.replied, is_cut=True))]))
    assert not list(not_as_asked([orders(words="pay INV-1 to ACME", names=("INV-1",)), done]))


def test_a_card_stays_as_it_was_shown_wherever_it_is_shown() -> None:
    again = looked(5.0, cards=(card("pay-1"),))
    otherwise = looked(5.0, cards=(replace(card("pay-1"), expires_at=1.0),))

    assert not list(changed_card([asked(), again]))
    assert [name for name, _ in changed_card([asked(), otherwise])] == ["pay-1"]


def test_a_page_has_one_result_of_each_call() -> None:
    twice = looked(5.0, page=(PAID, replace(PAID, content="done again")))

    assert list(not_shown([asked(), answered(), twice]))


def test_a_page_shows_every_result_that_was_told_before_it_was_loaded() -> None:
    told = [asked(), answered(3.0)]

    assert not list(not_shown([*told, looked(5.0, page=(PAID,))]))
    assert list(not_shown([*told, looked(5.0)])) == [("pay-1", "look-5.0 does not show 'done pay-1'")]
    assert list(not_shown([*told, looked(5.0, page=(replace(PAID, content="another"),))]))
    assert not list(not_shown([*told, looked(3.2)])), "it was not told yet"
    assert not list(not_shown([*told, looked(5.0, is_cut=True)]))
    assert not list(not_shown([*told, looked(5.0, scope="bob")]))


def test_a_page_shows_what_was_asked() -> None:
    question = asked(names=("INV-1",))

    assert not list(not_shown([question, looked(5.0, names=("INV-1",))]))
    assert list(not_shown([question, looked(5.0)]))


def test_when_all_is_over_each_page_is_shown_at_last() -> None:
    failed = looked(5.0, intent=Intent.LAST, code="RUN_FAILED")

    assert list(never_shown([failed]))
    assert not list(never_shown([failed, looked(6.0, intent=Intent.LAST)]))
    assert not list(never_shown([looked(5.0, code="RUN_FAILED")])), "others may fail"
