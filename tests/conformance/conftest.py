"""Fixtures of the races, and the options that run this suite on your own stores instead of ours."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from stores.options import RedisOptions, StoreOptions
from stores.ports import Stores
from tests.conformance.adapters import Adapter, BackDoor
from tests.conformance.examples import CLAIMANTS
from tests.conformance.own_stores import WITHOUT_BACK_DOOR, OwnStores, options_of, own_stores

FOLDER = Path(__file__).parent
OWN = pytest.StashKey[Sequence[OwnStores]]()
LEFT_OUT = pytest.StashKey[tuple[int, int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    group.addoption(
        "--stores",
        action="append",
        metavar="PACKAGE.MODULE:NAME",
        help="run the conformance suite on these stores alone: called with StoreOptions, an async context manager of "
        "Stores. A make_world in the same module, called so too, is one of an Adapter (tests/conformance/adapters.py)",
    )
    of_test = "; '{world}' in it becomes a new name for every test"
    group.addoption("--stores-database-url", metavar="URL", help=f"default: a new folder for every test{of_test}")
    group.addoption("--stores-redis-url", metavar="URL", help=f"default: empty{of_test}")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[OWN] = [own_stores(name) for name in config.getoption("stores", default=None) or ()]


def pytest_collectstart(collector: pytest.Collector) -> None:
    own = collector.config.stash[OWN]
    if own and isinstance(collector, pytest.Directory) and collector.path == FOLDER:
        names = tuple(each.name for each in own)
        pytest.register_fixture(name="_fresh_adapter", func=_own_adapter, node=collector, params=own, ids=names)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.stash[OWN]:
        ours = [item for item in items if "adapter" not in getattr(item, "fixturenames", ())]
        closed = [item for item in items if item not in ours and _lacks_back_door(item)]
        config.stash[LEFT_OUT] = len(ours), len(closed)
        config.hook.pytest_deselected(items=[*ours, *closed])
        items[:] = [item for item in items if item not in ours and item not in closed]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if LEFT_OUT in config.stash:
        ours, closed = config.stash[LEFT_OUT]
        terminalreporter.section("conformance")
        terminalreporter.line(f"left out: {ours}, each about the stores of this repository")
        terminalreporter.line(f"left out: {closed}, each {WITHOUT_BACK_DOOR}")


@pytest.fixture
def back_door(adapter: Adapter) -> BackDoor:
    """The way to the stored data that does not lead through the adapter."""
    return adapter.back_door


@pytest.fixture
async def openings(adapter: Adapter) -> Sequence[Stores]:
    """As many openings as there are claimants, each with connections of its own."""
    return [await adapter.open_another() for _ in range(CLAIMANTS)]


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.external_service),
        pytest.param("redis", marks=pytest.mark.external_service),
    ]
)
def served(request: pytest.FixtureRequest, tmp_path: Path) -> StoreOptions:
    """Options that lead to every store with a clock of its own, for tests in several processes or through a proxy."""
    if request.param == "sqlite":
        database = shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "served.db")
        return StoreOptions("sql", database_url=f"sqlite+aiosqlite:///{database}")
    if request.param == "postgres":
        return StoreOptions("sql", database_url=request.getfixturevalue("postgres_database"))
    return StoreOptions("redis", redis=RedisOptions(request.getfixturevalue("redis_url")))


def _own_adapter(request: pytest.FixtureRequest, tmp_path: Path) -> AbstractAsyncContextManager[Adapter]:
    own: OwnStores = request.param
    database_url, redis_url = map(request.config.getoption, ("stores_database_url", "stores_redis_url"))
    return own.adapter(options_of(own.name, database_url, redis_url, tmp_path))


def _lacks_back_door(item: pytest.Item) -> bool:
    own: OwnStores = item.callspec.params["_fresh_adapter"]  # type: ignore[attr-defined]  # parametrized, so it has one
    return own.make_world is None and "back_door" in item.fixturenames  # type: ignore[attr-defined]  # it is a function
