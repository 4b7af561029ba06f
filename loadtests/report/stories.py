"""The story of a thread that broke a rule: what was sent, told and done to it, in the order in which it happened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from loadtests.cases import Case
from loadtests.history import Answer, Effect, Event, Exchange, Fault, Replied
from loadtests.invariants import Violation
from loadtests.report.timeline import described, ending

STORIES_MAX = 20
LINES_MAX = 200


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened, so many seconds after the thread began; None: nobody knows when."""

    after_seconds: float | None
    who: str
    what: str


@dataclass(frozen=True, slots=True)
class Story:
    """One thread with the rules that it broke; `left_out` lines are in the history only."""

    scope: str
    thread: str
    violations: Sequence[Violation]
    lines: Sequence[Line]
    left_out: int


def stories(history: Sequence[Event], found: Sequence[Case], violations: Sequence[Violation]) -> list[Story]:
    """Return the stories of the threads of these violations; those that no thread is known for have none."""
    places = {case.name: _place(case) for case in found}
    broken: defaultdict[tuple[str, str], list[Violation]] = defaultdict(list)
    for violation in violations:
        if violation.approval in places:
            broken[places[violation.approval]].append(violation)
    faults = [event for event in history if isinstance(event, Fault)]
    return [
        _story(place, own, [case for case in found if places[case.name] == place], faults)
        for place, own in list(broken.items())[:STORIES_MAX]
    ]


def _place(case: Case) -> tuple[str, str]:
    sent = case.thread.exchanges[0].sent
    return sent.scope, sent.thread


def _story(
    place: tuple[str, str], violations: Sequence[Violation], own: Sequence[Case], faults: Sequence[Fault]
) -> Story:
    exchanges = own[0].thread.exchanges
    foreign = {each.sent.request: each for case in own for each in case.foreign}
    begins_at = min(each.sent.at for each in exchanges)
    ends_at = max(_last_at(each) for each in exchanges)
    timed = [
        *(line for each in exchanges for line in _exchange(each, begins_at)),
        *(line for each in foreign.values() for line in _exchange(each, begins_at, is_foreign=True)),
        *(Line(each.at - begins_at, "nemesis", described(each)) for each in faults if begins_at <= each.at <= ends_at),
        *(_effect(each, begins_at) for case in own for each in case.effects),
    ]
    lines = sorted(timed, key=lambda line: float("inf") if line.after_seconds is None else line.after_seconds)
    return Story(*place, violations, lines[:LINES_MAX], max(0, len(lines) - LINES_MAX))


def _exchange(each: Exchange, begins_at: float, *, is_foreign: bool = False) -> Iterator[Line]:
    sent, reply = each.sent, each.replied
    where = f"{sent.scope} in {sent.thread}: " if is_foreign else ""
    what = "; ".join(map(_answer, sent.answers)) or ("how does it stand?" if sent.looks else "a message")
    yield Line(sent.at - begins_at, sent.user or "client", f"{where}{sent.intent or 'sends'} ({sent.request}): {what}")
    if isfinite(reply.at):
        yield Line(reply.at - begins_at, reply.replica or "no replica", f"{where}to {reply.request}: {_reply(reply)}")


def _answer(answer: Answer) -> str:
    return f"{answer.verdict.value} {answer.interrupt_id} {answer.arguments}".rstrip()


def _reply(reply: Replied) -> str:
    """Return a reply in words: how it ended, what it shows and what it reports."""
    parts = [ending(reply).value if reply.code is None else reply.code]
    if reply.status != 200:
        parts.append(f"HTTP {reply.status}" if reply.status else "no reply at all")
    if reply.code is not None:
        parts.append("definite" if reply.definite else "not definite")
    parts += [f"shows {card.interrupt_id}: {card.tool} ({card.kind.value}) {card.arguments}" for card in reply.cards]
    shown = {card.interrupt_id for card in reply.cards}
    parts += [f"open {name}" for name in reply.open if name not in shown]
    parts += [f"{'error' if each.is_error else 'result'} {each.content}" for each in reply.results]
    return ", ".join(parts)


def _effect(effect: Effect, begins_at: float) -> Line:
    key = f", key {effect.key}" if effect.key else ""
    return Line(
        None if effect.at is None else effect.at - begins_at, "bank", f"effect of {effect.tool} {effect.arguments}{key}"
    )


def _last_at(each: Exchange) -> float:
    return each.replied.at if isfinite(each.replied.at) else each.sent.at
