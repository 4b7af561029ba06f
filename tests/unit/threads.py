"""Threads as the rules see them: what is stored, at a time of ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.answers import Entry, approval_digest, call_digest, digest
from app.errors import Code, Refusal
from app.gated_tools import GatedTool
from stores.ports import Loaded
from stores.records import (
    Bag,
    Claim,
    Decision,
    EffectKind,
    Occurrence,
    OccurrenceState,
    Outcome,
    Record,
    Run,
    RunState,
    Snapshot,
    Verdict,
)

NOW = 1_000.0
PAUSE = "pause-1"
ARGUMENTS = '{"invoice":"INV-1","payee":"ACME"}'
TOOLS = {"pay": GatedTool(EffectKind.IDEMPOTENT), "wire": GatedTool(EffectKind.UNSAFE)}

APPROVAL = Decision(Verdict.APPROVE, ARGUMENTS, approval_digest("wire", ARGUMENTS))
REJECTION = Decision(Verdict.REJECT, "", digest("reject"))
CANCELLATION = Decision(Verdict.CANCEL, "", digest("cancel"))


def occurrence(name: str = "i1", **changes: Any) -> Occurrence:
    """Return a pending call of `wire` that may be answered for another hundred seconds."""
    pending = Occurrence(
        interrupt_id=name,
        call_id=f"call-{name}",
        tool="wire",
        kind=EffectKind.UNSAFE,
        arguments=ARGUMENTS,
        digest=call_digest("wire", ARGUMENTS),
        run_id="asking",
        created_at=NOW - 10,
        expires_at=NOW + 100,
        aliases=(f"call-{name}",),
    )
    return replace(pending, **changes)


def decided(name: str = "i1", decision: Decision = APPROVAL, **changes: Any) -> Occurrence:
    """Return a decided call."""
    return occurrence(name, state=OccurrenceState.DECIDED, decision=decision, **changes)


def in_doubt(name: str = "i1") -> Occurrence:
    """Return an approved call that may have run."""
    return occurrence(name, state=OccurrenceState.INDETERMINATE, decision=APPROVAL)


def claim(*, until: float = NOW + 50, holder: str = "holder", run_id: str = "answering") -> Claim:
    """Return a claim."""
    return Claim("attempt", holder, run_id, until)


def loaded(*occurrences: Occurrence, known: Run | None = None, **changes: Any) -> Loaded:
    """Return a whole pause with these calls, or an idle thread."""
    record = replace(Record(pause_id=PAUSE if occurrences else None, occurrences=occurrences), **changes)
    return Loaded(record, NOW, Snapshot(pause_id=record.pause_id), Bag(record.pause_id), known)


def finished(*outcomes: Outcome, run_id: str = "answering", input_digest: str = "input") -> Run:
    """Return a finished run that brought these calls to their end."""
    return Run(run_id, input_digest, RunState.FINISHED, "attempt", outcomes)


def outcome(name: str, decision: Decision, state: OccurrenceState) -> Outcome:
    """Return the end of one call."""
    return Outcome(name, f"call-{name}", "wire", ARGUMENTS, state, decision, (f"call-{name}",))


def approve(name: str = "i1", road: str = "resume", **payload: Any) -> Entry:
    """Return an answer that approves."""
    return Entry(name, "resolved", {"approved": True, **payload}, road)


def reject(name: str = "i1", road: str = "resume") -> Entry:
    """Return an answer that rejects."""
    return Entry(name, "resolved", {"approved": False}, road)


def cancel(name: str = "i1", road: str = "resume") -> Entry:
    """Return an answer that cancels."""
    return Entry(name, "cancelled", None, road)


def code_of(answer: object) -> Code:
    """Return the code of a refusal; fails for anything else."""
    assert isinstance(answer, Refusal), answer
    assert answer.message.endswith(".")
    return answer.code
