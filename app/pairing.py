"""Which calls do the answers of a request mean, and what do they decide of them? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from app import lost_record
from app.answers import SPOKEN_ROAD, Entry, decide
from app.errors import Code, Refusal
from app.lifecycle import EXPIRY, UNKNOWN_ARGUMENTS, left_digest
from app.retained import outcome_named, results_kept
from stores.ports import Loaded
from stores.records import Decision, Json, Occurrence, OccurrenceState, Run, Verdict


@dataclass(frozen=True, slots=True)
class Replay:
    """Answer from this retained run; nothing executes.

    Nothing is written either, unless it is no repeat: then this very request left a stuck thread, and this is its end.
    `before` are results that earlier runs kept of other calls that the answers name. `loaded` is the thread it was
    found in, if it has not changed since.
    """

    run: Run
    is_repeat: bool = True
    before: tuple[Json, ...] = ()
    loaded: Loaded | None = field(default=None, compare=False)


def paired(
    loaded: Loaded, entries: Sequence[Entry], retained: Sequence[Run]
) -> list[tuple[Entry, Occurrence]] | Replay | Refusal:
    """Pair each answer with its open occurrence; answers that repeat a finished run's are a duplicate or a conflict."""
    open_ones: list[tuple[Entry, Occurrence]] = []
    known = loaded.known
    for entry in entries:
        occurrence = loaded.record.find(entry.name)
        if occurrence is not None:
            open_ones.append((entry, occurrence))
            continue
        namesakes = [each.interrupt_id for each in loaded.record.occurrences if entry.name in each.aliases]
        if namesakes:
            return _ambiguous(entry, namesakes)
        known = next((each for each in retained if outcome_named(each, entry.name)), loaded.known)
        refusal = not_the_recorded(replace(loaded, known=known), entry)
        if refusal is not None:
            return refusal
    by_alias = [(entry, each) for entry, each in open_ones if entry.name != each.interrupt_id]
    for entry, occurrence in by_alias:
        # Providers may number their calls anew in each turn: a late answer must not decide a later call.
        if len(open_ones) < len(entries) or outcome_named(loaded.known, entry.name):
            return _ambiguous(entry, [occurrence.interrupt_id])
    if open_ones or known is None:
        return open_ones
    others = [each for each in (loaded.known, *retained) if each is not None and each.run_id != known.run_id]
    return Replay(known, before=results_kept(others, [each.name for each in entries]), loaded=loaded)


def decisions_of(answered: Sequence[tuple[Entry, Occurrence]]) -> dict[str, Decision] | Refusal:
    """Validate the answers. One interrupt may be answered once per road, and all roads must agree."""
    decisions: dict[str, Decision] = {}
    roads: set[tuple[str, str]] = set()
    for entry, occurrence in answered:
        decision = _decision(entry, occurrence)
        if isinstance(decision, Refusal):
            return decision
        if (entry.road, occurrence.interrupt_id) in roads:
            return _twice(entry)
        roads.add((entry.road, occurrence.interrupt_id))
        earlier = decisions.setdefault(occurrence.interrupt_id, decision)
        if earlier.identity != decision.identity:
            return Refusal(Code.RESUME_INVALID, f"The request contradicts itself about interruptId '{entry.name}'.")
        if occurrence.decision == EXPIRY:
            return expired([occurrence.interrupt_id])
        if occurrence.decision is not None and not _is_same(occurrence.decision, decision):
            if decision.verdict is Verdict.CANCEL and occurrence.state is OccurrenceState.INDETERMINATE:
                continue  # Who wants to leave is told why that can not be: the doubt, each time it is said.
            return _conflict(entry, occurrence.interrupt_id)
    return decisions


def not_the_recorded(loaded: Loaded, entry: Entry) -> Refusal | None:
    """Refuse an answer that is not the one which `loaded.known`, a run that is known, has recorded."""
    known = loaded.known
    outcome = outcome_named(known, entry.name)
    if outcome is None:
        return lost_record.refusal_of(loaded, entry.name) or _not_found(entry)
    if outcome.state is OccurrenceState.EXPIRED:
        message = f"The approval '{entry.name}' expired before it was answered; ask again."
        return Refusal(Code.RESUME_EXPIRED, message, (outcome.interrupt_id,))
    if known is not None and entry.status == "cancelled" and known.input_digest == left_digest(known.outcomes):
        return None
    decision = decide(entry, tool=outcome.tool, arguments=outcome.arguments, takes_rules=True)
    if isinstance(decision, Refusal):
        return decision
    if outcome.decision is None or outcome.decision.identity != decision.identity:
        return _conflict(entry, outcome.interrupt_id)
    return None


def expired(names: Sequence[str]) -> Refusal:
    """Refuse because the time of these calls was over before they were answered."""
    ids = " and ".join(f"'{name}'" for name in names)
    message = f"The approval {ids} expired before it was answered; leave it out, or ask again if nothing else is open."
    return Refusal(Code.RESUME_EXPIRED, message, tuple(names))


def is_known_by_digest(decision: Decision) -> bool:
    """Say whether an approval is one of which only the ledger has kept something: its digest."""
    return decision.verdict is Verdict.APPROVE and decision.arguments == UNKNOWN_ARGUMENTS


def _ambiguous(entry: Entry, names: Sequence[str]) -> Refusal:
    message = (
        f"'{entry.name}' does not identify exactly one retained pending local occurrence; "
        "answer with the interrupt's own id."
    )
    return Refusal(Code.RESUME_INVALID, message, tuple(names))


def _not_found(entry: Entry) -> Refusal:
    message = f"No pending approval interrupt found for resume interruptId '{entry.name}'."
    return Refusal(Code.RESUME_NOT_FOUND, message)


def _decision(entry: Entry, occurrence: Occurrence) -> Decision | Refusal:
    takes_rules = occurrence.tool_digest is not None
    decision = decide(entry, tool=occurrence.tool, arguments=occurrence.arguments, takes_rules=takes_rules)
    if isinstance(decision, Refusal) or occurrence.hosted_by is None or decision.verdict is not Verdict.APPROVE:
        return decision
    if decision.arguments != occurrence.arguments:
        message = f"Hosted approval resume for interruptId '{entry.name}' does not support edited arguments."
        return Refusal(Code.RESUME_INVALID_RESPONSE, message)
    return decision


def _twice(entry: Entry) -> Refusal:
    if entry.road == SPOKEN_ROAD:
        return Refusal(Code.RESUME_INVALID, f"A tool message repeats call_id '{entry.name}'; answer each call once.")
    return Refusal(Code.RESUME_INVALID, f"The resume answers interruptId '{entry.name}' twice.")


def _is_same(recorded: Decision, given: Decision) -> bool:
    """Compare two answers. Where only the ledger kept one, nobody knows what rule came with it."""
    is_equal = recorded.identity == given.identity
    return is_equal or (is_known_by_digest(recorded) and recorded.digest == given.digest)


def _conflict(entry: Entry, interrupt_id: str) -> Refusal:
    message = f"Another decision is recorded for interruptId '{entry.name}'. Reload the thread."
    return Refusal(Code.RESUME_CONFLICT, message, (interrupt_id,))
