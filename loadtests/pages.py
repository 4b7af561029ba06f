"""Rules about what a thread shows: its questions as they were asked, what was told of them, and nothing of others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from loadtests.history import Exchange, Intent
from loadtests.threads import Thread, threads_of

Found = Iterator[tuple[str, str]]
"""The approval, or "", and what is wrong."""
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
    """A question waits for as many calls as it named; sent again, it is answered the same."""
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
        for each in told:
            if each.replied.at >= look.sent.at:
                continue
            for result in each.replied.results:
                if (result.call_id, result.content) not in shown:
                    yield cards.get(result.call_id, ""), f"{look.sent.request} does not show {result.content!r}"
            if missing := set(each.sent.names) - set(look.replied.names):
                yield "", f"{look.sent.request} does not show the question about {min(missing)}"


def _place(each: Exchange) -> Place:
    return each.sent.scope, each.sent.thread
