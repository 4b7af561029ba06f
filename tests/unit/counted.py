"""Reads what was counted back through the OpenTelemetry SDK."""

from __future__ import annotations

import json
from collections.abc import Mapping

from opentelemetry.sdk.metrics.export import InMemoryMetricReader

Counted = dict[tuple[str, str], int | float]


def counted(reader: InMemoryMetricReader) -> Counted:
    """Return every counter with its attributes and value."""
    data = reader.get_metrics_data()
    if data is None:
        return {}
    return {
        (metric["name"], _text(point["attributes"])): point["value"]
        for resource in json.loads(data.to_json())["resource_metrics"]
        for scope in resource["scope_metrics"]
        for metric in scope["metrics"]
        for point in metric["data"]["data_points"]
    }


def _text(attributes: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in attributes.items())
