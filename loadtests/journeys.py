"""What people and clients do with approvals: each function is one conversation, from the question to its end.

A person holds on until what they decided is answered. Whoever calls a journey looks at the page once more afterwards.
"""

from __future__ import annotations

import time

import gevent

from deploy.agui_client import Reply, hydrate
from loadtests.client import Client
from loadtests.conversation import Answers, Conversation
from loadtests.decisions import approval, edited, forged, rejection
from loadtests.history import Card, Intent
from loadtests.threads import IN_DOUBT
from stores.records import Verdict

THINK_SECONDS = (0.1, 1.5)
AWAY_SECONDS = (3.0, 12.0)
"""How long someone is gone who leaves or loses the stream: long enough that others bring the run to its end."""
LATE_SECONDS = 0.5
LOOKS_IN_DOUBT = 4
ROUNDS_MAX = 4
NEVER = float("inf")


def approve_and_go_on(talk: Conversation) -> None:
    """Approve what is asked, some rounds of it in one thread; now and then the page is loaded in between."""
    for _ in range(talk.rng.randint(1, ROUNDS_MAX)):
        talk.ask(is_followed=talk.rng.random() < 0.25)
        if talk.rng.random() < 0.2:
            talk.again()  # as a page does that was loaded anew before it had kept the answer
        if not talk.cards or not _approve_all(talk):
            return
        if talk.rng.random() < 0.3:
            talk.look()


def decide_with_care(talk: Conversation) -> None:
    """Approve, edit, reject or withdraw each call by itself, all in one answer; then try to change one's mind."""
    talk.ask()
    if not talk.cards:
        return
    talk.look()
    _think(talk)
    shown, answers = talk.cards, _carefully(talk)
    if _is_done(talk, talk.answer(answers)) and talk.rng.random() < 0.5:
        talk.repeat(_other(answers, shown), Intent.CONFLICT)


def click_twice(talk: Conversation) -> None:
    """Send the same decision again, at once and when it is answered already."""
    talk.ask()
    if not talk.cards:
        return
    answers = talk.approved()
    if _is_done(talk, _decide_at_once(talk, answers, answers)):
        talk.repeat(answers, Intent.TWICE)


def decide_from_two_places(talk: Conversation) -> None:
    """Two devices decide at once, and not always the same; both see what became of it."""
    talk.ask()
    if not talk.cards:
        return
    choices = (talk.approved(), talk.approved(), talk.all(Verdict.REJECT), talk.all(Verdict.CANCEL), talk.mixed())
    _is_done(talk, _decide_at_once(talk, talk.rng.choice(choices), talk.rng.choice(choices)))
    talk.on_another_device().look()


def come_back_elsewhere(talk: Conversation) -> None:
    """Leave the question alone for a while, load the page on another device, and answer there."""
    talk.ask(is_followed=talk.rng.random() < 0.25)
    gevent.sleep(talk.rng.uniform(*AWAY_SECONDS))
    elsewhere = talk.on_another_device()
    elsewhere.see(elsewhere.look())
    _approve_all(elsewhere)


def answer_late(talk: Conversation) -> None:
    """Be away until the cards have expired, and answer then; what comes next in the thread works."""
    talk.ask(calls=2)
    if not talk.cards:
        return
    expires_at = max(each.expires_at for each in talk.cards)
    if expires_at < NEVER:
        gevent.sleep(max(0.0, expires_at + LATE_SECONDS - time.time()))
    talk.repeat(talk.approved(), Intent.LATE)
    talk.look()
    talk.ask(calls=1)
    _approve_all(talk)


def lose_the_stream(talk: Conversation) -> None:
    """Lose the connection, of the question too, come back sooner or later, and send the same again."""
    talk.ask(leaves=True)
    _think(talk)
    talk.again()
    if not talk.cards:
        return
    answers = _carefully(talk) if talk.rng.random() < 0.3 else talk.approved()
    talk.answer(answers, leaves=True)
    if talk.rng.random() < 0.5:
        gevent.sleep(talk.rng.uniform(*AWAY_SECONDS))
        talk.look()
    else:
        _think(talk)
    _is_done(talk, talk.again())


def attack(talk: Conversation, other: Conversation, stranger: Client) -> None:
    """Answer what was never asked, or in another thread, or of somebody else; then the owner decides.

    `stranger` has another scope.
    """
    talk.ask(calls=talk.rng.randint(1, 2))
    other.ask(calls=1)
    if not talk.cards or not other.cards:
        return
    talk.repeat((forged(),), Intent.FORGE)
    talk.repeat(other.approved(), Intent.FORGE)
    talk.repeat(talk.approved(), Intent.INTRUDE, stranger)
    talk.repeat(talk.all(Verdict.CANCEL), Intent.INTRUDE, stranger)
    stranger.send(hydrate(talk.thread), Intent.INTRUDE)
    if _approve_all(talk):
        talk.repeat(other.approved(), Intent.FORGE)
    _approve_all(other)
    other.look()


def _approve_all(talk: Conversation) -> bool:
    """Approve what waits, and what is asked next; return whether that came to its end."""
    while talk.cards:
        _think(talk)
        if talk.rng.random() < 0.3:
            talk.look()
        if not _is_done(talk, talk.answer(talk.approved())):
            return False
    return True


def _decide_at_once(talk: Conversation, here: Answers, there: Answers) -> Reply:
    second = gevent.spawn(talk.repeat, there, Intent.ELSEWHERE, talk.on_another_device().client)
    reply = talk.answer(here)
    second.get()
    return reply


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


def _is_done(talk: Conversation, reply: Reply) -> bool:
    """Whether the answer was taken. A doubt may end by itself, so the page is looked at for a while."""
    if reply.code == IN_DOUBT:
        for _ in range(LOOKS_IN_DOUBT):
            gevent.sleep(talk.rng.uniform(*AWAY_SECONDS) / LOOKS_IN_DOUBT)
            talk.look()
        reply = talk.again()
    return bool(reply.end) and reply.code is None


def _think(talk: Conversation) -> None:
    gevent.sleep(talk.rng.uniform(*THINK_SECONDS))
