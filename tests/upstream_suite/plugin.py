"""The pytest plugin: every `AgentFrameworkAgent.run` of upstream's tests is answered by a host of this project."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import BaseEvent
from agent_framework_ag_ui import AgentFrameworkAgent

from tests.upstream_suite.served import Served
from tests.upstream_suite.worlds import Opener, memory_worlds, sqlite_worlds

STORES_VARIABLE = "UPSTREAM_SUITE_STORES"
OUTCOMES_VARIABLE = "UPSTREAM_SUITE_OUTCOMES"


class HostsUnderTests:
    """Gives each test hosts of its own, over fresh stores."""

    def __init__(self, new_world: Opener) -> None:
        self._new_world = new_world
        self._served = Served(new_world)

    def pytest_runtest_setup(self) -> None:
        """Forget what the test before left."""
        self._served = Served(self._new_world)

    async def run(
        self,
        upstreams: AgentFrameworkAgent,
        input_data: dict[str, Any],
        *,
        function_invocation_kwargs: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[BaseEvent, None]:
        """What `AgentFrameworkAgent.run` is here."""
        async for event in self._served.run(upstreams, input_data, function_invocation_kwargs):
            yield event


class Outcomes:
    """Notes where pytest collects the reports which test passed, and writes it down at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._passed: dict[str, bool] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test as passed if all of its phases were, and it was not skipped."""
        name = report.nodeid.removeprefix("tests/ag_ui/")
        self._passed[name] = self._passed.get(name, True) and report.passed

    def pytest_sessionfinish(self) -> None:
        """Leave the outcomes to who started the tests."""
        self._path.write_text(json.dumps(self._passed))


def pytest_configure(config: pytest.Config) -> None:
    """Put the hosts under the tests, in every process that runs some; the one that collects the reports keeps them."""
    hosts = HostsUnderTests(sqlite_worlds() if os.environ.get(STORES_VARIABLE) == "sqlite" else memory_worlds())
    config.pluginmanager.register(hosts)

    async def run(self: AgentFrameworkAgent, input_data: dict[str, Any], **options: Any) -> Any:
        async for event in hosts.run(self, input_data, **options):
            yield event

    AgentFrameworkAgent.run = run  # type: ignore[method-assign]  # this is what the suite is about
    path = os.environ.get(OUTCOMES_VARIABLE)
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(Path(path)))
