"""The numbers of a chaos run, counted from its history and the bank: what the report shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from loadtests.cases import Case, cases
from loadtests.expected import endings
from loadtests.history import Began, Effect, Event, Exchange, Fault, FaultKind, Phase, exchanges
from loadtests.resumed import Resumed, resumed
from loadtests.threads import EXPIRED, IN_DOUBT
from stores.records import EffectKind, Verdict


@dataclass(frozen=True, slots=True)
class OfKind:
    """What became of the approvals of one kind of effect, each counted once."""

    approvals: int
    """Shown to a client."""
    approved: int
    """Approved by somebody, whatever came of that."""
    answered: int
    """Carried out, and a client was told so."""
    effects: int
    """What the bank counted."""
    in_doubt: int
    """Reported in doubt, and not answered until the end."""
    waiting: int
    """Not in doubt themselves: held back until the end by another call of their pause that is."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of one run. Times are in seconds; lists of times are in the order in which they were measured."""

    load_seconds: float
    """From the first thing sent until the quiet phase began, or, without one, until the last event."""
    requests: int
    """POSTs."""
    outcomes: dict[str, int]
    """Replies: `ok`, `fail` (it definitely did not happen), `info` (it may have), and `cut` (no end came)."""
    codes: dict[str, int]
    """Replies with a code, by it; refusals by HTTP alone as `HTTP 503`."""
    intents: dict[str, int]
    """POSTs, by why they were sent."""
    answered: dict[str, int]
    """Those of them that came to an end, or to a code that is the answer to such a POST; by why they were sent."""
    approvals: int
    """Cards shown, each once."""
    ended: int
    """Approvals whose end a client was told: the sum of `verdicts`."""
    verdicts: dict[str, int]
    """Approvals by how they ended: `approve`, `reject`, `cancel`, `expired`."""
    kinds: dict[str, OfKind]
    """By kind of effect; only kinds that occurred."""
    in_doubt: int
    waiting: int
    """Both as in `OfKind`, over all kinds."""
    approvals_per_minute: float
    """Approvals that ended while there was load."""
    resumes: int
    """Pauses that were answered or came into doubt, each once."""
    live: int
    """Those whose end was told by the run that carried it out, and not by a replay or a doubt alone."""
    crossed: int
    """Live ones that another replica ended than the one that had shown their cards."""
    retold: int
    """Others whose end another replica told: who had carried it out, if anybody did, is not known."""
    replays: int
    """Replies that were the recorded end of an earlier run."""
    faults: dict[str, int]
    """By kind."""
    hits: int
    """Kills that hit a resume in progress."""
    first_event_seconds: tuple[float, ...]
    """From the POST to the first event of its stream, for every reply that had one."""
    interrupt_seconds: tuple[float, ...]
    """From the POST to the end of a run that paused."""
    finish_seconds: tuple[float, ...]
    """From the POST to the end of a run that carried something out; replays and looks are not among them."""
    recovery_seconds: tuple[float, ...]
    """For each kill or freeze that hit a resume: until a client was first told that this very pause had ended."""

    @property
    def crossed_share(self) -> float:
        """The part of live resumes that crossed replicas, from 0 to 1; 0 without any."""
        return self.crossed / self.live if self.live else 0.0


def count(history: Sequence[Event], effects: Sequence[Effect]) -> Counts:
    """Count them."""
    all_of_them = list(exchanges(history))
    found, unknown = cases(history, effects)
    resumes = resumed(found)
    faults = [event for event in history if isinstance(event, Fault)]
    ends = {case.name: end for case in found if (end := _end(case)) is not None}
    begins_at, quiet_at = _load(history)
    kinds = _kinds(found, unknown)
    return Counts(
        load_seconds=quiet_at - begins_at,
        requests=len(all_of_them),
        outcomes=dict(Counter("cut" if each.replied.is_cut else each.replied.outcome for each in all_of_them)),
        codes=dict(Counter(each.replied.code for each in all_of_them if each.replied.code is not None)),
        intents=dict(Counter(each.sent.intent.value for each in all_of_them if each.sent.intent is not None)),
        answered=dict(Counter(_answered(all_of_them))),
        approvals=len(found),
        ended=len(ends),
        verdicts=dict(Counter(how for how, _ in ends.values())),
        kinds=kinds,
        in_doubt=sum(each.in_doubt for each in kinds.values()),
        waiting=sum(each.waiting for each in kinds.values()),
        approvals_per_minute=_per_minute((at for _, at in ends.values()), begins_at, quiet_at),
        resumes=len(resumes),
        live=sum(each.is_live for each in resumes),
        crossed=sum(each.is_crossed for each in resumes),
        retold=sum(each.is_retold for each in resumes),
        replays=sum(each.replied.is_replay for each in all_of_them),
        faults=dict(Counter(each.kind.value for each in faults if each.kind is not None)),
        hits=sum(each.kind is FaultKind.KILL and each.is_resume for each in faults),
        first_event_seconds=tuple(
            each.replied.first_event_at - each.sent.at
            for each in all_of_them
            if each.replied.first_event_at is not None
        ),
        interrupt_seconds=tuple(_seconds(all_of_them, is_paused=True)),
        finish_seconds=tuple(_seconds(all_of_them, is_paused=False)),
        recovery_seconds=tuple(_recovery(faults, resumes)),
    )


def _end(case: Case) -> tuple[str, float] | None:
    """Return how an approval ended, and when a client was first told; None: nobody was."""
    ends = [(each.replied.at, answer.verdict.value) for answer, each in case.taken]
    ends += [(each.replied.at, "expired") for _, each in case.answered if each.replied.code == EXPIRED]
    at, how = min(ends, default=(0.0, ""))
    return (how, at) if how else None


def _answered(all_of_them: Iterable[Exchange]) -> Iterator[str]:
    for each in all_of_them:
        intent, reply = each.sent.intent, each.replied
        if intent is not None and (reply.is_finished or (not reply.is_cut and reply.code in endings(intent))):
            yield intent.value


def _load(history: Sequence[Event]) -> tuple[float, float]:
    """Return when there was load, from and until."""
    if not history:
        return 0.0, 0.0
    phases = {event.phase: event.at for event in history if isinstance(event, Began)}
    return phases.get(Phase.LOAD, history[0].at), phases.get(Phase.QUIET, history[-1].at)


def _per_minute(times: Iterable[float], begins_at: float, ends_at: float) -> float:
    seconds = ends_at - begins_at
    return 60.0 * sum(at <= ends_at for at in times) / seconds if seconds > 0 else 0.0


def _kinds(found: Sequence[Case], unknown: Sequence[Effect]) -> dict[str, OfKind]:
    of_tools = {case.card.tool: case.card.kind for case in found}
    strays = Counter(of_tools[effect.tool] for effect in unknown if effect.tool in of_tools)
    return {
        kind.value: _of_kind([case for case in found if case.card.kind is kind], strays[kind])
        for kind in EffectKind
        if any(case.card.kind is kind for case in found)
    }


def _of_kind(found: Sequence[Case], strays: int) -> OfKind:
    doubted = [case for case in found if _is_doubted(case)]
    in_doubt = sum(case.card.kind is EffectKind.UNSAFE and bool(case.approvals) for case in doubted)
    return OfKind(
        approvals=len(found),
        approved=sum(bool(case.approvals) for case in found),
        answered=sum(any(answer.verdict is Verdict.APPROVE for answer, _ in case.taken) for case in found),
        effects=sum(len(case.effects) for case in found) + strays,
        in_doubt=in_doubt,
        waiting=len(doubted) - in_doubt,
    )


def _is_doubted(case: Case) -> bool:
    """Whether its pause was reported in doubt and came to no end that anybody was told."""
    return not case.taken and any(each.replied.code == IN_DOUBT for _, each in case.answered)


def _seconds(all_of_them: Iterable[Exchange], *, is_paused: bool) -> Iterator[float]:
    for each in all_of_them:
        reply = each.replied
        is_run = reply.is_finished and not (reply.is_replay or each.sent.looks)
        if is_run and reply.is_paused is is_paused:
            yield reply.at - each.sent.at


def _recovery(faults: Iterable[Fault], resumes: Sequence[Resumed]) -> Iterator[float]:
    threads: dict[str, list[Resumed]] = {}
    for each in resumes:
        threads.setdefault(each.thread, []).append(each)
    for fault in faults:
        if fault.is_resume and fault.kind in {FaultKind.KILL, FaultKind.FREEZE}:
            hit = [
                each.ended_at for each in threads.get(fault.thread, ()) if each.answered_at <= fault.at < each.ended_at
            ]
            if hit:
                yield min(hit) - fault.at
