"""What is counted: calls in doubt and how that ended, effects that nobody wanted twice, refusals. No ids, no scope.

The instruments are OpenTelemetry's; without a provider that exports them nothing is kept.
"""

from __future__ import annotations

from opentelemetry.metrics import Counter, Meter, MeterProvider, get_meter_provider

from app.errors import Code
from stores.records import EffectState, OccurrenceState, Record

IN_DOUBT = "agui.calls.in_doubt"
DOUBTS_ENDED = "agui.doubts.ended"
SECOND_EFFECTS = "agui.effects.second"
REFUSALS = "agui.refusals"
LIMITS = "agui.limits.refused"

_ENDS = {
    EffectState.SETTLED: "result",
    EffectState.RESERVED: "did_not_happen",
    EffectState.CLOSED: "closed",
}


class Metrics:
    """The counters of one process. `provider` None: the one of the process, whenever it is set."""

    def __init__(self, provider: MeterProvider | None = None) -> None:
        meter = (provider or get_meter_provider()).get_meter("agui")
        self._in_doubt = _counter(meter, IN_DOUBT, "{call}", "Calls that turned indeterminate.")
        self._doubts_ended = _counter(meter, DOUBTS_ENDED, "{call}", "Doubts that ended, by what the ledger says.")
        self._second_effects = _counter(
            meter, SECOND_EFFECTS, "{effect}", "Results of calls that were stated not to have happened. Alarm."
        )
        self._refusals = _counter(meter, REFUSALS, "{answer}", "RUN_ERROR answers, by code.")
        self._limits = _counter(meter, LIMITS, "{request}", "What a limit refused, by the limit's setting.")

    def changed(self, before: Record, after: Record) -> None:
        """Count the calls that are in doubt after a committed change and were not before it."""
        known = _in_doubt(before)
        turned = [name for name in _in_doubt(after) if name not in known]
        if turned:
            self._in_doubt.add(len(turned))

    def doubt_ended(self, state: EffectState) -> None:
        """Count a doubt that ended because the ledger's row is in this state."""
        self._doubts_ended.add(1, {"agui.doubt.end": _ENDS.get(state, state.value)})

    def second_effect(self) -> None:
        """Count an effect beside what is recorded."""
        self._second_effects.add(1)

    def refused(self, code: Code) -> None:
        """Count a RUN_ERROR."""
        self._refusals.add(1, {"agui.code": code.value})

    def limit_refused(self, setting: str) -> None:
        """Count what a limit refused; `setting` is its name in the environment, `AGUI_RUNS_MAX` say."""
        self._limits.add(1, {"agui.limit": setting})


def _counter(meter: Meter, name: str, unit: str, description: str) -> Counter:
    return meter.create_counter(name, unit=unit, description=description)


def _in_doubt(record: Record) -> frozenset[str]:
    doubted = [each for each in record.occurrences if each.state is OccurrenceState.INDETERMINATE]
    return frozenset(each.interrupt_id for each in doubted)
