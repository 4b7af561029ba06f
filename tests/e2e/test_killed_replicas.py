"""Every approval loses the replica that carries it out, to SIGKILL at a random step, and none of them is lost.

`E2E_SEED` repeats the draw of an earlier run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from deploy.running import running_cluster
from tests.e2e.approvals import IDEMPOTENT, TRANSACTIONAL, UNSAFE, Kind, many
from tests.e2e.campaign import run_campaign, show
from tests.e2e.checker import violations
from tests.e2e.databases import database
from tests.e2e.kill_orders import KillOrders
from tests.e2e.killable import ORDERS_VARIABLE

KILLABLE = "tests.e2e.killable:create_killable_app"
PEOPLE = 10
"""Enough that, while some wait for the lease of a dead replica, there is always one to kill."""
LEASE_SECONDS = 4.0
"""A replica that is starved for longer is taken over alive, which leaves an unsafe call in doubt as its death would."""


@pytest.mark.timeout(420)
@pytest.mark.parametrize(
    ("store", "counts", "hits_min"),
    [
        pytest.param(
            "sqlite",
            {IDEMPOTENT: 50, TRANSACTIONAL: 50, UNSAFE: 20},
            108,
            id="sqlite",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "postgres",
            {IDEMPOTENT: 5, TRANSACTIONAL: 5, UNSAFE: 5},
            10,
            id="postgres",
            marks=pytest.mark.external_service,
        ),
    ],
)
def test_no_approval_is_lost_or_doubled_when_its_replica_is_killed(
    store: str, counts: Mapping[Kind, int], hits_min: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("E2E_SEED", random.SystemRandom().randrange(2**32)))
    print(f"E2E_SEED={seed}")
    rng = random.Random(seed)
    approvals = [approval for kind, count in counts.items() for approval in many(kind, count, rng)]
    rng.shuffle(approvals)
    orders = tmp_path / "orders"
    orders.mkdir()
    environment = {
        ORDERS_VARIABLE: str(orders),
        "AGUI_RECONCILE_SECONDS": "0.5",
        # A hundred starts: each costs a third with the bytecode that the first one leaves.
        "PYTHONDONTWRITEBYTECODE": "",
    }

    with (
        database(store) as url,
        running_cluster(
            tmp_path, app=KILLABLE, database_url=url, lease_seconds=LEASE_SECONDS, environment=environment
        ) as cluster,
    ):
        campaign = run_campaign(cluster, approvals, KillOrders(orders), people=PEOPLE)

    with capsys.disabled():
        show(campaign, f"SIGKILL, {store}, E2E_SEED={seed}")
    assert violations(campaign, hits_min=hits_min) == []
