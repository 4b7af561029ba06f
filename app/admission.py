"""May this run go on? Pure: (what is stored, the request) -> a grant, a replay, or a refusal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from app import lost_record
from app.answers import Entry, decide
from app.errors import Code, Refusal
from app.lifecycle import (
    RETRY_SECONDS,
    UNKNOWN_ARGUMENTS,
    Grant,
    in_state,
    indeterminate,
    is_live,
    left_digest,
    not_in_state,
)
from app.sizes import too_full
from stores.ports import Loaded
from stores.records import Decision, EffectKind, Occurrence, OccurrenceState, Outcome, Record, Run, RunState, Verdict


@dataclass(frozen=True, slots=True)
class Replay:
    """Answer from this retained run; nothing executes.

    Nothing is written either, unless it is no repeat: then this very request left a stuck thread, and this is its end.
    """

    run: Run
    is_repeat: bool = True


def start(
    loaded: Loaded, *, run_id: str, input_digest: str, dead: Collection[str], snapshot_bytes_max: int
) -> Grant | Replay | Refusal:
    """Decide about a run that answers nothing, where `open` did not take the claim by itself."""
    known, record = loaded.known, loaded.record
    if known is not None and known.input_digest != input_digest:
        return Refusal(Code.RUN_ID_CONFLICT, f"Run '{run_id}' is recorded with other input; use a new run id.")
    if known is not None and known.state is RunState.FINISHED:
        return Replay(known)
    if is_live(record.claim, now=loaded.now, dead=dead):
        return _busy(record, run_id)
    in_doubt = in_state(record, OccurrenceState.INDETERMINATE)
    if in_doubt:
        return indeterminate(in_doubt)
    if record.occurrences:
        names = tuple(occurrence.interrupt_id for occurrence in record.occurrences)
        return Refusal(
            Code.RESUME_REQUIRED, "Approvals are open in this thread; answer every interruptId first.", names
        )
    return unstartable(loaded, snapshot_bytes_max) or Grant(())


def unstartable(loaded: Loaded, snapshot_bytes_max: int) -> Refusal | None:
    """Refuse a run that answers nothing in a thread in which nothing is open, and which can not go on all the same."""
    return lost_record.refusal(loaded) or too_full(loaded, snapshot_bytes_max)


def resume(
    loaded: Loaded, entries: Sequence[Entry], *, run_id: str, tools: Mapping[str, EffectKind], dead: Collection[str]
) -> Grant | Replay | Refusal:
    """Decide about a run that answers interrupts. `tools` are the gated tools of this version, with their kinds."""
    answered = _find(loaded, entries)
    if isinstance(answered, Refusal | Replay):
        return answered
    decisions = _decisions(answered)
    if isinstance(decisions, Refusal):
        return decisions
    refusal = _not_now(loaded, decisions, dead=dead) or _unfit(loaded, decisions, tools)
    grant = Grant(tuple(_decided(each, decisions) for each in loaded.record.occurrences))
    return refusal or other_run(loaded.known, run_id, grant) or grant


def other_run(known: Run | None, run_id: str, grant: Grant) -> Refusal | None:
    """Refuse a run id that is recorded with other input."""
    if known is None or known.run_id != run_id or known.input_digest == grant.input_digest:
        return None
    return Refusal(Code.RUN_ID_CONFLICT, f"Run '{run_id}' is recorded with other input; use a new run id.")


def leaves_stuck(
    loaded: Loaded,
    entries: Sequence[Entry],
    *,
    tools: Mapping[str, EffectKind],
    dead: Collection[str],
    retries_max: int,
    lost_effects: Collection[str],
) -> bool:
    """Say whether the answers cancel all of a decided thread that can not go on by itself any more.

    Only then may a cancel undo a decision: a part of the pause or of the ledger is gone, or an approved tool, or the
    reconciler has given up.
    """
    record = loaded.record
    found = [record.find(each.name) for each in entries if each.status == "cancelled"]
    cancelled = {each.interrupt_id for each in found if each is not None}
    is_whole = len(cancelled) == len(entries) == len(record.occurrences) > 0
    if not is_whole or is_live(record.claim, now=loaded.now, dead=dead):
        return False
    if in_state(record, OccurrenceState.INDETERMINATE) or not in_state(record, OccurrenceState.DECIDED):
        return False
    return bool(lost_effects) or record.retries > retries_max or _unfit(loaded, {}, tools) is not None


def effect_lost(lost_effects: Collection[str]) -> Refusal:
    """Refuse because a decided call has no row in the ledger: nobody can tell any more whether it ran."""
    message = "The pause can not be resumed: its effect row is missing. Cancel it to go on."
    return Refusal(Code.RESUME_STALE, message, tuple(lost_effects))


def take_over(loaded: Loaded, *, tools: Mapping[str, EffectKind], dead: Collection[str]) -> Grant | None:
    """Decide whether a thread's recorded decisions may be carried out now, without a client."""
    record = loaded.record
    is_decided = bool(record.occurrences) and not not_in_state(record, OccurrenceState.DECIDED)
    if not is_decided or is_live(record.claim, now=loaded.now, dead=dead) or stale_part(loaded):
        return None
    return None if _unfit(loaded, {}, tools) else Grant(record.occurrences)


def _find(loaded: Loaded, entries: Sequence[Entry]) -> list[tuple[Entry, Occurrence]] | Replay | Refusal:
    """Pair each answer with its open occurrence; answers that repeat a finished run's are a duplicate or a conflict."""
    open_ones: list[tuple[Entry, Occurrence]] = []
    for entry in entries:
        occurrence = loaded.record.find(entry.name)
        if occurrence is not None:
            open_ones.append((entry, occurrence))
            continue
        refusal = _not_the_recorded(loaded, entry)
        if refusal is not None:
            return refusal
    by_alias = [(entry, each) for entry, each in open_ones if entry.name != each.interrupt_id]
    for entry, occurrence in by_alias:
        # Providers may number their calls anew in each turn: a late answer must not decide a later call.
        if len(open_ones) < len(entries) or outcome_named(loaded.known, entry.name):
            message = f"'{entry.name}' names more than one call of this thread; answer with the interrupt's own id."
            return Refusal(Code.RESUME_INVALID, message, (occurrence.interrupt_id,))
    if open_ones or loaded.known is None:
        return open_ones
    return Replay(loaded.known)


def _not_the_recorded(loaded: Loaded, entry: Entry) -> Refusal | None:
    known = loaded.known
    outcome = outcome_named(known, entry.name)
    if outcome is None:
        return lost_record.refusal_of(loaded, entry.name) or _not_found(entry)
    if outcome.state is OccurrenceState.EXPIRED:
        message = f"The approval '{entry.name}' expired before it was answered; ask again."
        return Refusal(Code.RESUME_EXPIRED, message, (outcome.interrupt_id,))
    if known is not None and entry.status == "cancelled" and known.input_digest == left_digest(known.outcomes):
        return None
    decision = decide(entry, tool=outcome.tool, arguments=outcome.arguments)
    if isinstance(decision, Refusal):
        return decision
    if outcome.decision is None or outcome.decision.digest != decision.digest:
        return _conflict(entry, outcome.interrupt_id)
    return None


def _not_found(entry: Entry) -> Refusal:
    message = f"No pending approval interrupt found for resume interruptId '{entry.name}'."
    return Refusal(Code.RESUME_NOT_FOUND, message)


def outcome_named(known: Run | None, name: str) -> Outcome | None:
    """Return the outcome of a run that `name` points to."""
    outcomes = known.outcomes if known else ()
    return next((each for each in outcomes if name in (each.interrupt_id, *each.aliases)), None)


def _decisions(answered: Sequence[tuple[Entry, Occurrence]]) -> dict[str, Decision] | Refusal:
    """Validate the answers. One interrupt may be answered once per road, and all roads must agree."""
    decisions: dict[str, Decision] = {}
    roads: set[tuple[str, str]] = set()
    for entry, occurrence in answered:
        decision = decide(entry, tool=occurrence.tool, arguments=occurrence.arguments)
        if isinstance(decision, Refusal):
            return decision
        if (entry.road, occurrence.interrupt_id) in roads:
            return Refusal(Code.RESUME_INVALID, f"The resume answers interruptId '{entry.name}' twice.")
        roads.add((entry.road, occurrence.interrupt_id))
        earlier = decisions.setdefault(occurrence.interrupt_id, decision)
        if earlier.digest != decision.digest:
            return Refusal(Code.RESUME_INVALID, f"The request contradicts itself about interruptId '{entry.name}'.")
        if occurrence.decision is not None and occurrence.decision.digest != decision.digest:
            return _conflict(entry, occurrence.interrupt_id)
    return decisions


def _not_now(loaded: Loaded, decisions: Mapping[str, Decision], *, dead: Collection[str]) -> Refusal | None:
    """Refuse what the thread's state forbids: doubt, a live claim, expiry, an open interrupt left out."""
    record = loaded.record
    in_doubt = in_state(record, OccurrenceState.INDETERMINATE)
    if in_doubt:
        return indeterminate(in_doubt)
    if is_live(record.claim, now=loaded.now, dead=dead):
        message = "A replica that is presumed alive is carrying out this very resume; send it again to get its answer."
        return Refusal(Code.RESUME_IN_PROGRESS, message, tuple(decisions), retry_after_seconds=RETRY_SECONDS)
    for occurrence in in_state(record, OccurrenceState.PENDING):
        name = occurrence.interrupt_id
        if occurrence.expires_at <= loaded.now:
            return Refusal(Code.RESUME_EXPIRED, f"The approval '{name}' expired before it was answered.", (name,))
        if name not in decisions:
            return Refusal(Code.RESUME_MISSING_INTERRUPT, f"Resume omitted pending interruptId '{name}'.", (name,))
    return None


def _unfit(loaded: Loaded, decisions: Mapping[str, Decision], tools: Mapping[str, EffectKind]) -> Refusal | None:
    """Refuse what can not be carried out: a pause that lost a part, an approved tool that is gone or changed."""
    decided = [_decided(each, decisions) for each in loaded.record.occurrences]
    if all(each.decision and each.decision.verdict is Verdict.CANCEL for each in decided):
        return None
    names = tuple(each.interrupt_id for each in decided)
    part = stale_part(loaded)
    if part is not None:
        message = (
            f"The pause can not be resumed: its {part} is missing or belongs to another pause. Cancel it to go on."
        )
        return Refusal(Code.RESUME_STALE, message, names)
    if any(each.decision and _is_known_by_digest(each.decision) for each in decided):
        message = "The arguments that were approved are lost; send the same answer again, or cancel it to go on."
        return Refusal(Code.RESUME_STALE, message, names)
    for each in decided:
        if each.decision and each.decision.verdict is Verdict.APPROVE and tools.get(each.tool) is not each.kind:
            message = f"Approved tool '{each.tool}' is not available as it was approved; retry the approval later."
            return Refusal(Code.TOOL_UNAVAILABLE, message, names)
    return None


def stale_part(loaded: Loaded) -> str | None:
    """Name the part of a pause that does not carry the record's `pause_id`, if there is one."""
    pause_id = loaded.record.pause_id
    if pause_id is None:
        return "approval record"
    if loaded.snapshot is None or loaded.snapshot.pause_id != pause_id:
        return "snapshot"
    if loaded.bag is None or loaded.bag.pause_id != pause_id:
        return "tool_approval bag"
    return None


def _decided(occurrence: Occurrence, decisions: Mapping[str, Decision]) -> Occurrence:
    decision = occurrence.decision
    if decision is None or _is_known_by_digest(decision):
        decision = decisions.get(occurrence.interrupt_id) or decision
    return replace(occurrence, decision=decision, state=OccurrenceState.DECIDED)


def _is_known_by_digest(decision: Decision) -> bool:
    return decision.verdict is Verdict.APPROVE and decision.arguments == UNKNOWN_ARGUMENTS


def _busy(record: Record, run_id: str) -> Refusal:
    names = tuple(each.interrupt_id for each in record.occurrences)
    if record.claim is not None and record.claim.run_id == run_id:
        message = "A replica that is presumed alive is carrying out this very run; send it again to get its answer."
        return Refusal(Code.RUN_IN_PROGRESS, message, names, RETRY_SECONDS)
    return Refusal(Code.THREAD_BUSY, "Another run holds this thread; retry later.", names, RETRY_SECONDS)


def _conflict(entry: Entry, interrupt_id: str) -> Refusal:
    message = f"Another decision is recorded for interruptId '{entry.name}'. Reload the thread."
    return Refusal(Code.RESUME_CONFLICT, message, (interrupt_id,))
