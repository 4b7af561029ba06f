"""Approvals in Redis, effects in PostgreSQL: Redis forgets what it acknowledged, and no call has a second effect."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from redis import Redis

from deploy.agui_client import connect
from deploy.running import RunningCluster, running_cluster
from deploy.waiting import wait_until
from tests.e2e.approvals import IDEMPOTENT, TRANSACTIONAL, UNSAFE, Approval, BankEffects, delay
from tests.servers import RedisServer, postgres, redis
from tests.servers.valkey import running

pytestmark = pytest.mark.external_service

KINDS = (IDEMPOTENT, TRANSACTIONAL, UNSAFE)
BANK_SECONDS = 3.0
"""How long the bank takes to answer after the effect: the fault comes in between."""
NOT_FOUND = "APPROVAL_RESUME_NOT_FOUND"
SERVICE = "main"


@contextmanager
def cluster_on(environment: Mapping[str, str], directory: Path) -> Iterator[RunningCluster]:
    """Two replicas with their threads in Redis, and everything about effects in a PostgreSQL of their own."""
    stores = {"AGUI_STORES": "redis", "AGUI_EFFECTS_STORE": "sql", "AGUI_RECONCILE_SECONDS": "0.5"}
    with (
        postgres() as ledger,
        running_cluster(
            directory, replicas=2, database_url=ledger.url, environment={**stores, **environment}
        ) as cluster,
    ):
        yield cluster


def some_approvals(name: str) -> list[Approval]:
    return [Approval(kind, f"{name}-{kind.name}-{number}") for kind in KINDS for number in range(3)]


@asynccontextmanager
async def carried_out(
    cluster: RunningCluster, approvals: Collection[Approval], before: Callable[[], None]
) -> AsyncIterator[None]:
    """Approve everything; the body runs when each call has had its effect.

    Those that the bank carries out have no result yet; those in a transaction are answered already. `before` is called
    when all pauses are there and none is answered. At the end everything is answered, twice.
    """
    async with connect(cluster.url, scope="tenant-1") as client, AsyncExitStack() as stack:
        await asyncio.gather(*(approval.ask(client) for approval in approvals))
        for approval in approvals:
            delay(cluster.bank_url, approval.invoice, BANK_SECONDS)
        await asyncio.to_thread(before)
        answering = await stack.enter_async_context(asyncio.TaskGroup())
        for approval in approvals:
            answering.create_task(approval.approve(client))
        await asyncio.to_thread(wait_until, lambda: has_effects(cluster, approvals), "the bank was called")
        assert not any(approval.replies for approval in approvals if approval.kind is not TRANSACTIONAL), "too late"
        yield
    async with connect(cluster.url, scope="tenant-1") as client:
        for approval in approvals:
            delay(cluster.bank_url, approval.invoice, 0.0)
            await approval.approve_again(client)


def has_effects(cluster: RunningCluster, approvals: Collection[Approval]) -> bool:
    """Whether each call has had its effect, and each in a transaction its answer too."""
    bank = BankEffects.read(cluster.bank_url)
    return all(bank.of(approval) and (approval.replies or approval.kind is not TRANSACTIONAL) for approval in approvals)


def assert_one_effect_each(cluster: RunningCluster, approvals: Collection[Approval]) -> None:
    bank = BankEffects.read(cluster.bank_url)
    effects = {approval.invoice: len(bank.of(approval)) for approval in approvals}
    assert effects == dict.fromkeys(effects, 1)


def assert_answered(approvals: Collection[Approval]) -> None:
    """A call of any kind has its result; an unsafe one may be in doubt instead, if its holder died with it."""
    for approval in approvals:
        assert approval.is_answered or (approval.kind is UNSAFE and approval.is_in_doubt), approval.answer
        assert approval.duplicate.code == approval.answer.code, approval.duplicate
        assert approval.duplicate.tool_results == approval.answer.tool_results


async def test_redis_that_comes_back_empty_causes_no_second_effect(tmp_path: Path) -> None:
    approvals = some_approvals("empty")
    with redis() as threads, cluster_on({"AGUI_REDIS_URL": threads.url}, tmp_path) as cluster:
        async with carried_out(cluster, approvals, before=lambda: None):
            threads.kill()
            shutil.rmtree(threads.folder / "appendonlydir")
            threads.start()
        assert_one_effect_each(cluster, approvals)
        for approval in approvals:
            lost = approval.duplicate if approval.kind is TRANSACTIONAL else approval.answer
            assert (lost.code, lost.metadata["definite"], approval.duplicate.code) == (NOT_FOUND, False, NOT_FOUND)


@pytest.mark.parametrize(
    "holder_dies",
    [pytest.param(False, id="holder lives", marks=pytest.mark.slow), pytest.param(True, id="holder dies")],
)
async def test_redis_that_comes_back_without_its_claims_causes_no_second_effect(
    tmp_path: Path, holder_dies: bool
) -> None:
    approvals = some_approvals("older")
    with redis() as threads, cluster_on({"AGUI_REDIS_URL": threads.url}, tmp_path) as cluster:
        kept, data = tmp_path / "kept", threads.folder / "appendonlydir"
        async with carried_out(cluster, approvals, before=lambda: shutil.copytree(data, kept) and None):
            threads.kill()
            if holder_dies:
                for name in cluster.names:
                    cluster.kill(name)
            shutil.rmtree(data)
            kept.rename(data)
            threads.start()
        assert_one_effect_each(cluster, approvals)
        assert_answered(approvals)
        assert holder_dies or all(approval.is_answered for approval in approvals)


async def test_a_primary_that_dies_with_unreplicated_claims_causes_no_second_effect(tmp_path: Path) -> None:
    approvals = some_approvals("failover")
    with ExitStack() as stack:
        primary, replica, sentinel = watched_pair(stack)
        environment = {
            "AGUI_REDIS_URL": primary.url,
            "AGUI_REDIS_SENTINELS": f"127.0.0.1:{sentinel.port}",
            "AGUI_REDIS_SENTINEL_SERVICE": SERVICE,
        }
        cluster = stack.enter_context(cluster_on(environment, tmp_path))

        def cut_replication() -> None:
            wait_until(lambda: offset(primary) == offset(replica), "the replica has every pause")
            with Redis.from_url(primary.url) as connection:
                connection.execute_command("ACL SETUSER replication off")
                connection.execute_command("CLIENT KILL TYPE replica")

        async with carried_out(cluster, approvals, before=cut_replication):
            assert offset(primary) > offset(replica), "the claims were acknowledged, and are nowhere else"
            await asyncio.to_thread(primary.kill)
        with Redis.from_url(replica.url) as connection:
            assert connection.info("replication")["role"] == "master"
        assert_one_effect_each(cluster, approvals)
        assert_answered(approvals)
        assert all(approval.is_answered for approval in approvals)


def watched_pair(stack: ExitStack) -> tuple[RedisServer, RedisServer, RedisServer]:
    """A primary, its replica with a user of its own for replication, and a Sentinel that promotes it within seconds."""
    user = {"user replication": "on >secret +psync +replconf +ping"}
    follows = {"masteruser": "replication", "masterauth": "secret", "repl-diskless-sync-delay": "0"}
    primary = stack.enter_context(redis(**user, **follows))
    replica = stack.enter_context(redis(**user, **follows, replicaof=f"127.0.0.1 {primary.port}"))
    wait_until(lambda: is_linked(replica), "the replica follows")
    watching = {
        "sentinel monitor": f"{SERVICE} 127.0.0.1 {primary.port} 1",
        "sentinel down-after-milliseconds": f"{SERVICE} 1000",
        "sentinel failover-timeout": f"{SERVICE} 5000",
    }
    sentinel = stack.enter_context(running(watching, is_sentinel=True))
    wait_until(lambda: knows_replica(sentinel), "the Sentinel knows the replica")
    return primary, replica, sentinel


def is_linked(replica: RedisServer) -> bool:
    with Redis.from_url(replica.url) as connection:
        return bool(connection.info("replication")["master_link_status"] == "up")


def offset(server: RedisServer) -> int:
    with Redis.from_url(server.url) as connection:
        told = connection.info("replication")
    return int(told["master_repl_offset"] if told["role"] == "master" else told["slave_repl_offset"])


def knows_replica(sentinel: RedisServer) -> bool:
    with Redis.from_url(sentinel.url, decode_responses=True) as connection:
        return len(connection.execute_command("SENTINEL REPLICAS", SERVICE)) == 1
