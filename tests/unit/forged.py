"""Histories that a test writes event by event, for the judges: one of a chaos run in which every promise was kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from app.end_texts import REJECTED_TEXT
from loadtests.history import (
    Answer,
    Began,
    Card,
    Effect,
    Event,
    Fault,
    FaultKind,
    Intent,
    Mended,
    Phase,
    Replied,
    Result,
    Sent,
    exchanges,
)
from loadtests.threads import CONFLICT, EXPIRED, IN_DOUBT, NOT_FOUND
from stores.records import EffectKind, Verdict

KINDS = {"pay": EffectKind.IDEMPOTENT, "wire": EffectKind.UNSAFE, "refund": EffectKind.TRANSACTIONAL}


def card(name: str) -> Card:
    """Name a card like `wire-1`: its tool is the first part."""
    tool = name.partition("-")[0]
    return Card(name, f"call-{name}", tool, KINDS[tool], f'{{"invoice":"{name}"}}', expires_at=1000.0)


def approval(name: str, **changes: str) -> Answer:
    return Answer(name, Verdict.APPROVE, changes.get("arguments", card(name).arguments))


def rejection(name: str) -> Answer:
    return Answer(name, Verdict.REJECT)


def cancellation(name: str) -> Answer:
    return Answer(name, Verdict.CANCEL)


def result(name: str) -> Result:
    return Result(f"call-{name}", f"done {name}")


def not_run(name: str) -> Result:
    """Return what is told of a call that was rejected."""
    return replace(result(name), content=REJECTED_TEXT)


def results_of(answers: Iterable[Answer]) -> tuple[Result, ...]:
    """Return what is told of calls that were decided so: of one that was withdrawn, nothing."""
    tells = {Verdict.APPROVE: result, Verdict.REJECT: not_run}
    return tuple(tells[each.verdict](each.interrupt_id) for each in answers if each.verdict in tells)


@dataclass(slots=True)
class Timed:
    """A history whose requests overlap: each says when it was sent and when it was answered."""

    events: list[Event] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    served_by: str = "a"
    _looks: dict[str, Sent] = field(default_factory=dict)

    @property
    def history(self) -> list[Event]:
        return sorted(map(self._with_page, self.events), key=lambda event: event.at)

    def send(
        self,
        sent_at: float,
        replied_at: float,
        thread: str,
        *answers: Answer,
        intent: Intent | None = Intent.ASK,
        scope: str = "alice",
        run: str = "",
        calls: int | None = None,
        about: tuple[str, ...] = (),
        **reply: object,
    ) -> None:
        """Send something and get this reply. A question is for so many calls, and `about` these invoices."""
        request = f"{thread}:{len(self.events)}"
        looks = intent in {Intent.LOOK, Intent.LAST} and not answers
        sent = Sent(sent_at, request, scope, thread, answers, looks, intent, run or request, "user", calls, about)
        if looks and not {"page", "names"} & reply.keys():
            self._looks[request] = sent
        self.events.append(sent)
        replied = Replied(replied_at, request, replica=self.served_by, first_event_at=(sent_at + replied_at) / 2)
        self.events.append(replace(replied, **reply))  # type: ignore[arg-type]  # fields of Replied

    def _with_page(self, event: Event) -> Event:
        """Let a page that is loaded show all that was asked, and every result that was told, in its thread by then."""
        sent = self._looks.get(event.request) if isinstance(event, Replied) else None
        if sent is None or not isinstance(event, Replied):
            return event
        before = [
            each
            for each in exchanges(self.events)
            if (each.sent.scope, each.sent.thread) == (sent.scope, sent.thread) and each.replied.at < sent.at
        ]
        page = tuple(dict.fromkeys(result for each in before for result in each.replied.results))
        return replace(event, page=page, names=tuple(sorted({name for each in before for name in each.sent.names})))

    def show(self, sent_at: float, replied_at: float, thread: str, *names: str, **fields: object) -> None:
        """Ask for calls that wait for a person."""
        shown = tuple(replace(card(name), **fields) for name in names)  # type: ignore[arg-type]  # fields of Card
        self.send(sent_at, replied_at, thread, is_paused=True, cards=shown, open=names)

    def answer(
        self,
        sent_at: float,
        replied_at: float,
        thread: str,
        *answers: Answer,
        intent: Intent = Intent.ANSWER,
        is_replay: bool = False,
    ) -> None:
        """Get the answer of a run that these decisions ended."""
        told = results_of(answers)
        self.send(sent_at, replied_at, thread, *answers, intent=intent, is_replay=is_replay, results=told, text="done")

    def refuse(
        self,
        sent_at: float,
        replied_at: float,
        thread: str,
        *answers: Answer,
        code: str,
        intent: Intent | None = Intent.ANSWER,
        definite: bool = False,
        scope: str = "alice",
    ) -> None:
        self.send(sent_at, replied_at, thread, *answers, intent=intent, code=code, definite=definite, scope=scope)

    def cut(
        self, sent_at: float, replied_at: float, thread: str, *answers: Answer, intent: Intent = Intent.ANSWER
    ) -> None:
        self.send(sent_at, replied_at, thread, *answers, intent=intent, is_cut=True, replica="", first_event_at=None)

    def happen(self, at: float | None, name: str, **changes: object) -> None:
        """Let the far side count an effect; nobody knows when a refund happened."""
        shown = card(name)
        key = None if shown.kind is EffectKind.UNSAFE else name
        effect = Effect(shown.tool, shown.arguments, key, result(name).content, at)
        self.effects.append(replace(effect, **changes))  # type: ignore[arg-type]  # fields of Effect

    def fail(
        self,
        at: float,
        until: float,
        kind: FaultKind,
        replica: str = "a",
        *,
        step: str = "",
        thread: str = "",
        elsewhere: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Let something fail and be mended; with a step it hit a resume of this thread there."""
        self.events += [
            Fault(at, replica, kind=kind, step=step, thread=thread, elsewhere=elsewhere, is_resume=bool(step)),
            Mended(until, replica, kind),
        ]


def chaos_run() -> Timed:
    """One thread for each thing that may befall an approval, and everything went as promised.

    `moved` is cut and answered on another replica, `doubt` is left begun by a replica that is killed, in `thawed` a
    doubt ends by itself, `late` expires, `two` is decided on two devices, `attacked` by others too.
    """
    run = Timed([Began(0.0, Phase.LOAD)])
    run.show(1.0, 2.0, "moved", "pay-1", "refund-1")
    both = (approval("pay-1"), approval("refund-1"))
    run.cut(3.0, 5.0, "moved", *both)
    run.happen(3.5, "pay-1")
    run.happen(None, "refund-1")
    run.send(4.0, 6.0, "moved", intent=Intent.LOOK, is_paused=True, cards=(card("pay-1"), card("refund-1")))
    run.served_by = "b"
    run.answer(5.5, 8.0, "moved", *both, intent=Intent.AGAIN, is_replay=True)
    run.answer(8.5, 9.0, "moved", *both, intent=Intent.TWICE, is_replay=True)
    run.refuse(9.0, 9.5, "moved", rejection("pay-1"), approval("refund-1"), code=CONFLICT, intent=Intent.CONFLICT)
    run.send(9.5, 9.6, "moved", intent=Intent.LOOK)

    run.show(10.0, 11.0, "doubt", "wire-1")
    run.cut(12.0, 13.0, "doubt", approval("wire-1"))
    run.happen(12.4, "wire-1")
    run.fail(12.5, 16.0, FaultKind.KILL, step="before-settle", thread="doubt")
    run.refuse(14.0, 14.5, "doubt", approval("wire-1"), code=IN_DOUBT, intent=Intent.AGAIN)

    run.show(18.0, 19.0, "thawed", "wire-2", "pay-2")
    held = (approval("wire-2"), approval("pay-2"))
    run.cut(20.0, 28.0, "thawed", *held)
    run.happen(20.5, "pay-2")
    run.fail(21.0, 27.0, FaultKind.FREEZE, "b", step="before-effect", thread="thawed")
    run.served_by = "c"
    run.refuse(25.0, 25.5, "thawed", *held, code=IN_DOUBT, intent=Intent.AGAIN)
    run.happen(27.1, "wire-2")
    run.answer(29.0, 30.0, "thawed", *held, intent=Intent.AGAIN, is_replay=True)

    run.show(15.0, 16.0, "late", "pay-3", expires_at=40.0)
    run.refuse(40.5, 41.0, "late", approval("pay-3"), code=EXPIRED, intent=Intent.LATE, definite=True)

    run.show(31.0, 32.0, "two", "refund-4")
    run.answer(33.0, 36.0, "two", approval("refund-4"))
    run.happen(None, "refund-4")
    run.refuse(33.5, 34.0, "two", rejection("refund-4"), code=CONFLICT, intent=Intent.ELSEWHERE)

    run.show(36.0, 37.0, "attacked", "pay-5")
    run.refuse(37.0, 37.5, "attacked", approval("pay-9"), code=NOT_FOUND, intent=Intent.FORGE)
    run.refuse(37.5, 38.0, "attacked", approval("pay-5"), code=NOT_FOUND, intent=Intent.INTRUDE, scope="mallory")
    run.answer(38.0, 39.0, "attacked", rejection("pay-5"))

    run.events += [Began(50.0, Phase.QUIET), Began(51.0, Phase.LAST_LOOK), Began(60.0, Phase.END)]
    for number, thread in enumerate(("moved", "doubt", "thawed", "late", "two", "attacked")):
        run.send(52.0 + number, 52.5 + number, thread, intent=Intent.LAST)
    return run


def doubts_nearby(answered: int, doubted: int) -> Timed:
    """Let a replica be frozen all the while that pauses come to their end or into doubt there."""
    run = Timed()
    run.fail(0.0, 900.0, FaultKind.FREEZE, "a")
    for number in range(answered + doubted):
        name, thread, at = f"wire-{number}", f"thread-{number}", 10.0 + number
        run.show(at, at + 0.1, thread, name)
        if number < doubted:
            run.refuse(at + 0.2, at + 0.3, thread, approval(name), code=IN_DOUBT)
        else:
            run.happen(at + 0.25, name)
            run.answer(at + 0.2, at + 0.3, thread, approval(name))
    return run
