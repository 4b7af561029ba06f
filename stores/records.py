"""The values that get stored: frozen, and JSON in and out with a format number."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, is_dataclass
from enum import StrEnum
from typing import Any, NewType

from stores.errors import UnknownFormat

FORMAT = 1
"""Written into every stored value; a reader that meets another number fails closed."""

SEALED_FORMAT = 2
"""Written into a snapshot whose first messages are kept apart: who does not know them must not go on from the rest."""

Scope = NewType("Scope", str)
"""The authorization boundary a caller was resolved to; part of every key, never taken from a body."""

Json = dict[str, Any]

_LATER = {"later": True}
"""Marks a field that came after the first version: left out while it has its default, so older ones read the rest."""

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ThreadKey:
    """Names one AG-UI thread of one agent inside one scope; it identifies, it never authorises."""

    scope: Scope
    agent: str
    thread_id: str


class EffectKind(StrEnum):
    """What a tool's effect can promise when a call is repeated."""

    NONE = "none"
    IDEMPOTENT = "idempotent"
    TRANSACTIONAL = "transactional"
    UNSAFE = "unsafe"


class OccurrenceState(StrEnum):
    """Where one approval-gated call stands. The first three live in the record, the rest in run rows."""

    PENDING = "pending"
    DECIDED = "decided"
    INDETERMINATE = "indeterminate"
    FINISHED = "finished"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class Verdict(StrEnum):
    """What a person decided about one occurrence, or that its time was over before anybody did."""

    APPROVE = "approve"
    REJECT = "reject"
    CANCEL = "cancel"
    EXPIRE = "expire"


class RunState(StrEnum):
    """How far a run got. `failed` keeps nothing but that it failed: the same input may run again."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"


class RuleReach(StrEnum):
    """What else a standing rule approves, in upstream's words: all calls of the tool, or those with these arguments."""

    TOOL = "tool"
    TOOL_WITH_ARGUMENTS = "tool_with_arguments"


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's answer to one interrupt.

    `arguments` is the canonical JSON that will be executed (shown or edited); `digest` covers the
    verdict and, for an approval, the tool and those arguments. `standing_rule` is what the person approved besides.
    """

    verdict: Verdict
    arguments: str
    digest: str
    standing_rule: RuleReach | None = field(default=None, metadata=_LATER)

    @property
    def identity(self) -> str:
        """What makes one answer the same as another: the digest, and the standing rule that was given with it."""
        return self.digest if self.standing_rule is None else f"{self.digest}+{self.standing_rule.value}"


@dataclass(frozen=True, slots=True)
class StandingRule:
    """Calls of a tool in one thread that need no person any more.

    `arguments` is the canonical JSON they must have, None for any; no arguments are `{}`. `tool_digest` is the tool as
    it was when the person gave the rule, with the answer to `interrupt_id`, at `created_at` on the store's clock.
    """

    tool: str
    arguments: str | None
    tool_digest: str
    interrupt_id: str
    created_at: float


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One approval-gated call that waits for authority, whatever aliases point to it.

    Times are seconds of the store's clock. `upstream` is the form upstream keeps of it; only
    `app/upstream.py` reads or writes what is inside. `tool_digest` is the tool as it was when it was asked for, where
    its agent takes standing rules. `provided`: a context provider offered the tool in this run, it is none of the
    agent's own. `is_valid`: the tool's schema took the arguments when they were asked for. `hosted_by`: the label of
    the server behind the model's provider, which runs the call itself.
    """

    interrupt_id: str
    call_id: str
    tool: str
    kind: EffectKind
    arguments: str
    digest: str
    run_id: str
    created_at: float
    expires_at: float
    key_lifetime_seconds: float | None = None
    aliases: tuple[str, ...] = ()
    state: OccurrenceState = OccurrenceState.PENDING
    decision: Decision | None = None
    upstream: Json = field(default_factory=dict)
    tool_digest: str | None = field(default=None, metadata=_LATER)
    provided: bool = field(default=False, metadata=_LATER)
    is_valid: bool = field(default=True, metadata=_LATER)
    hosted_by: str | None = field(default=None, metadata=_LATER)


@dataclass(frozen=True, slots=True)
class Claim:
    """The exclusive right of one run to work on a thread.

    `attempt` is random and new per claim, `holder` names the process, `until` is the store's time after
    which the claim counts as dead whatever its holder does.
    """

    attempt: str
    holder: str
    run_id: str
    until: float


@dataclass(frozen=True, slots=True)
class Version:
    """What a compare-and-set compares: the number of the change and the random id of the write.

    The number alone is not safe: a store that lost a write can reach the same number again.
    """

    generation: int = 0
    write_id: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """What is open in a thread: occurrences with their decisions, the pause that joins them, the claim.

    `resume_run_id` is the run that brought the decisions and `resume_messages` the user's words that came with them,
    continued by whoever takes the thread over. `retries`
    counts how often that run failed, `retry_at` is the store's time before which the reconciler leaves it alone.
    `standing_rules` stay over pauses and runs. `goes_on` says that the decisions were made by them, with no person
    asked, in the middle of the run `resume_run_id`, which goes on with them.
    """

    version: Version = Version()
    pause_id: str | None = None
    occurrences: tuple[Occurrence, ...] = ()
    claim: Claim | None = None
    resume_run_id: str | None = None
    resume_messages: tuple[Json, ...] = ()
    retries: int = 0
    retry_at: float | None = None
    standing_rules: tuple[StandingRule, ...] = field(default=(), metadata=_LATER)
    goes_on: bool = field(default=False, metadata=_LATER)

    def find(self, name: str) -> Occurrence | None:
        """Return the open occurrence that `name` points to (interrupt id first, then alias)."""
        for occurrence in self.occurrences:
            if occurrence.interrupt_id == name:
                return occurrence
        matches = [occurrence for occurrence in self.occurrences if name in occurrence.aliases]
        return matches[0] if len(matches) == 1 else None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The client-replayable picture of a thread, with the pause it was taken in.

    `sealed` says how many of the first messages a store keeps apart and does not write again (`stores/history.py`): a
    store sets it, `history.carried_on` hands it on to the snapshot that follows, and nobody else looks at it.
    """

    messages: tuple[Json, ...] = ()
    state: Json | None = None
    interrupts: tuple[Json, ...] = ()
    session_state: Json | None = None
    pause_id: str | None = None
    sealed: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Messages of a thread's history that are sealed: written once, read with every snapshot."""

    messages: tuple[Json, ...]


@dataclass(frozen=True, slots=True)
class Bag:
    """Core's `tool_approval` session state, with the pause it belongs to."""

    pause_id: str | None = None
    state: Json | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool returned, kept so that a repeat gets the same: serialised contents, or an error."""

    contents: tuple[Json, ...] = ()
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The retained end of one occurrence: what was asked, what was decided, how it ended."""

    interrupt_id: str
    call_id: str
    tool: str
    arguments: str
    state: OccurrenceState
    decision: Decision | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a thread: its input by digest, how it ended, and what a duplicate is answered with.

    `events` are the final messages and tool results as collapsed AG-UI events, `interrupts` those a
    paused run ended with, `outcomes` the occurrences it brought to their end.
    """

    run_id: str
    input_digest: str
    state: RunState
    attempt: str
    outcomes: tuple[Outcome, ...] = ()
    events: tuple[Json, ...] = ()
    interrupts: tuple[Json, ...] = ()


class EffectState(StrEnum):
    """How far the effect of one answered interrupt got."""

    RESERVED = "reserved"
    BEGUN = "begun"
    SETTLED = "settled"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Effect:
    """One row of the effect ledger, as read."""

    interrupt_id: str
    state: EffectState
    kind: EffectKind
    digest: str
    attempt: str | None
    holder: str | None
    until: float
    begun_age_seconds: float | None = None
    result: ToolResult | None = None
    why: str | None = None


def to_json(value: Record | Snapshot | Chunk | Bag | Run | ToolResult) -> str:
    """Serialise one stored value. A record's version and claim are columns of their own and left out."""
    stored = _fields_of(value)
    number = FORMAT
    if isinstance(value, Record):
        del stored["version"], stored["claim"]
    elif isinstance(value, Snapshot):
        number = SEALED_FORMAT if stored.pop("sealed") else FORMAT
        stored |= {"sealed": value.sealed} if value.sealed else {}
    text = json.dumps({"format": number, **stored}, default=_fields_of, ensure_ascii=False, separators=(",", ":"))
    # Half of a character, as clients make that cut texts by their length, is no UTF-8 unless it is escaped.
    return text if text.isascii() else _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def _fields_of(value: Any) -> Json:
    # Not `asdict`: it copies every message of a snapshot, which costs more than all else in a save.
    if not is_dataclass(value):
        raise TypeError(f"{type(value).__name__} can not be stored as JSON.")
    stored = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    for each in dataclasses.fields(value):
        if each.metadata and stored[each.name] == each.default:
            del stored[each.name]
    return stored


@contextmanager
def _of_known_shape() -> Iterator[None]:
    """Take what has other fields than this version knows for what it is: written by another one."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnknownFormat("A stored value has a shape that this version does not know.") from error


def _opened(text: str | bytes, *formats: int) -> Json:
    fields: Json = json.loads(text)
    if fields.pop("format", None) not in (FORMAT, *formats):
        raise UnknownFormat("A stored value has a format that this version does not know.")
    return fields


def _decision(fields: Mapping[str, Any] | None) -> Decision | None:
    if fields is None:
        return None
    rule = fields.get("standing_rule")
    return Decision(Verdict(fields["verdict"]), fields["arguments"], fields["digest"], rule and RuleReach(rule))


def _occurrence(fields: Json) -> Occurrence:
    return Occurrence(
        **{
            **fields,
            "kind": EffectKind(fields["kind"]),
            "state": OccurrenceState(fields["state"]),
            "aliases": tuple(fields["aliases"]),
            "decision": _decision(fields["decision"]),
        }
    )


def _outcome(fields: Json) -> Outcome:
    return Outcome(
        **{
            **fields,
            "state": OccurrenceState(fields["state"]),
            "aliases": tuple(fields["aliases"]),
            "decision": _decision(fields["decision"]),
        }
    )


@_of_known_shape()
def record_from_json(text: str | bytes, version: Version, claim: Claim | None) -> Record:
    """Read a record back; raises `UnknownFormat` for a number it does not know."""
    fields = _opened(text)
    occurrences = tuple(_occurrence(each) for each in fields.pop("occurrences"))
    fields.update(_tuples(fields, ("resume_messages",)))
    fields["standing_rules"] = tuple(StandingRule(**each) for each in fields.get("standing_rules", ()))
    return Record(version=version, claim=claim, occurrences=occurrences, **fields)


@_of_known_shape()
def snapshot_from_json(text: str | bytes) -> Snapshot:
    """Read a snapshot back; raises `UnknownFormat` for a number it does not know."""
    fields = _opened(text, SEALED_FORMAT)
    return Snapshot(**{**fields, **_tuples(fields, ("messages", "interrupts"))})


@_of_known_shape()
def chunk_from_json(text: str | bytes) -> Chunk:
    """Read sealed messages back; raises `UnknownFormat` for a number it does not know."""
    return Chunk(tuple(_opened(text)["messages"]))


@_of_known_shape()
def bag_from_json(text: str | bytes) -> Bag:
    """Read a bag back; raises `UnknownFormat` for a number it does not know."""
    return Bag(**_opened(text))


@_of_known_shape()
def run_from_json(text: str | bytes) -> Run:
    """Read a run back; raises `UnknownFormat` for a number it does not know."""
    fields = _opened(text)
    outcomes = tuple(_outcome(each) for each in fields.pop("outcomes"))
    state = RunState(fields.pop("state"))
    return Run(state=state, outcomes=outcomes, **{**fields, **_tuples(fields, ("events", "interrupts"))})


@_of_known_shape()
def result_from_json(text: str | bytes) -> ToolResult:
    """Read a tool result back; raises `UnknownFormat` for a number it does not know."""
    fields = _opened(text)
    return ToolResult(tuple(fields["contents"]), fields["is_error"])


def _tuples(fields: Json, names: Sequence[str]) -> Json:
    return {name: tuple(fields[name]) for name in names}
