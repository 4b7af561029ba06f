"""Where a replica may die and what is allowed to come of it: one table, for the tests and for the README. Pure."""

from __future__ import annotations

from enum import StrEnum

from app.steps import Step


class Journey(StrEnum):
    """What a replica is doing when it dies: an approval by kind of effect, or another thing that writes."""

    IDEMPOTENT = "idempotent"
    TRANSACTIONAL = "transactional"
    UNSAFE = "unsafe"
    REJECT = "reject"
    CANCEL = "cancel"
    PAUSE = "a run that pauses"
    FAIL = "a failed model"
    EXPIRE = "expiry"
    DOUBT = "take-over in doubt"
    LEAVE = "cancel when stuck"


class Outcome(StrEnum):
    """What comes of it when the client sends the same again, to whatever replica."""

    ANEW = "anew"
    GOES_ON = "goes on"
    AGAIN = "called again"
    KEPT = "result kept"
    IN_DOUBT = "in doubt"
    REPLAYED = "replayed"
    EXPIRED = "expired"


MEANINGS: dict[Outcome, str] = {
    Outcome.ANEW: "no decision is in the record and no run; the same is carried out as if it came for the first time",
    Outcome.GOES_ON: "the decision is recorded, and is carried out once, by whoever comes first",
    Outcome.AGAIN: "the call is made once more under the same key; the far side knows the key, so there is one effect",
    Outcome.KEPT: "the recorded result is used; the call is not made again",
    Outcome.IN_DOUBT: "`APPROVAL_OUTCOME_INDETERMINATE`: no effect or one, and never another by itself",
    Outcome.REPLAYED: "the run was committed; its recorded end is sent again",
    Outcome.EXPIRED: "there is no effect; the thread goes on, and a late answer gets `APPROVAL_RESUME_EXPIRED`",
}


def both(*steps: Step) -> tuple[str, ...]:
    """Return the points before and after each of these steps."""
    return tuple(f"{when}-{step}" for step in steps for when in ("before", "after"))


_CLAIM = (Step.LOAD, Step.RESERVE, Step.CLAIM)
_END = (Step.FINISH, Step.ANSWER)
_EFFECT = (Step.EFFECT, Step.SETTLE, Step.MODEL)

POINTS: dict[Journey, tuple[str, ...]] = {
    Journey.IDEMPOTENT: both(*_CLAIM, Step.BEGIN, *_EFFECT, *_END),
    Journey.TRANSACTIONAL: both(*_CLAIM, *_EFFECT, *_END),
    Journey.UNSAFE: both(*_CLAIM, Step.BEGIN, *_EFFECT, *_END),
    Journey.REJECT: both(*_CLAIM, Step.MODEL, *_END),
    Journey.CANCEL: both(*_CLAIM, *_END),
    # The model is named where it is called with results: a run that pauses has none yet.
    Journey.PAUSE: (*both(Step.OPEN), f"after-{Step.MODEL}", *both(*_END)),
    Journey.FAIL: both(Step.FREE, Step.RELEASE),
    Journey.EXPIRE: both(Step.CLOSE, Step.RECORD),
    Journey.DOUBT: both(Step.RECORD),
    Journey.LEAVE: both(Step.CLOSE, Step.RECORD),
}
"""The points that each passes, in order, where the ledger is a store of its own."""


def apart_only(journey: Journey) -> frozenset[str]:
    """Return the points that are there only if the ledger is a store of its own: else they are part of another write.

    An idempotent call has begun with its claim where one write can say both.
    """
    steps = [Step.RESERVE, Step.FREE, *([Step.BEGIN] if journey is Journey.IDEMPOTENT else [])]
    return frozenset(both(*steps)) & frozenset(POINTS[journey])


def points(journey: Journey, *, shared: bool) -> tuple[str, ...]:
    """Return the points that it passes in stores that are `shared` (see `Stores`) or not."""
    left_out = apart_only(journey) if shared else frozenset()
    return tuple(point for point in POINTS[journey] if point not in left_out)


def outcome(journey: Journey, point: str) -> Outcome:
    """Return the one outcome that the rules allow (design: begin before the effect, settle after it, take-over)."""
    if journey is Journey.EXPIRE:
        return Outcome.EXPIRED
    if journey is Journey.DOUBT or (journey is Journey.UNSAFE and _is_between(Step.BEGIN, Step.SETTLE, point)):
        return Outcome.IN_DOUBT
    if is_past(journey, point, Step.FINISH) or (journey is Journey.LEAVE and is_past(journey, point, Step.RECORD)):
        return Outcome.REPLAYED
    if is_past(journey, point, Step.SETTLE) or journey in {Journey.FAIL, Journey.LEAVE}:
        return Outcome.KEPT
    if journey is Journey.IDEMPOTENT and is_past(journey, point, Step.EFFECT):
        return Outcome.AGAIN
    return Outcome.GOES_ON if is_past(journey, point, Step.CLAIM) else Outcome.ANEW


def is_past(journey: Journey, point: str, step: Step) -> bool:
    """Say whether a step was taken before a replica died at this point."""
    order, after = POINTS[journey], f"after-{step}"
    return after in order and order.index(after) <= order.index(point)


def effects(journey: Journey, point: str) -> int:
    """Return how many effects there are once the client has its last word."""
    match outcome(journey, point):
        case Outcome.IN_DOUBT if journey is Journey.UNSAFE:
            return int(is_past(journey, point, Step.EFFECT))
        case _:
            return 0 if journey in {Journey.REJECT, Journey.CANCEL, Journey.EXPIRE} else 1


def calls(journey: Journey, point: str) -> int:
    """Return how many calls it took: a repeat under the same key is one more, and no effect."""
    return effects(journey, point) + (outcome(journey, point) is Outcome.AGAIN)


def _is_between(step: Step, end: Step, point: str) -> bool:
    return is_past(Journey.UNSAFE, point, step) and not is_past(Journey.UNSAFE, point, end)


def table() -> str:
    """Return the table as the README shows it."""
    rows = [["dies", *Journey], ["---"] * (len(Journey) + 1)]
    for point in both(*Step):
        when, step = point.split("-")
        rows.append([f"{when} **{step}**", *(_cell(journey, point) for journey in Journey)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def legend() -> str:
    """Return what the words of the table mean, as the README shows it."""
    return "\n".join(f"- *{each}*: {meaning}." for each, meaning in MEANINGS.items())


def _cell(journey: Journey, point: str) -> str:
    return outcome(journey, point) if point in POINTS[journey] else ""


if __name__ == "__main__":
    print(f"{table()}\n\n{legend()}")
