"""What a thread shows: its questions as they were asked, what was told of them, and nothing of others."""

from __future__ import annotations

from dataclasses import replace

from loadtests.history import Exchange, Intent, Replied, Result, Sent
from loadtests.pages import never_shown, not_as_asked, not_shown, of_others
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
