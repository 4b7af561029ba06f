"""Which threads still wait for an answer when the users are gone."""

from __future__ import annotations

from loadtests.history import Answer, Card, Event, Intent, Replied, Sent
from loadtests.invariants import EXPIRED, IN_DOUBT
from loadtests.last_look import Thread, left_open
from stores.records import EffectKind, Verdict

APPROVED = (Answer("i-1", Verdict.APPROVE, '{"invoice":"INV-1"}'),)
REJECTED = (Answer("i-1", Verdict.REJECT),)
CARD = Card("i-1", "c-1", "wire_transfer", EffectKind.UNSAFE, '{"invoice":"INV-1"}', float("inf"))
PAUSE: list[Event] = [Sent(1.0, "ask", "s", "t"), Replied(2.0, "ask", is_paused=True, cards=(CARD,))]


def _sent(request: str, answers: tuple[Answer, ...] = APPROVED, **changes: object) -> Sent:
    return Sent(3.0, request, "s", "t", answers, **changes)  # type: ignore[arg-type]  # fields of Sent


def _one(history: list[Event]) -> Thread:
    [thread] = left_open(history)
    return thread


def test_a_card_that_nobody_answered_waits_for_no_answer() -> None:
    assert _one(PAUSE).unanswered == []


def test_an_answer_whose_stream_broke_waits_and_so_does_one_that_never_came_back() -> None:
    assert _one([*PAUSE, _sent("a"), Replied(4.0, "a", is_cut=True)]).unanswered == [APPROVED]
    assert _one([*PAUSE, _sent("a")]).unanswered == [APPROVED]


def test_an_end_a_doubt_and_an_expiry_are_answers() -> None:
    for reply in (Replied(4.0, "a"), Replied(4.0, "a", code=IN_DOUBT), Replied(4.0, "a", code=EXPIRED)):
        assert _one([*PAUSE, _sent("cut"), _sent("a"), reply]).unanswered == []


def test_of_two_decisions_without_an_end_the_newest_is_sent_first() -> None:
    assert _one([*PAUSE, _sent("a"), _sent("b", REJECTED)]).unanswered == [REJECTED, APPROVED]


def test_what_an_attacker_sent_is_not_sent_again() -> None:
    forged = (Answer("i-9", Verdict.APPROVE, "{}"),)
    history = [*PAUSE, _sent("a", forged, intent=Intent.FORGE), _sent("b", forged)]
    assert _one(history).unanswered == []
