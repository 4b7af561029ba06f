"""Each pause that was answered: which replica had shown its cards, and which one told its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loadtests.cases import Case
from loadtests.history import Exchange
from loadtests.threads import IN_DOUBT


@dataclass(frozen=True, slots=True)
class Resumed:
    """One pause that came to its end, or into doubt, as its clients saw it. Times are those of the history.

    Who tells an end live has carried it out, in the run that it answers; who repeats a recorded end, or says that there
    is a doubt, may only have read what another did. A replica is "" where nobody said who it was.
    """

    thread: str
    shown_by: str
    answered_at: float
    """When the first decision about it was sent."""
    ended_by: str
    """Who told its end live or, if nobody did, told it first."""
    ended_at: float
    """When a client was first told its end, or the doubt, live or not."""
    is_live: bool
    """Whether anybody was told its end live."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether `ended_by` is another replica than the one that had shown its cards."""
        return bool(self.shown_by and self.ended_by) and self.shown_by != self.ended_by

    @property
    def is_crossed(self) -> bool:
        """Whether another replica carried it out to its end than the one that had shown its cards."""
        return self.is_live and self.is_elsewhere

    @property
    def is_retold(self) -> bool:
        """Whether its end was told elsewhere, and by nobody who is known to have carried it out."""
        return not self.is_live and self.is_elsewhere


def resumed(found: Iterable[Case]) -> list[Resumed]:
    """Return one for each pause of these approvals that ended, in the order in which they did."""
    pauses = {frozenset(card.interrupt_id for card in case.pause): case for case in found}
    every = (_resumed(case) for case in pauses.values())
    return sorted((each for each in every if each is not None), key=lambda each: each.ended_at)


def _resumed(case: Case) -> Resumed | None:
    ends = [each for _, each in case.answered if each.replied.is_finished or each.replied.code == IN_DOUBT]
    if not ends:
        return None
    live = [each for each in ends if each.replied.is_finished and not each.replied.is_replay]
    first = min(ends, key=_replied_at)
    return Resumed(
        first.sent.thread,
        min(_showing(case), key=_replied_at).replied.replica,
        min(each.sent.at for _, each in case.answered),
        min(live or ends, key=_replied_at).replied.replica,
        first.replied.at,
        is_live=bool(live),
    )


def _showing(case: Case) -> Sequence[Exchange]:
    shown = [each for each in case.thread.exchanges if any(card in case.pause for card in each.replied.cards)]
    assert shown, "every approval was shown"
    return shown


def _replied_at(each: Exchange) -> float:
    return each.replied.at
