"""Stored values: what another version wrote is told from what is read, whatever it did to the fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from stores.errors import UnknownFormat
from stores.records import (
    Bag,
    Chunk,
    Record,
    Run,
    RunState,
    Snapshot,
    ToolResult,
    Version,
    bag_from_json,
    chunk_from_json,
    record_from_json,
    result_from_json,
    run_from_json,
    snapshot_from_json,
    to_json,
)
from tests.unit.threads import occurrence

READERS: dict[str, tuple[Any, Callable[[str], Any]]] = {
    "record": (Record(), lambda text: record_from_json(text, Version(), None)),
    "snapshot": (Snapshot(), snapshot_from_json),
    "chunk": (Chunk(()), chunk_from_json),
    "bag": (Bag(), bag_from_json),
    "run": (Run("run-1", "input", RunState.RUNNING, "attempt-1"), run_from_json),
    "result": (ToolResult(), result_from_json),
}


@pytest.mark.parametrize("kind", READERS)
def test_a_value_of_another_shape_is_of_an_unknown_format(kind: str) -> None:
    value, read = READERS[kind]
    text = to_json(value)
    assert read(text) == value

    first_field = text.split('"')[3]
    for other in (text.replace(f'"{first_field}"', '"unheard_of"'), text[:-1], "[]", "{}"):
        with pytest.raises(UnknownFormat):
            read(other)


def test_a_snapshot_without_sealed_messages_is_what_the_first_version_wrote_and_another_is_not() -> None:
    assert to_json(Snapshot()).startswith('{"format":1,')
    assert "sealed" not in to_json(Snapshot())
    assert to_json(Snapshot(sealed=2)).startswith('{"format":2,')


def test_what_is_known_of_a_call_since_then_is_written_only_where_it_says_something() -> None:
    plain, provided = (
        Record(occurrences=(each,)) for each in (occurrence(), occurrence(provided=True, is_valid=False))
    )

    assert not {"provided", "is_valid"} & json.loads(to_json(plain))["occurrences"][0].keys()
    assert record_from_json(to_json(provided), provided.version, None) == provided
