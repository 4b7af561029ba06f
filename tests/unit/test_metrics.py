"""What is counted of approvals, read back through the OpenTelemetry SDK; nothing in it tells who or what it was."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from app.errors import Code
from app.metrics import DOUBTS_ENDED, IN_DOUBT, LIMITS, REFUSALS, SECOND_EFFECTS, Metrics
from stores.records import EffectKind, EffectState, Occurrence, OccurrenceState, Record
from tests.unit.counted import counted


@pytest.fixture
def reader() -> InMemoryMetricReader:
    return InMemoryMetricReader()


@pytest.fixture
def metrics(reader: InMemoryMetricReader) -> Metrics:
    return Metrics(MeterProvider([reader]))


def record(**states: OccurrenceState) -> Record:
    return Record(
        occurrences=tuple(
            Occurrence(name, f"call-{name}", "wire", EffectKind.UNSAFE, "{}", "", "run-1", 0.0, 60.0, state=state)
            for name, state in states.items()
        )
    )


DECIDED, IN_DOUBT_STATE = OccurrenceState.DECIDED, OccurrenceState.INDETERMINATE


def test_a_call_counts_once_when_it_turns_indeterminate(metrics: Metrics, reader: InMemoryMetricReader) -> None:
    metrics.changed(record(a=DECIDED, b=DECIDED, c=DECIDED), record(a=IN_DOUBT_STATE, b=IN_DOUBT_STATE, c=DECIDED))
    metrics.changed(record(a=IN_DOUBT_STATE, b=IN_DOUBT_STATE), record(a=IN_DOUBT_STATE, b=DECIDED))
    metrics.changed(record(a=DECIDED), record(a=DECIDED))

    assert counted(reader) == {(IN_DOUBT, ""): 2}


def test_a_doubt_that_ended_counts_by_what_the_ledger_says(metrics: Metrics, reader: InMemoryMetricReader) -> None:
    for state in (EffectState.SETTLED, EffectState.SETTLED, EffectState.RESERVED, EffectState.CLOSED):
        metrics.doubt_ended(state)

    assert counted(reader) == {
        (DOUBTS_ENDED, "agui.doubt.end=result"): 2,
        (DOUBTS_ENDED, "agui.doubt.end=did_not_happen"): 1,
        (DOUBTS_ENDED, "agui.doubt.end=closed"): 1,
    }


def test_second_effects_refusals_and_limits_are_counted_apart(metrics: Metrics, reader: InMemoryMetricReader) -> None:
    metrics.second_effect()
    metrics.refused(Code.RESUME_REQUIRED)
    metrics.refused(Code.RESUME_REQUIRED)
    metrics.limit_refused("AGUI_RUNS_MAX")

    assert counted(reader) == {
        (SECOND_EFFECTS, ""): 1,
        (REFUSALS, "agui.code=APPROVAL_RESUME_REQUIRED"): 2,
        (LIMITS, "agui.limit=AGUI_RUNS_MAX"): 1,
    }


def test_without_a_provider_counting_does_nothing_and_fails_nothing() -> None:
    Metrics().second_effect()
