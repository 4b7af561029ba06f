"""The one rule that needs to know when the last fault was over: every answer comes to its end, and soon enough."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import isfinite

from loadtests.cases import Case
from loadtests.history import Began, Event, Exchange, Phase, exchanges
from loadtests.threads import CONFLICT, EXPIRED, IN_DOUBT, NEVER, NOT_FOUND

IN_TIME = "every answer comes to its end in time"
HEARD_SECONDS = 10.0
"""Who leaves sooner gave nobody the time to tell anything: people do so within a second, the last look after longer."""


def late(history: Sequence[Event], found: Sequence[Case], bound_seconds: float) -> Iterator[tuple[str, str]]:
    """Return the approvals that were answered and came to no end, or to one that was told too late, and what is wrong.

    An end is late that was first told longer than the bound after the last fault and after the first answer, although
    somebody asked in between. A doubt is an end, of the call in doubt and of those that it holds back.
    """
    quiet_at = next((event.at for event in history if isinstance(event, Began) and event.phase is Phase.QUIET), None)
    yield from _unanswered_questions(history, bound_seconds)
    for case in found:
        # Who gets a conflict had another decision than the one that counts, which somebody else waits for.
        asked = [each for _, each in case.answered if each.replied.code != CONFLICT]
        what = _what_is_late(case, asked, quiet_at, bound_seconds) if asked else _what_nobody_decided(case)
        if what:
            yield case.name, what


def _unanswered_questions(history: Sequence[Event], bound_seconds: float) -> Iterator[tuple[str, str]]:
    """Return the questions that were asked again and again for longer than the bound, and refused until the end."""
    runs: defaultdict[tuple[str, str, str], list[Exchange]] = defaultdict(list)
    for each in exchanges(history):
        if each.sent.calls is not None:
            runs[each.sent.scope, each.sent.thread, each.sent.run].append(each)
    for asked in runs.values():
        seconds = asked[-1].replied.at - asked[0].sent.at
        is_refused = asked[-1].replied.code is not None and not any(each.replied.is_finished for each in asked)
        if is_refused and bound_seconds < seconds < NEVER:
            last = asked[-1]
            yield "", f"{last.sent.request} asked for {seconds:.0f} s, and was told {last.replied.code} at last"


def _what_nobody_decided(case: Case) -> str:
    """Say what is wrong where all who answered were told of another decision, and time had not decided."""
    replies = [each.replied for _, each in case.answered]
    if not replies or case.is_maybe_lost or min(reply.at for reply in replies) >= case.card.expires_at:
        return ""
    return f"was answered {len(replies)} times, and each was told of another decision, which nobody had sent"


def _what_is_late(case: Case, asked: Sequence[Exchange], quiet_at: float | None, bound_seconds: float) -> str:
    ended_at = min((each.replied.at for each in asked if _is_end(case, each)), default=None)
    if ended_at is None:
        return f"was answered {len(asked)} times, and nobody was told its end"
    if quiet_at is None:
        return ""
    over_at = max(quiet_at, min(each.sent.at for each in asked)) + bound_seconds
    in_vain = [
        each
        for each in asked
        if each.sent.at < ended_at and _has_waited_in_vain(each, over_at, bound_seconds, has_end=_is_end(case, each))
    ]
    if ended_at <= over_at or not in_vain:
        return ""
    one = in_vain[-1]
    told = "the end" if _is_end(case, one) else one.replied.code or "nothing"
    waited = f"{one.sent.request} was told {told}"
    return f"had no end after {bound_seconds:g} s without a fault, but {ended_at - over_at:.1f} s later: {waited}"


def _has_waited_in_vain(each: Exchange, over_at: float, bound_seconds: float, *, has_end: bool) -> bool:
    """Whether a host that was asked this after the bound, or had still not answered it then, owed the end by then.

    Whoever is the first to ask for long is told when the run is over that it started; that takes what a run takes.
    """
    if has_end:
        return each.sent.at <= over_at or each.replied.at - each.sent.at > bound_seconds
    waited_seconds = each.replied.at - max(each.sent.at, over_at)
    # Of who is never heard of again, nobody knows when he did not wait any more.
    return isfinite(waited_seconds) and waited_seconds > (HEARD_SECONDS if each.replied.has_left else 0)


def _is_end(case: Case, each: Exchange) -> bool:
    if each.replied.code == NOT_FOUND:
        return case.is_maybe_lost
    return each.replied.is_finished or each.replied.code in {EXPIRED, IN_DOUBT}
