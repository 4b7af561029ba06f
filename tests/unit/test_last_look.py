"""The last look: which threads still wait for an answer when the users are gone, and that none of them is left out."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from fastapi import FastAPI, Request, Response

from loadtests import last_look
from loadtests.history import Answer, Card, Event, Exchange, Intent, Replied, Sent, exchanges
from loadtests.invariants import EXPIRED, IN_DOUBT, NOT_FOUND
from loadtests.journal import Journal, read_history
from loadtests.last_look import AT_ONCE, SHARES_MAX, LeftThread, left_open, look_at_all
from loadtests.threads import CONFLICT, IN_PROGRESS
from stores.records import EffectKind, Verdict
from tests.host.serving import serving

APPROVED = (Answer("i-1", Verdict.APPROVE, '{"invoice":"INV-1"}'),)
REJECTED = (Answer("i-1", Verdict.REJECT),)
NEXT = (Answer("i-2", Verdict.REJECT),)
CARD = Card("i-1", "c-1", "wire_transfer", EffectKind.UNSAFE, '{"invoice":"INV-1"}', float("inf"))
PAUSE: list[Event] = [Sent(1.0, "ask", "s", "t"), Replied(2.0, "ask", is_paused=True, cards=(CARD,))]
SECONDS = 1000.0
"""What each has: so long that no machine is too slow, and that who waits for it is stopped by the test's time-out."""


def _sent(request: str, answers: tuple[Answer, ...] = APPROVED, **changes: object) -> Sent:
    return Sent(3.0, request, "s", "t", answers, **changes)  # type: ignore[arg-type]  # fields of Sent


def _one(history: list[Event]) -> LeftThread:
    [thread] = left_open(history)
    return thread


def test_a_card_that_nobody_answered_waits_for_no_answer() -> None:
    assert _one(PAUSE).unanswered == []


def test_an_answer_whose_stream_broke_waits_and_so_does_one_that_never_came_back() -> None:
    assert _one([*PAUSE, _sent("a"), Replied(4.0, "a", is_cut=True)]).unanswered == [APPROVED]
    assert _one([*PAUSE, _sent("a")]).unanswered == [APPROVED]


def test_an_end_a_doubt_and_an_expiry_are_answers() -> None:
    for reply in (Replied(4.0, "a"), Replied(4.0, "a", code=IN_DOUBT), Replied(4.0, "a", code=EXPIRED)):
        assert _one([*PAUSE, _sent("cut"), _sent("a"), reply]).unanswered == []


def test_of_two_decisions_without_an_end_the_newest_is_sent_first() -> None:
    assert _one([*PAUSE, _sent("a"), _sent("b", REJECTED)]).unanswered == [REJECTED, APPROVED]


def test_what_an_attacker_sent_is_not_sent_again() -> None:
    forged = (Answer("i-9", Verdict.APPROVE, "{}"),)
    history = [*PAUSE, _sent("a", forged, intent=Intent.FORGE), _sent("b", forged)]
    assert _one(history).unanswered == []


FINISHED = Response('data:{"type":"RUN_FINISHED"}\n\n')
CUT = Response('data:{"type":"RUN_STARTED"}\n\n')
FULL = Response(status_code=503)


def _refused(code: str, *, is_definite: bool = False) -> Response:
    metadata = {"retryAfterSeconds": 0.001, "definite": is_definite}
    return Response("data:" + json.dumps({"type": "RUN_ERROR", "code": code, "metadata": metadata}) + "\n\n")


@dataclass(slots=True)
class Clock:
    """Goes when it is told to, and on by `tick` each time somebody looks at it."""

    now: float = 0.0
    tick: float = 0.0

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


@dataclass(frozen=True, slots=True)
class Looked:
    """A last look at some threads of one scope, at a host that answers as it is told; what came of it."""

    history: Path
    clock: Clock = field(default_factory=Clock)

    async def at(
        self, *threads: LeftThread, answers: Callable[[str, str], Response | None], seconds: float = SECONDS
    ) -> list[Exchange]:
        """`answers` gets the thread, and the interrupt that is decided about ("": a look); None: it says nothing."""
        host, never = FastAPI(), asyncio.Event()

        @host.post("/agents/payments")
        async def answer(request: Request) -> Response:
            body = await request.json()
            [decided] = [each["interruptId"] for each in body.get("resume", ())] or [""]
            if (response := answers(body["threadId"], decided)) is None:
                await never.wait()
            return response or FINISHED

        async with serving(host) as (address, port):
            journal = Journal(self.history)
            url = f"http://{address}:{port}"
            await look_at_all(url, threads, journal, seconds=seconds, clock=self.clock)
        return list(exchanges(read_history(self.history)))


@pytest.fixture
def looked(tmp_path: Path) -> Looked:
    return Looked(tmp_path / "history.jsonl")


def script(*responses: Response) -> Callable[[str, str], Response]:
    """Answer with these, one after the other, and with a finished run when there are none left."""
    left = iter(responses)
    return lambda _thread, _decided: next(left, FINISHED)


def story(found: Sequence[Exchange]) -> list[tuple[tuple[Answer, ...], str]]:
    """What was sent, and what came of it."""
    return [(each.sent.answers, "cut" if each.replied.is_cut else each.replied.code or "ok") for each in found]


async def test_decisions_and_the_page_are_sent_again_as_the_same_run_until_they_are_answered(looked: Looked) -> None:
    busy = _refused("THREAD_BUSY", is_definite=True)
    host = script(_refused(IN_PROGRESS), CUT, busy, FINISHED, CUT, FULL, busy)
    found = await looked.at(LeftThread("s", "t", unanswered=[APPROVED]), answers=host)

    decided = [(APPROVED, IN_PROGRESS), (APPROVED, "cut"), (APPROVED, "THREAD_BUSY"), (APPROVED, "ok")]
    assert story(found) == [*decided, ((), "cut"), ((), "HTTP 503"), ((), "THREAD_BUSY"), ((), "ok")]
    assert [each.sent.looks for each in found] == [False] * 4 + [True] * 4
    assert list(Counter(each.sent.run for each in found).values()) == [4, 4]
    assert {(each.sent.scope, each.sent.thread, each.sent.intent) for each in found} == {("s", "t", Intent.LAST)}
    assert len({each.sent.request for each in found}) == len(found)


@pytest.mark.parametrize("code", [CONFLICT, NOT_FOUND, "APPROVAL_RESUME_STALE", "LIMIT_EXCEEDED"])
async def test_a_final_refusal_is_not_asked_for_again_and_the_decision_before_is_sent(
    looked: Looked, code: str
) -> None:
    thread = LeftThread("s", "t", unanswered=[REJECTED, APPROVED])
    found = await looked.at(thread, answers=script(_refused(code)))

    assert story(found) == [(REJECTED, code), (APPROVED, "ok"), ((), "ok")]


@pytest.mark.parametrize("end", [FINISHED, _refused(EXPIRED), _refused(IN_DOUBT)])
async def test_what_has_its_end_is_not_decided_again_but_the_pause_before_is(looked: Looked, end: Response) -> None:
    thread = LeftThread("s", "t", unanswered=[REJECTED, APPROVED, NEXT])
    found = await looked.at(thread, answers=script(end))

    assert [each.sent.answers for each in found] == [REJECTED, NEXT, ()]


async def test_a_thread_whose_turn_comes_late_has_as_much_time_as_the_first(looked: Looked) -> None:
    stuck = {f"stuck-{number}" for number in range(AT_ONCE)}
    asked, tries = set[str](), count()

    def host(thread: str, decided: str) -> Response:
        if not decided:
            return FINISHED
        if thread == "late":
            return FINISHED if next(tries) == 3 else _refused(IN_PROGRESS)
        asked.add(thread)
        if asked == stuck:
            looked.clock.now = SECONDS + 1
        return _refused(IN_PROGRESS)

    threads = [LeftThread("s", name, unanswered=[APPROVED]) for name in (*sorted(stuck), "late")]
    found = await looked.at(*threads, answers=host)

    late = [each for each in found if each.sent.thread == "late"]
    assert story(late) == [*[(APPROVED, IN_PROGRESS)] * 3, (APPROVED, "ok"), ((), "ok")]
    assert Counter(each.sent.thread for each in found if each.sent.looks) == dict.fromkeys((*stuck, "late"), 1)


async def test_when_all_of_the_time_is_over_each_is_sent_once_more_and_none_is_left_out(looked: Looked) -> None:
    def host(_thread: str, _decided: str) -> Response:
        looked.clock.now = SHARES_MAX * SECONDS + 1
        return _refused(IN_PROGRESS)

    names = [f"t-{number}" for number in range(AT_ONCE + 3)]
    found = await looked.at(*[LeftThread("s", name, unanswered=[APPROVED]) for name in names], answers=host)

    for name in names[AT_ONCE:]:
        of_it = [each for each in found if each.sent.thread == name]
        assert story(of_it) == [(APPROVED, IN_PROGRESS), ((), IN_PROGRESS)]


async def test_a_host_that_says_nothing_is_left_and_the_history_has_that(
    looked: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_look, "POST_SECONDS_MIN", 0.01)
    looked.clock.tick = 1.0
    found = await looked.at(LeftThread("s", "t"), answers=lambda _thread, _decided: None, seconds=0.0)

    assert story(found) == [((), "cut")]
    assert found[0].replied.has_left
    assert found[0].replied.at < float("inf"), "the reply was written down"
