"""Rules about what a thread shows: its questions as they were asked, what was told of them, and nothing of others."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

from loadtests.banked import PAY, REFUND, WIRE
from loadtests.history import Card, Exchange, Intent
from loadtests.threads import Found, Thread, threads_of

SAID = {PAY: "pay {invoice} to {payee}", WIRE: "wire {invoice} to {payee}", REFUND: "refund {invoice}"}
"""How people ask for the calls of a tool."""
Place = tuple[str, str]
"""A scope and a thread."""


def of_others(all_of_them: Sequence[Exchange]) -> Found:
    """Nobody is told of an invoice that somebody else asked about, or the same person in another thread."""
    owners = {name: _place(each) for each in all_of_them for name in each.sent.names}
    named: defaultdict[Place, set[str]] = defaultdict(set)
    for name, place in owners.items():
        named[place].add(name)
    for each in all_of_them:
        place = _place(each)
        foreign = {name for name in each.replied.names if owners.get(name, place) != place}
        if each.replied.is_cut:
            # What was cut may end in the midst of a name, which is another name then.
            foreign = {name for name in foreign if not any(own.startswith(name) for own in named[place])}
        if foreign:
            yield "", f"{each.sent.request} in {each.sent.scope} was told of {min(foreign)}, which is of another thread"


def not_as_asked(all_of_them: Sequence[Exchange]) -> Found:
    """A question waits for the calls that it named, and then for those that it named for later; again, for the same."""
    for thread in threads_of(all_of_them).values():
        words = " and ".join(each.sent.words for each in thread.exchanges if each.sent.words)
        # Where nobody wrote down what was said, as in machines, nothing is known of it.
        unsaid = [card for card in thread.cards.values() if words and _said(card) not in words]
        yield from ((card.interrupt_id, f"nobody had asked for this: {_said(card)}") for card in unsaid)
        yield from _without_what_follows(thread)
    yield from _not_answered_as_asked(all_of_them)


def changed_card(all_of_them: Sequence[Exchange]) -> Found:
    """Whoever approves a card approves what everybody sees."""
    first: dict[str, Card] = {}
    for each in all_of_them:
        for card in each.replied.cards:
            if first.setdefault(card.interrupt_id, card) != card:
                yield card.interrupt_id, f"{each.sent.request} shows it as {card}, it was {first[card.interrupt_id]}"


def _not_answered_as_asked(all_of_them: Sequence[Exchange]) -> Found:
    runs: defaultdict[tuple[str, str, str], list[Exchange]] = defaultdict(list)
    for each in all_of_them:
        if each.sent.calls is not None and each.replied.is_finished:
            runs[each.sent.scope, each.sent.thread, each.sent.run].append(each)
    for answered in runs.values():
        first, *later = answered
        cards = frozenset(card.interrupt_id for card in first.replied.cards)
        if len(cards) != first.sent.calls:
            yield "", f"{first.sent.request} asked for {first.sent.calls} calls, and waits for {len(cards)}"
        for each in later:
            told = frozenset(card.interrupt_id for card in each.replied.cards)
            is_open = all(each.replied.at < card.expires_at for card in first.replied.cards)
            if each.replied.text != first.replied.text or (is_open and told != cards):
                yield "", f"{each.sent.request} was answered otherwise than {first.sent.request}, the same question"


def not_shown(all_of_them: Sequence[Exchange]) -> Found:
    """Whoever loads the page after a client was told something is shown it: the question, and each call's result."""
    for thread in threads_of(all_of_them).values():
        yield from _not_shown_in(thread)


def never_shown(all_of_them: Sequence[Exchange]) -> Found:
    """When nothing fails any more, each page can be loaded."""
    is_shown: dict[Place, bool] = {}
    for each in all_of_them:
        if each.sent.looks and each.sent.intent is Intent.LAST:
            place = _place(each)
            is_shown[place] = is_shown.get(place, False) or each.replied.is_finished
    for (scope, thread), was_shown in is_shown.items():
        if not was_shown:
            yield "", f"the page of {thread} in {scope} was never shown when all was over"


def _not_shown_in(thread: Thread) -> Found:
    cards = {card.call_id: card.interrupt_id for card in thread.cards.values()}
    told = [each for each in thread.exchanges if each.replied.is_finished and not each.sent.looks]
    for look in thread.exchanges:
        if not (look.sent.looks and look.replied.is_finished):
            continue
        shown = {(result.call_id, result.content) for result in look.replied.page}
        before = [each for each in told if each.replied.at < look.sent.at]
        results = {(result.call_id, result.content) for each in before for result in each.replied.results}
        for call_id, content in sorted(results - shown):
            yield cards.get(call_id, ""), f"{look.sent.request} does not show {content!r}"
        if missing := {name for each in before for name in each.sent.names} - set(look.replied.names):
            yield "", f"{look.sent.request} does not show the question about {min(missing)}"
        if len(shown) > len({call_id for call_id, _ in shown}):
            yield "", f"{look.sent.request} shows two results of one call"


def _without_what_follows(thread: Thread) -> Found:
    """Whoever asked for more to come is asked about that when the first calls are done."""
    for question in thread.exchanges:
        sent = question.sent
        if sent.calls is None or len(sent.names) <= sent.calls or not question.replied.cards:
            continue
        first = question.replied.cards[0].interrupt_id
        for _, each in thread.answers[first]:
            reply = each.replied
            if reply.is_finished and not reply.is_replay and not reply.cards:
                yield first, f"{each.sent.request} ended, and what {sent.request} asked for next is not asked"


def _said(card: Card) -> str:
    """Return the words by which a person asks for a call."""
    return SAID[card.tool].format(**json.loads(card.arguments))


def _place(each: Exchange) -> Place:
    return each.sent.scope, each.sent.thread
