"""Reads a row of the ledger's table, and writes what of it is no plain column."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from sqlalchemy import Row

from stores.effect_row import EffectRow
from stores.records import EffectKind, EffectState


def row_of(row: Row[Any]) -> EffectRow:
    """Read a row of the table."""
    columns = {field.name: getattr(row, field.name) for field in fields(EffectRow)}
    return EffectRow(
        **{
            **columns,
            "state": EffectState(row.state),
            "kind": EffectKind(row.kind),
            "begun_by": attempts_in(row.begun_by),
            "refuted": attempts_in(row.refuted),
        }
    )


def columns_of_row(row: EffectRow) -> Mapping[str, object]:
    """Return a row's fields as the table keeps them."""
    columns = {field.name: getattr(row, field.name) for field in fields(EffectRow)}
    return {**columns, "begun_by": attempts_text(row.begun_by), "refuted": attempts_text(row.refuted)}


def attempts_text(attempts: Collection[str]) -> str:
    """Return attempts as the table keeps them: a text that another one can be appended to by the database."""
    return "".join(f",{json.dumps(attempt)}" for attempt in sorted(attempts))


def attempts_in(text: str) -> frozenset[str]:
    """Return the attempts that a text of the table lists."""
    return frozenset(json.loads(f"[{text[1:]}]"))
