"""Part of the crash-point table with real processes: SIGKILL at a named step has the outcome that is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.running import RunningCluster, running_cluster
from tests.crash_points.points import Journey, Outcome, calls, effects, outcome
from tests.e2e.approvals import IDEMPOTENT, TRANSACTIONAL, UNSAFE, Approval
from tests.e2e.campaign import run_campaign
from tests.e2e.databases import database
from tests.e2e.kill_orders import KillOrders
from tests.e2e.killable import ORDERS_VARIABLE

LEASE_SECONDS = 1.0
"""Nobody takes a thread over before its client sends again, and a client does when its replica is dead: a replica that
is starved for longer than this is waited for, and changes no outcome."""
NEVER_SECONDS = "3600"
KINDS = {Journey.IDEMPOTENT: IDEMPOTENT, Journey.TRANSACTIONAL: TRANSACTIONAL, Journey.UNSAFE: UNSAFE}


@pytest.fixture(scope="module")
def killable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningCluster, KillOrders]]:
    """One cluster for all of them; a replica that was killed comes back."""
    directory = tmp_path_factory.mktemp("killed")
    orders: Path = directory / "orders"
    orders.mkdir()
    environment = {
        ORDERS_VARIABLE: str(orders),
        "AGUI_RECONCILE_SECONDS": NEVER_SECONDS,
        # Each start costs a third with the bytecode that the first one leaves.
        "PYTHONDONTWRITEBYTECODE": "",
    }
    with (
        database("sqlite") as url,
        running_cluster(
            directory,
            app="tests.e2e.killable:create_killable_app",
            database_url=url,
            lease_seconds=LEASE_SECONDS,
            environment=environment,
        ) as cluster,
    ):
        yield cluster, KillOrders(orders)


@pytest.mark.xdist_group("killed at named steps")
@pytest.mark.parametrize(
    ("journey", "point"),
    [
        (Journey.IDEMPOTENT, "after-claim"),
        (Journey.IDEMPOTENT, "after-effect"),
        (Journey.IDEMPOTENT, "before-finish"),
        (Journey.TRANSACTIONAL, "before-settle"),
        (Journey.TRANSACTIONAL, "after-settle"),
        (Journey.UNSAFE, "before-claim"),
        (Journey.UNSAFE, "before-begin"),
        (Journey.UNSAFE, "after-begin"),
        (Journey.UNSAFE, "before-settle"),
        (Journey.UNSAFE, "after-finish"),
    ],
)
def test_a_killed_process_has_the_outcome_that_is_allowed(
    killable: tuple[RunningCluster, KillOrders], journey: Journey, point: str
) -> None:
    approval = Approval(KINDS[journey], f"{journey}-{point}-1", point)
    campaign = run_campaign(killable[0], [approval], killable[1], people=1)

    allowed = outcome(journey, point)
    assert [hit.step for hit in campaign.hits if hit.thread_id == approval.thread_id] == [point]
    assert approval.is_in_doubt == (allowed is Outcome.IN_DOUBT), approval.answer
    assert approval.is_answered == (allowed is not Outcome.IN_DOUBT), approval.answer
    assert approval.answer.is_replay == (allowed is Outcome.REPLAYED)
    happened = campaign.bank.of(approval)
    assert (len(happened), sum(each.get("calls", 1) for each in happened)) == (
        effects(journey, point),
        calls(journey, point),
    )
    assert approval.duplicate.is_replay == approval.is_answered
    assert approval.duplicate.tool_results == approval.answer.tool_results
