"""Each pause that was answered: which replica had shown its cards, and which one brought it to its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loadtests.cases import Case
from loadtests.history import Exchange
from loadtests.threads import IN_DOUBT


@dataclass(frozen=True, slots=True)
class Resumed:
    """One pause that came to its end, or into doubt, as its clients saw it. Times are those of the history.

    A replica is "" where nobody said who it was.
    """

    thread: str
    shown_by: str
    answered_at: float
    """When the first decision about it was sent."""
    ended_by: str
    ended_at: float
    """When a client was first told its end, or the doubt."""

    @property
    def is_crossed(self) -> bool:
        """Whether another replica ended it than the one that had shown its cards."""
        return bool(self.shown_by and self.ended_by) and self.shown_by != self.ended_by


def resumed(found: Iterable[Case]) -> list[Resumed]:
    """Return one for each pause of these approvals that ended, in the order in which they did."""
    pauses = {frozenset(card.interrupt_id for card in case.pause): case for case in found}
    every = (_resumed(case) for case in pauses.values())
    return sorted((each for each in every if each is not None), key=lambda each: each.ended_at)


def _resumed(case: Case) -> Resumed | None:
    ends = [each for _, each in case.answered if each.replied.is_finished or each.replied.code == IN_DOUBT]
    if not ends:
        return None
    end = min(ends, key=_replied_at)
    return Resumed(
        end.sent.thread,
        min(_showing(case), key=_replied_at).replied.replica,
        min(each.sent.at for _, each in case.answered),
        end.replied.replica,
        end.replied.at,
    )


def _showing(case: Case) -> Sequence[Exchange]:
    shown = [each for each in case.thread.exchanges if any(card in case.pause for card in each.replied.cards)]
    assert shown, "every approval was shown"
    return shown


def _replied_at(each: Exchange) -> float:
    return each.replied.at
