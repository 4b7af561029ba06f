"""May this run go on? Pure: (what is stored, the request) -> a grant, a replay, or a refusal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from app import lost_record
from app.answers import Entry
from app.errors import Code, Refusal
from app.gated_tools import GatedTool, name_of, unfit
from app.lifecycle import (
    EXPIRY,
    RETRY_SECONDS,
    Grant,
    in_state,
    indeterminate,
    is_live,
    not_in_state,
)
from app.pairing import Replay, decisions_of, expired, is_known_by_digest, not_the_recorded, paired
from app.sizes import too_full
from stores.ports import Loaded
from stores.records import Decision, Occurrence, OccurrenceState, Record, Run, RunState, Verdict


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
    answered = paired(loaded, entries, retained)
    if isinstance(answered, Refusal | Replay):
        return answered
    decisions = decisions_of(answered)
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
        refusal = not_the_recorded(loaded, entry)
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
    over = [each.interrupt_id for each in pending if each.expires_at <= loaded.now]
    late = [name for name in over if name in decisions] or (over if len(over) == len(pending) else [])
    if late:
        return expired(late)
    missing = [each.interrupt_id for each in pending if each.interrupt_id not in {*decisions, *over}]
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
    if any(each.decision and is_known_by_digest(each.decision) for each in decided):
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
    if decision is None or is_known_by_digest(decision):
        decision = decisions.get(occurrence.interrupt_id) or decision
    return replace(occurrence, decision=decision, state=OccurrenceState.DECIDED)


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
