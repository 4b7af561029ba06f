"""An approval is held to the tool as it is now: its kind, and the arguments that its schema takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from agent_framework import FunctionTool, tool
from pydantic import BaseModel, Field, model_validator

from app.answers import approval_digest, canonical
from app.argument_fit import misfits_of
from app.errors import Code
from app.gated_tools import GatedTool, unfit
from stores.records import Decision, EffectKind, OccurrenceState, Verdict
from tests.unit.threads import ARGUMENTS, occurrence

SECRET = "a-value-that-nobody-else-may-read"


@tool
async def pay(invoice: Annotated[str, Field(max_length=8)], payee: Literal["ACME"], cents: int = 1) -> str:
    """Pay."""
    return invoice


class Range(BaseModel):
    """Two that belong together."""

    low: int
    high: int

    @model_validator(mode="after")
    def _is_ordered(self) -> Range:
        if self.low > self.high:
            raise ValueError(f"{SECRET}: {self.low}")
        return self


SCHEMA = {
    "type": "object",
    "properties": {
        "invoice": {"type": "string"},
        "cents": {"type": ["integer", "null"]},
        "payee": {"enum": ["ACME"]},
        "note": {},
    },
    "required": ["invoice"],
    "additionalProperties": False,
}


def by_schema(schema: Mapping[str, Any]) -> FunctionTool:
    return FunctionTool(name="pay", func=lambda **_: "", input_model=schema)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"invoice": "INV-1", "payee": "ACME"}, set()),
        ({"invoice": "INV-1", "payee": "ACME", "cents": "5"}, set()),
        ({"invoice": "INV-1", "payee": SECRET}, {"payee"}),
        ({"invoice": SECRET, "payee": "ACME"}, {"invoice"}),
        ({"invoice": 1, "payee": "ACME", "cents": SECRET}, {"invoice", "cents"}),
        ({"invoice": "INV-1"}, {"payee"}),
        ({"invoice": "INV-1", "payee": "ACME", "recipient": SECRET}, {"recipient"}),
    ],
)
def test_a_tool_made_from_a_function_names_what_it_does_not_take(arguments: dict[str, Any], names: set[str]) -> None:
    misfits = misfits_of(pay, arguments)

    assert set(misfits) == names
    assert SECRET not in str(misfits.values())


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"invoice": "INV-1", "cents": None, "payee": "ACME", "note": [1]}, set()),
        ({"cents": 1}, {"invoice"}),
        ({"invoice": 1, "cents": True, "payee": SECRET}, {"invoice", "cents", "payee"}),
        ({"invoice": "INV-1", SECRET: 1}, {SECRET}),
    ],
)
def test_a_tool_made_from_a_schema_names_what_it_does_not_take(arguments: dict[str, Any], names: set[str]) -> None:
    misfits = misfits_of(by_schema(SCHEMA), arguments)

    assert set(misfits) == names
    assert SECRET not in str(misfits.values())


def test_a_schema_that_is_open_takes_more() -> None:
    assert misfits_of(by_schema({"type": "object", "properties": {}}), {"more": 1}) == {}


def test_what_does_not_fit_together_has_no_name_and_says_nothing_of_the_values() -> None:
    @tool(schema=Range)
    async def read(low: int, high: int) -> str:
        """Read."""
        return ""

    assert misfits_of(read, {"low": 1, "high": 2}) == {}
    assert misfits_of(read, {"low": 2, "high": 1}) == {"": "value error"}


def approved(arguments: dict[str, Any]) -> Decision:
    text = canonical(arguments)
    return Decision(Verdict.APPROVE, text, approval_digest("wire", text))


AS_SHOWN = Decision(Verdict.APPROVE, ARGUMENTS, approval_digest("wire", ARGUMENTS))
EDITED = approved({"invoice": "INV-1", "payee": "Another"})
DECIDED = OccurrenceState.DECIDED


def refusing(**misfits: str) -> GatedTool:
    return GatedTool(EffectKind.UNSAFE, misfits=lambda _arguments: misfits)


TOGETHER = GatedTool(EffectKind.UNSAFE, misfits=lambda _arguments: {"": "value error"})


@pytest.mark.parametrize(
    ("found", "decision", "changes", "code"),
    [
        (refusing(), AS_SHOWN, {}, None),
        (refusing(), EDITED, {}, None),
        (None, AS_SHOWN, {}, Code.TOOL_UNAVAILABLE),
        (GatedTool(EffectKind.IDEMPOTENT), AS_SHOWN, {}, Code.TOOL_UNAVAILABLE),
        (refusing(payee="unknown"), EDITED, {}, Code.RESUME_INVALID_RESPONSE),
        (refusing(payee="unknown"), AS_SHOWN, {}, Code.TOOL_UNAVAILABLE),
        (refusing(invoice="unknown"), EDITED, {}, Code.TOOL_UNAVAILABLE),
        (refusing(reason="missing"), AS_SHOWN, {}, Code.TOOL_UNAVAILABLE),
        (TOGETHER, EDITED, {}, Code.RESUME_INVALID_RESPONSE),
        (TOGETHER, AS_SHOWN, {}, Code.TOOL_UNAVAILABLE),
        # Recorded by an earlier request: its sender can not take it back, so it is the tool that changed.
        (refusing(payee="unknown"), EDITED, {"state": DECIDED}, Code.TOOL_UNAVAILABLE),
        # It never fitted: the tool says so to the model, unless the person made it worse.
        (refusing(payee="unknown"), AS_SHOWN, {"is_valid": False}, None),
        (refusing(payee="unknown"), EDITED, {"is_valid": False}, Code.RESUME_INVALID_RESPONSE),
        (refusing(invoice="unknown"), EDITED, {"is_valid": False}, None),
    ],
)
def test_an_approval_that_does_not_fit_is_the_fault_of_the_answer_or_of_the_tool(
    found: GatedTool | None, decision: Decision, changes: dict[str, Any], code: Code | None
) -> None:
    refusal = unfit(occurrence(**changes), decision, found)

    assert (refusal.code if refusal else None) is code
    assert refusal is None or refusal.message.endswith(".")
