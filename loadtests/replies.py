"""Rules about single replies, whichever approval they are about: what clients may be told at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from app.errors import MEANINGS, Code
from loadtests.codes import unfit
from loadtests.history import Exchange, Replied
from loadtests.pages import changed_card, never_shown, not_as_asked, not_shown, of_others
from loadtests.statuses import STATUSES
from loadtests.threads import CONFLICT, EXPIRED, IN_DOUBT, IN_PROGRESS, Found, threads_of

_OF_A_KNOWN_ONE = frozenset({IN_PROGRESS, CONFLICT, EXPIRED, IN_DOUBT})


def _unknown_reply(all_of_them: Sequence[Exchange]) -> Found:
    for each in all_of_them:
        approval = each.sent.answers[0].interrupt_id if each.sent.answers else ""
        for what in _what_is_wrong(each.replied):
            yield approval, f"{each.sent.request} was told {what}"


def _what_is_wrong(reply: Replied) -> Iterator[str]:
    is_refused = reply.status not in {0, 200}
    if is_refused and reply.status not in STATUSES:
        yield f"HTTP {reply.status}"
    if reply.status == 0 and not reply.is_cut:
        yield "something by nobody"
    if is_refused or reply.code is None:
        return
    if reply.code not in MEANINGS:
        yield f"{reply.code}, which no client knows"
    elif reply.definite and not MEANINGS[Code(reply.code)].can_be_definite:
        yield f"{reply.code} as definite, which it can not be"


def _forged(all_of_them: Sequence[Exchange]) -> Found:
    """Who answers what was shown to nobody in this scope, in no thread, is told no more than anybody would be."""
    threads = threads_of(all_of_them)
    shown = {name for thread in threads.values() for name in thread.cards}
    for each in all_of_them:
        forged = [answer.interrupt_id for answer in each.sent.answers if answer.interrupt_id not in shown]
        if not forged or each.replied.is_cut:
            continue
        if each.replied.code is None or each.replied.code in _OF_A_KNOWN_ONE:
            yield (
                forged[0],
                f"{each.sent.request} was told {each.replied.code or 'an answer'} about what nobody was shown",
            )


Look = Callable[[Sequence[Exchange]], Found]

REPLY_RULES: dict[str, Look] = {
    "every reply is one that clients know": _unknown_reply,
    "a forged answer is told nothing": _forged,
    "a refusal fits what was sent": unfit,
    "a reply speaks of its own thread alone": of_others,
    "a question is asked as it was said": not_as_asked,
    "a card stays as it was shown": changed_card,
    "a page shows what was told": not_shown,
    "a last look shows the page": never_shown,
}
REPLIES_EXCUSED_BY_FAILOVER: frozenset[Look] = frozenset({not_as_asked, not_shown})
"""What a thread may do that went back to an earlier pause, or is gone."""
