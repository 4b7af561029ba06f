"""Fixtures of the races."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stores.ports import Stores
from tests.conformance.adapters import Adapter
from tests.conformance.examples import CLAIMANTS


@pytest.fixture
async def openings(adapter: Adapter) -> Sequence[Stores]:
    """As many openings as there are claimants, each with connections of its own."""
    return [await adapter.open_another() for _ in range(CLAIMANTS)]
