"""One approval with all that concerns it, found in a history by indexes: what the rules of `invariants.py` look at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadtests.history import Card, Effect, Event, Exchange, Replied, exchanges
from loadtests.left_begun import left_begun
from loadtests.threads import Answered, Thread, threads_of
from loadtests.troubles import Troubles
from stores.records import Verdict


@dataclass(frozen=True, slots=True)
class Case:
    """One approval. `foreign` are exchanges of other threads or scopes that name it or are told its result.

    `is_maybe_lost`: what the thread's clients were told may have been lost with a store that failed over.
    `left_begun_at`: by then a replica was dead that had begun its call and not settled it.
    """

    card: Card
    thread: Thread
    pause: tuple[Card, ...]
    foreign: tuple[Exchange, ...]
    effects: tuple[Effect, ...]
    answered: Sequence[Answered]
    """Every answer to it from its own thread, with what became of the request."""
    troubles: Troubles
    left_begun_at: float | None = None
    is_maybe_lost: bool = False

    @property
    def name(self) -> str:
        """Its interrupt's id."""
        return self.card.interrupt_id

    @property
    def asked(self) -> list[Exchange]:
        """The requests that answer any card of its pause: each of them carries all of it out, or none."""
        found = {each.sent.request: each for card in self.pause for _, each in self.thread.answers[card.interrupt_id]}
        return list(found.values())

    @property
    def taken(self) -> list[Answered]:
        """The answers to it whose run came to its end."""
        return [(answer, each) for answer, each in self.answered if each.replied.is_finished]

    @property
    def approvals(self) -> list[Answered]:
        """The answers that approve it."""
        return [(answer, each) for answer, each in self.answered if answer.verdict is Verdict.APPROVE]


def cases(history: Sequence[Event], effects: Sequence[Effect]) -> tuple[list[Case], list[Effect]]:
    """Return a case for every card of a history, and the effects that belong to none."""
    all_of_them = list(exchanges(history))
    threads = threads_of(all_of_them)
    mentions, told = _mentions(all_of_them), _told(all_of_them)
    shown = _shown(all_of_them)
    mine, unknown = _assigned(effects, shown, threads)
    troubles, begun = Troubles.of(history), left_begun(history, threads)
    lost = {place for place, thread in threads.items() if troubles.may_have_lost(thread.exchanges)}
    found = []
    for name, (card, place) in shown.items():
        thread = threads[place]
        results = [each for effect in mine[name] if effect.result is not None for each in told[effect.result]]
        foreign = {
            each.sent.request: each
            for each in (*mentions[name], *results)
            if (each.sent.scope, each.sent.thread) != place
        }
        found.append(
            Case(
                card,
                thread,
                tuple(thread.cards[each] for each in sorted(thread.pauses[name])),
                tuple(foreign.values()),
                tuple(mine[name]),
                thread.answers[name],
                troubles,
                begun.get(name),
                place in lost,
            )
        )
    return found, unknown


def shows(reply: Replied, name: str) -> bool:
    """Whether a reply shows a card."""
    return any(each.interrupt_id == name for each in reply.cards)


def _shown(all_of_them: Sequence[Exchange]) -> dict[str, tuple[Card, tuple[str, str]]]:
    """Return each card with the scope and thread that it was shown in first."""
    shown: dict[str, tuple[Card, tuple[str, str]]] = {}
    for each in sorted(all_of_them, key=lambda each: each.replied.at):
        for card in each.replied.cards:
            shown.setdefault(card.interrupt_id, (card, (each.sent.scope, each.sent.thread)))
    return shown


def _mentions(all_of_them: Sequence[Exchange]) -> defaultdict[str, list[Exchange]]:
    """Return the exchanges that name an approval: it is answered, shown, or said to be open."""
    found: defaultdict[str, list[Exchange]] = defaultdict(list)
    for each in all_of_them:
        names = {answer.interrupt_id for answer in each.sent.answers}
        names |= {card.interrupt_id for card in each.replied.cards} | set(each.replied.open)
        for name in names:
            found[name].append(each)
    return found


def _told(all_of_them: Sequence[Exchange]) -> defaultdict[str, list[Exchange]]:
    """Return the exchanges in which a client was told a result, by its words."""
    found: defaultdict[str, list[Exchange]] = defaultdict(list)
    for each in all_of_them:
        for content in {result.content for result in (*each.replied.results, *each.replied.page)}:
            found[content].append(each)
    return found


def _assigned(
    effects: Sequence[Effect],
    shown: Mapping[str, tuple[Card, tuple[str, str]]],
    threads: Mapping[tuple[str, str], Thread],
) -> tuple[defaultdict[str, list[Effect]], list[Effect]]:
    """Give each effect to the approval that it is of: by its key, or by the arguments that were shown or answered.

    A key that nobody was shown is another's or a new one: then the arguments tell.
    """
    names: dict[tuple[str, str], str] = {}
    for name, (card, place) in shown.items():
        known = {card.arguments, *(answer.arguments for answer, _ in threads[place].answers[name])}
        for arguments in known:
            names.setdefault((card.tool, arguments), name)
    found: defaultdict[str, list[Effect]] = defaultdict(list)
    unknown = []
    for effect in effects:
        is_known = effect.key is not None and effect.key in shown
        owner = effect.key if is_known else names.get((effect.tool, effect.arguments))
        if owner is not None:
            found[owner].append(effect)
        else:
            unknown.append(effect)
    return found, unknown
