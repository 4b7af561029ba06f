"""Reads a user's words into the calls that the scripted model makes: clauses joined by "then", verbs by "and"."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOOLS = {
    "look up": "look_up_invoice",
    "pay": "pay_invoice",
    "refund": "refund_invoice",
    "wire": "wire_transfer",
}
_TOOLS_WITH_PAYEE = {"pay_invoice", "wire_transfer"}

_THEN = re.compile(r"\bthen\b", re.IGNORECASE)
_VERB = re.compile(r"(?<![\w-])(look\s+up|pay|refund|wire)(?![\w-])", re.IGNORECASE)
_PAYEE = re.compile(r"(?<![\w-])to\s+(\w[\w&'-]*)", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Za-z0-9-]+")
_DIRECTION = re.compile(r"\([^()]*\)")
_OUTAGE = re.compile(r"\(outage\s+([\w-]+)\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool that the user asked for."""

    tool: str
    arguments: dict[str, str]


Step = tuple[Call, ...]
"""The calls of one model turn."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """What a user message asks for. `reuse_call_ids` and `outage` are stage directions for tests of the host."""

    steps: tuple[Step, ...]
    reuse_call_ids: bool = False
    outage: str | None = None


def read_instructions(words: str) -> Instructions:
    """Read a user's words. No steps means: nothing understood, or something incomplete; money is not for guessing."""
    outage = _OUTAGE.search(words)
    clauses = _THEN.split(_DIRECTION.sub(" ", words))
    steps = [step for step in map(_read_clause, clauses) if step is not None]
    return Instructions(
        steps=tuple(steps) if all(steps) else (),
        reuse_call_ids="(reuse call ids)" in words.lower(),
        outage=outage[1] if outage else None,
    )


def _read_clause(clause: str) -> Step | None:
    """Return the calls of a clause, none if one of its verbs lacks an object, None if it has no verb."""
    _, *rest = _VERB.split(clause)
    if not rest:
        return None
    groups = [_read_calls(verb, objects) for verb, objects in zip(rest[::2], rest[1::2], strict=True)]
    return tuple(call for group in groups for call in group) if all(groups) else ()


def _read_calls(verb: str, objects: str) -> list[Call]:
    tool = _TOOLS[" ".join(verb.lower().split())]
    if tool not in _TOOLS_WITH_PAYEE:
        return [Call(tool, {"invoice": invoice}) for invoice in _invoices(objects)]
    *pairs, rest = _PAYEE.split(objects)
    if _invoices(rest):
        return []
    return [
        Call(tool, {"invoice": invoice, "payee": payee})
        for invoices, payee in zip(pairs[::2], pairs[1::2], strict=True)
        for invoice in _invoices(invoices)
    ]


def _invoices(text: str) -> list[str]:
    tokens: list[str] = _TOKEN.findall(text)
    return [token for token in tokens if "-" in token and any(character.isdigit() for character in token)]
