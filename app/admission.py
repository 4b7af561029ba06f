"""May this run go on? Pure: (what is stored, the request) -> a grant, a replay, or a refusal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from app import lost_record
from app.answers import SPOKEN_ROAD, Entry, decide
from app.errors import Code, Refusal
from app.gated_tools import GatedTool, name_of, unfit
from app.lifecycle import (
    EXPIRY,
    RETRY_SECONDS,
    UNKNOWN_ARGUMENTS,
    Grant,
    in_state,
    indeterminate,
    is_live,
    left_digest,
    not_in_state,
)
from app.retained import outcome_named, results_kept
from app.sizes import too_full
from stores.ports import Loaded
from stores.records import Decision, Json, Occurrence, OccurrenceState, Record, Run, RunState, Verdict


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


def start(
    loaded: Loaded, *, run_id: str, input_digest: str, dead: Collection[str], snapshot_bytes_max: int
) -> Grant | Replay | Refusal:
    """Decide about a run that answers nothing, where `open` did not take the claim by itself."""
    known, record = loaded.known, loaded.record
    if known is not None and known.input_digest != input_digest:
        return Refusal(Code.RUN_ID_CONFLICT, f"Run '{run_id}' is recorded with other input; use a new run id.")
    if known is not None and known.state is RunState.FINISHED:
        return Replay(known, loaded=loaded)
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
    loaded: Loaded,
    entries: Sequence[Entry],
    *,
    run_id: str,
    tools: Mapping[str, GatedTool],
    dead: Collection[str],
    retained: Sequence[Run] = (),
) -> Grant | Replay | Refusal:
    """Decide about a run that answers interrupts. `tools` are the agent's own gated tools in this version.

    A call whose time was over before anybody answered it is left out of the answers, and ends with them. Answers that
    repeat those of finished runs may stand beside open ones: `retained` are such runs besides `loaded.known`.
    """
    answered = _find(loaded, entries, retained)
    if isinstance(answered, Refusal | Replay):
        return answered
    decisions = _decisions(answered)
    if isinstance(decisions, Refusal):
        return decisions
    refusal = _not_now(loaded, decisions, dead=dead)
    decisions = {each.interrupt_id: EXPIRY for each in in_state(loaded.record, OccurrenceState.PENDING)} | decisions
    refusal = refusal or _unfit(loaded, decisions, tools)
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
    tools: Mapping[str, GatedTool],
    dead: Collection[str],
    retries_max: int,
    lost_effects: Collection[str],
) -> bool:
    """Say whether the answers cancel all of a decided thread that can not go on by itself any more.

    Only then may a cancel undo a decision: a part of the pause or of the ledger is gone, or an approved tool, or the
    reconciler has given up. A tool that a context provider offered may be gone once a run with it has failed.
    """
    record = loaded.record
    found = [record.find(each.name) for each in entries if each.status == "cancelled"]
    cancelled = {each.interrupt_id for each in found if each is not None}
    needed = {each.interrupt_id for each in record.occurrences if each.decision != EXPIRY}
    is_whole = len(cancelled) == len(entries) > 0 and needed <= cancelled
    if not is_whole or is_live(record.claim, now=loaded.now, dead=dead):
        return False
    if in_state(record, OccurrenceState.INDETERMINATE) or not in_state(record, OccurrenceState.DECIDED):
        return False
    has_failed = record.retries > (0 if any(each.provided for each in record.occurrences) else retries_max)
    return bool(lost_effects) or has_failed or _unfit(loaded, {}, tools) is not None


def effect_lost(lost_effects: Collection[str]) -> Refusal:
    """Refuse because a decided call has no row in the ledger: nobody can tell any more whether it ran."""
    message = "The pause can not be resumed: its effect row is missing. Cancel it to go on."
    return Refusal(Code.RESUME_STALE, message, tuple(lost_effects))


def sent_again(
    loaded: Loaded, entries: Sequence[Entry], *, tools: Mapping[str, GatedTool], dead: Collection[str]
) -> Grant | Refusal:
    """Decide about a request whose run, `loaded.known`, has gone on by standing rules since: it continues that run.

    `entries` are the answers the run had brought, which are at their end.
    """
    for entry in entries:
        refusal = _not_the_recorded(loaded, entry)
        if refusal is not None:
            return refusal
    return _not_now(loaded, {}, dead=dead) or _unfit(loaded, {}, tools) or Grant(loaded.record.occurrences)


def take_over(loaded: Loaded, *, tools: Mapping[str, GatedTool], dead: Collection[str]) -> Grant | None:
    """Decide whether a thread's recorded decisions may be carried out now, without a client."""
    record = loaded.record
    is_decided = bool(record.occurrences) and not not_in_state(record, OccurrenceState.DECIDED)
    if not is_decided or is_live(record.claim, now=loaded.now, dead=dead) or stale_part(loaded):
        return None
    return None if _unfit(loaded, {}, tools) else Grant(record.occurrences)


def _find(
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
        refusal = _not_the_recorded(replace(loaded, known=known), entry)
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


def _ambiguous(entry: Entry, names: Sequence[str]) -> Refusal:
    message = (
        f"'{entry.name}' does not identify exactly one retained pending local occurrence; "
        "answer with the interrupt's own id."
    )
    return Refusal(Code.RESUME_INVALID, message, tuple(names))


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
    decision = decide(entry, tool=outcome.tool, arguments=outcome.arguments, takes_rules=True)
    if isinstance(decision, Refusal):
        return decision
    if outcome.decision is None or outcome.decision.identity != decision.identity:
        return _conflict(entry, outcome.interrupt_id)
    return None


def _not_found(entry: Entry) -> Refusal:
    message = f"No pending approval interrupt found for resume interruptId '{entry.name}'."
    return Refusal(Code.RESUME_NOT_FOUND, message)


def _decisions(answered: Sequence[tuple[Entry, Occurrence]]) -> dict[str, Decision] | Refusal:
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
            return _expired([occurrence.interrupt_id])
        if occurrence.decision is not None and not _is_same(occurrence.decision, decision):
            if decision.verdict is Verdict.CANCEL and occurrence.state is OccurrenceState.INDETERMINATE:
                continue  # Who wants to leave is told why that can not be: the doubt, each time it is said.
            return _conflict(entry, occurrence.interrupt_id)
    return decisions


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


def _not_now(loaded: Loaded, decisions: Mapping[str, Decision], *, dead: Collection[str]) -> Refusal | None:
    """Refuse what the thread's state forbids: doubt, a live claim, expiry, an open interrupt left out."""
    record = loaded.record
    in_doubt = in_state(record, OccurrenceState.INDETERMINATE)
    if in_doubt:
        return indeterminate(in_doubt)
    if is_live(record.claim, now=loaded.now, dead=dead):
        message = "A replica that is presumed alive is carrying out this very resume; send it again to get its answer."
        return Refusal(Code.RESUME_IN_PROGRESS, message, tuple(decisions), retry_after_seconds=RETRY_SECONDS)
    pending = in_state(record, OccurrenceState.PENDING)
    expired = [each.interrupt_id for each in pending if each.expires_at <= loaded.now]
    late = [name for name in expired if name in decisions] or (expired if len(expired) == len(pending) else [])
    if late:
        return _expired(late)
    missing = [each.interrupt_id for each in pending if each.interrupt_id not in {*decisions, *expired}]
    return _missing(missing) if missing else None


def _unfit(loaded: Loaded, decisions: Mapping[str, Decision], tools: Mapping[str, GatedTool]) -> Refusal | None:
    """Refuse what can not be carried out: a pause that lost a part, an approved tool that is gone or changed."""
    decided = [_decided(each, decisions) for each in loaded.record.occurrences]
    if all(each.decision and each.decision.verdict in (Verdict.CANCEL, Verdict.EXPIRE) for each in decided):
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
    for asked, each in zip(loaded.record.occurrences, decided, strict=True):
        is_approved = each.decision is not None and each.decision.verdict is Verdict.APPROVE
        if each.decision is None or not is_approved or _is_seen_later(asked, tools):
            continue
        refusal = unfit(asked, each.decision, tools.get(name_of(asked)))
        if refusal is not None:
            return replace(refusal, interrupts=names)
    return None


def _is_seen_later(asked: Occurrence, tools: Mapping[str, GatedTool]) -> bool:
    """Say whether only the run itself can look at a tool: context providers offer it anew, or the model's provider."""
    return asked.provided and name_of(asked) not in tools


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


def _is_same(recorded: Decision, given: Decision) -> bool:
    """Compare two answers. Where only the ledger kept one, nobody knows what rule came with it."""
    is_equal = recorded.identity == given.identity
    return is_equal or (_is_known_by_digest(recorded) and recorded.digest == given.digest)


def _is_known_by_digest(decision: Decision) -> bool:
    return decision.verdict is Verdict.APPROVE and decision.arguments == UNKNOWN_ARGUMENTS


def _busy(record: Record, run_id: str) -> Refusal:
    names = tuple(each.interrupt_id for each in record.occurrences)
    if record.claim is not None and record.claim.run_id == run_id:
        message = "A replica that is presumed alive is carrying out this very run; send it again to get its answer."
        return Refusal(Code.RUN_IN_PROGRESS, message, names, RETRY_SECONDS)
    return Refusal(Code.THREAD_BUSY, "Another run holds this thread; retry later.", names, RETRY_SECONDS)


def _missing(names: Sequence[str]) -> Refusal:
    ids = ", ".join(f"'{name}'" for name in names)
    plural = "s" if len(names) > 1 else ""
    return Refusal(Code.RESUME_MISSING_INTERRUPT, f"Resume omitted pending interruptId{plural} {ids}.", tuple(names))


def _expired(names: Sequence[str]) -> Refusal:
    ids = " and ".join(f"'{name}'" for name in names)
    message = f"The approval {ids} expired before it was answered; leave it out, or ask again if nothing else is open."
    return Refusal(Code.RESUME_EXPIRED, message, tuple(names))


def _conflict(entry: Entry, interrupt_id: str) -> Refusal:
    message = f"Another decision is recorded for interruptId '{entry.name}'. Reload the thread."
    return Refusal(Code.RESUME_CONFLICT, message, (interrupt_id,))
