"""Turns what a client sent for an interrupt into a decision, or says what is wrong with it. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from app.errors import Code, Refusal
from stores.records import Decision, Json, RuleReach, Verdict

SPOKEN_ROAD = "tool message"
"""Where an answer stood that came as the result of a call."""
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_VERDICT_KEYS = ("approved", "accepted")
RULE_KEY = "standingRule"
"""Stands beside the verdict, so an argument of this name is edited in `editedArgs` only."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One answer as it came in: the id it names (an interrupt or an alias), its status and payload.

    `road` is where it stood in the request; the same answer may arrive by two roads, but not twice by one.
    """

    name: str
    status: str
    payload: Any
    road: str


def canonical(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(*parts: str) -> str:
    """Return a digest over the parts and where each of them ends."""
    hashed = hashlib.sha256()
    for part in parts:
        # A client can write half a surrogate pair inside a JSON string; it counts like any other character.
        encoded = part.encode(errors="surrogatepass")
        hashed.update(len(encoded).to_bytes(8, "big") + encoded)
    return hashed.hexdigest()


REJECTION = Decision(Verdict.REJECT, "", digest("reject"))
CANCELLATION = Decision(Verdict.CANCEL, "", digest("cancel"))


def call_digest(tool: str, arguments: str) -> str:
    """Return the digest of one exact call; `arguments` is its canonical JSON."""
    return digest("call", tool, arguments)


def decide(entry: Entry, *, tool: str, arguments: str, takes_rules: bool = False) -> Decision | Refusal:
    """Validate one answer against the call that was shown.

    An approval may carry edited arguments, as `editedArgs` (a full replacement) or beside the verdict (a merge); only
    names that were shown, with values of the shown JSON type, are taken. Values beside a rejection mean nothing, but
    for `standingRule`: that comes with an approval only, and where the call `takes_rules`.
    """
    if entry.status == "cancelled":
        return CANCELLATION
    if entry.status != "resolved":
        return _invalid(entry, f"has the unsupported status '{entry.status}'; send resolved or cancelled")
    payload = _as_object(entry.payload)
    if payload is None:
        return _invalid(entry, "must include an object payload")
    verdicts = [payload[key] for key in _VERDICT_KEYS if key in payload]
    is_approved = verdicts[0] if verdicts else None
    if not isinstance(is_approved, bool) or any(verdict is not is_approved for verdict in verdicts):
        return _invalid(entry, "must include a boolean `approved` (or `accepted`), and not two that differ")
    rule = payload.pop(RULE_KEY, None)
    if rule is not None and not (takes_rules and is_approved and rule in list(RuleReach)):
        return _invalid(entry, "gives a standing rule that is unknown, not an approval's, or not taken for this call")
    reach = None if rule is None else RuleReach(rule)
    return _approve(entry, payload, tool, arguments, reach) if is_approved else REJECTION


def approval_digest(tool: str, arguments: str) -> str:
    """Return the digest of approving one exact call: what is executed is held against it."""
    return digest("approve", tool, arguments)


def _approve(entry: Entry, payload: Json, tool: str, arguments: str, rule: RuleReach | None) -> Decision | Refusal:
    edited = _edited(entry, payload, cast(Json, json.loads(arguments)))
    if isinstance(edited, Refusal):
        return edited
    text = canonical(edited)
    return Decision(Verdict.APPROVE, text, approval_digest(tool, text), rule)


def _edited(entry: Entry, payload: Json, shown: Json) -> Json | Refusal:
    merged = {key: value for key, value in payload.items() if key not in (*_VERDICT_KEYS, "editedArgs")}
    replacement = payload.get("editedArgs")
    if replacement is not None and (not isinstance(replacement, dict) or merged):
        return _misfit(entry, "must give editedArgs as an object, and as the only edited arguments")
    edits = cast(Json, replacement) if replacement is not None else merged
    unknown = sorted(set(edits) - set(shown))
    if unknown:
        return _invalid(entry, f"edits '{unknown[0]}', which is not an argument of the call that was shown")
    if replacement is not None and set(edits) != set(shown):
        return _misfit(entry, f"must give every argument in editedArgs; '{min(set(shown) - set(edits))}' is missing")
    for name, value in edits.items():
        if not _same_json_type(shown[name], value):
            return _misfit(entry, f"has a value of another JSON type for '{name}'")
    return {**shown, **edits}


def _same_json_type(shown: Any, given: Any) -> bool:
    if isinstance(shown, bool) or isinstance(given, bool):
        return isinstance(shown, bool) and isinstance(given, bool)
    if isinstance(shown, int | float):
        return isinstance(given, int | float)
    return shown is None or isinstance(given, type(shown))


def has_unstorable(value: Any) -> bool:
    """Say whether a JSON value has a text that not every store can carry: NUL, or half of a surrogate pair."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += [*each, *each.values()]
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, str) and _UNSTORABLE.search(each):
            return True
    return False


def _as_object(payload: Any) -> Json | None:
    if isinstance(payload, str):
        try:
            payload = json.loads(payload)
        except (ValueError, RecursionError):
            return None
        if has_unstorable(payload):
            return None  # The door has seen this only as one text, in which it was spelled out.
    return dict(payload) if isinstance(payload, Mapping) else None


def _invalid(entry: Entry, what: str) -> Refusal:
    return Refusal(Code.RESUME_INVALID, f"The answer for interruptId '{entry.name}' {what}.")


def _misfit(entry: Entry, what: str) -> Refusal:
    return Refusal(Code.RESUME_INVALID_RESPONSE, f"The answer for interruptId '{entry.name}' {what}.")
