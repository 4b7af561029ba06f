"""What people and clients do with approvals: each function is one conversation, from the question to its end.

A person holds on until what they decided is answered, then looks at the page: a journey that is begun is finished.
"""

from __future__ import annotations

import time

import gevent

from deploy.agui_client import Reply, hydrate
from loadtests.conversation import Answers, Conversation
from loadtests.decisions import approval, edited, forged, rejection
from loadtests.history import Card, Intent
from loadtests.invariants import IN_DOUBT
from stores.records import Verdict

THINK_SECONDS = (0.1, 1.0)
AWAY_SECONDS = (3.0, 12.0)
"""How long someone is gone whose stream was lost: long enough that others bring the run to its end."""
LATE_SECONDS = 0.5
LOOKS_IN_DOUBT = 4
ROUNDS_MAX = 4
NEVER = float("inf")


def approve_and_go_on(talk: Conversation) -> None:
    """Approve what is asked, some rounds of it in one thread; now and then the page is loaded in between."""
    for number in range(talk.rng.randint(1, ROUNDS_MAX)):
        if not talk.ask(is_followed=talk.rng.random() < 0.25):
            return
        while talk.cards:
            _think(talk)
            if talk.rng.random() < 0.3:
                talk.look()
            reply = talk.answer(talk.approved())
            if _is_stuck(talk, reply):
                return
        if number % 2:
            talk.look()
    talk.look()


def decide_with_care(talk: Conversation) -> None:
    """Approve, edit, reject or withdraw each call by itself, all in one answer; then try to change one's mind."""
    if not talk.ask():
        return
    talk.look()
    _think(talk)
    shown, answers = talk.cards, _carefully(talk)
    reply = talk.answer(answers)
    if _is_stuck(talk, reply):
        return
    if talk.rng.random() < 0.5:
        talk.repeat(_other(answers, shown), Intent.CONFLICT)
    talk.look()


def click_twice(talk: Conversation) -> None:
    """Send the same decision again, at once and when it is answered already."""
    if not talk.ask():
        return
    answers = talk.approved()
    second = gevent.spawn(talk.repeat, answers, Intent.ELSEWHERE)
    reply = talk.answer(answers)
    second.join()
    if _is_stuck(talk, reply):
        return
    talk.repeat(answers, Intent.TWICE)
    talk.look()


def decide_from_two_places(talk: Conversation) -> None:
    """Two devices decide at once, and not always the same; both see what became of it."""
    if not talk.ask():
        return
    choices = (talk.approved(), talk.approved(), talk.all(Verdict.REJECT), talk.all(Verdict.CANCEL))
    here, there = talk.rng.choice(choices), talk.rng.choice(choices)
    second = gevent.spawn(talk.repeat, there, Intent.ELSEWHERE)
    reply = talk.answer(here)
    second.join()
    if _is_stuck(talk, reply):
        return
    talk.look()


def answer_late(talk: Conversation) -> None:
    """Be away until the cards have expired, and answer then; what comes next in the thread works."""
    if not talk.ask(calls=2):
        return
    expires_at = max(each.expires_at for each in talk.cards)
    if expires_at < NEVER:
        gevent.sleep(max(0.0, expires_at + LATE_SECONDS - time.time()))
    talk.repeat(talk.approved(), Intent.LATE)
    talk.look()
    if talk.ask(calls=1):
        _is_stuck(talk, talk.answer(talk.approved()))
        talk.look()


def lose_the_stream(talk: Conversation) -> None:
    """Lose the connection in the middle of the answer, come back sooner or later, and send the same again."""
    if not talk.ask():
        return
    answers = _carefully(talk) if talk.rng.random() < 0.3 else talk.approved()
    run = talk.decided(answers)
    talk.client.post(run, Intent.ANSWER, answers, events_max=talk.rng.choice((0, 1, 2)))
    if talk.rng.random() < 0.5:
        gevent.sleep(talk.rng.uniform(*AWAY_SECONDS))
        talk.look()
    else:
        _think(talk)
    reply = talk.client.send(run, Intent.AGAIN, answers)
    talk.see(reply)
    if _is_stuck(talk, reply):
        return
    talk.look()


def attack(talk: Conversation, others: str) -> None:
    """Answer what was never asked, and, from another scope, read and answer what was; then its owner decides."""
    if not talk.ask(calls=talk.rng.randint(1, 2)):
        return
    stranger = talk.client.as_scope(others)
    talk.repeat((forged(),), Intent.FORGE)
    stranger.send(talk.decided(talk.approved()), Intent.INTRUDE, talk.approved())
    talk.repeat(talk.all(Verdict.CANCEL), Intent.INTRUDE, stranger)
    stranger.send(hydrate(talk.thread), Intent.INTRUDE)
    reply = talk.answer(talk.approved())
    if _is_stuck(talk, reply):
        return
    talk.look()


def _carefully(talk: Conversation) -> Answers:
    drawn = talk.rng.random()
    if drawn < 0.2:
        return talk.all(Verdict.REJECT)
    if drawn < 0.35:
        return talk.all(Verdict.CANCEL)
    if drawn < 0.55:
        return tuple(map(edited, talk.cards))
    return talk.mixed()


def _other(answers: Answers, shown: tuple[Card, ...]) -> Answers:
    """Return another decision about the first of these calls, and the same about the rest."""
    first, *rest = answers
    return (rejection(shown[0]) if first.verdict is Verdict.APPROVE else approval(shown[0]), *rest)


def _is_stuck(talk: Conversation, reply: Reply) -> bool:
    """Whether the thread can not go on by itself: in doubt, which may end by itself, so it is looked at for a while."""
    if reply.code != IN_DOUBT:
        return not reply.end or reply.code is not None
    for _ in range(LOOKS_IN_DOUBT):
        gevent.sleep(talk.rng.uniform(*AWAY_SECONDS) / LOOKS_IN_DOUBT)
        talk.look()
    return True


def _think(talk: Conversation) -> None:
    gevent.sleep(talk.rng.uniform(*THINK_SECONDS))
