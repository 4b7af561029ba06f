"""The command that ends a doubt, run as operators do: on the stores of running hosts, told where by the environment."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest

from app.doubts import main
from tests.host.bank import Bank
from tests.host.bodies import Json, answers, approve, says
from tests.host.hosts import Hosts
from tests.host.worlds import World, redis_world, sqlite_world

WHERE = ["--scope", "alice", "--agent", "payments"]
WHO = ["--by", "operator-1", "--evidence", "the bank's statement"]

Command = Callable[..., Awaitable[tuple[int, str]]]


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.external_service)])
def opening(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AbstractAsyncContextManager[World]:
    """A world, and the environment that tells the command where it is."""
    told = {"ENVIRONMENT": "development", "SCOPE": "fixed", "STORES": "sql" if request.param == "sqlite" else "redis"}
    if request.param == "sqlite":
        world = sqlite_world(request.getfixturevalue("sqlite_template"), tmp_path)
        told["DATABASE_URL"] = f"sqlite+aiosqlite:///{tmp_path / 'hosts.db'}"
    else:
        told["REDIS_URL"] = request.getfixturevalue("redis_url")
        world = redis_world(told["REDIS_URL"])
    for name, value in told.items():
        monkeypatch.setenv(f"AGUI_{name}", value)
    return world


@pytest.fixture
async def hosts(opening: AbstractAsyncContextManager[World], bank: Bank) -> AsyncIterator[Hosts]:
    """Two hosts; B does not wait long for a tool."""
    async with opening as world, AsyncExitStack() as stack:
        hosts = Hosts(world, bank.url, stack)
        hosts.a, hosts.b = await hosts.start(), await hosts.start(tool_seconds=0.3)
        yield hosts


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command in a thread of its own, as it has a loop of its own; answers its code and what it printed."""

    async def run(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        code = await asyncio.to_thread(main, arguments)
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


async def test_an_operator_finds_a_doubt_looks_into_it_and_ends_it_while_hosts_run(
    hosts: Hosts, bank: Bank, command: Command
) -> None:
    assert await command("list", "--scope", "alice") == (0, "")
    asked = await hosts.a.send(says("t", "wire INV-1 to ACME"))
    await bank.delay("INV-1", 600)
    body = answers("t", approve(*asked.ids))
    assert (await hosts.b.send(body)).code == "APPROVAL_OUTCOME_INDETERMINATE"

    code, text = await command("list", "--scope", "alice")
    (line,) = [json.loads(each) for each in text.splitlines()]
    assert (code, line["thread"], line["interrupt"]) == (0, "t", asked.ids[0])
    assert "INV-1" not in text
    code, text = await command("show", *WHERE, "t", asked.ids[0])
    shown: Json = json.loads(text)
    assert (code, shown["idempotencyKey"]) == (0, asked.ids[0])
    assert shown["arguments"] == {"invoice": "INV-1", "payee": "ACME"}

    call = [*WHERE, "t", asked.ids[0], "--attempt", line["attempt"], *WHO]
    code, text = await command("resolve", *call, "--did-not-happen")
    assert (code, "can not happen any more" in text) == (1, True)
    code, text = await command("resolve", *call, "--happened", "--result", "Wired, says the bank.")
    assert (code, "goes on" in text) == (0, True)
    code, text = await command("resolve", *call, "--did-not-happen", "--process-ended")
    assert (code, "not in doubt" in text) == (1, True)

    assert (await hosts.a.send(body)).results == ["Wired, says the bank."]
    assert (await command("show", *WHERE, "t", asked.ids[0]))[0] == 1


async def test_the_command_is_a_program_of_its_own(hosts: Hosts) -> None:
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app.doubts", "list", "--scope", "alice"), stdout=asyncio.subprocess.PIPE
    )
    assert (await program.communicate(), program.returncode) == ((b"", None), 0)


@pytest.mark.parametrize(
    "what", [["--happened"], ["--did-not-happen", "--result", "Wired."], [], ["--happened", "--did-not-happen"]]
)
def test_a_statement_is_whole_and_does_not_contradict_itself(what: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["resolve", *WHERE, "t", "af-call-1", "--attempt", "1", *WHO, *what])
    assert ended.value.code == 2


def test_what_a_host_keeps_in_its_memory_can_not_be_reached(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"ENVIRONMENT": "development", "SCOPE": "fixed", "STORES": "memory"}.items():
        monkeypatch.setenv(f"AGUI_{name}", value)

    assert main(["list", "--scope", "alice"]) == 2

    assert "memory" in capsys.readouterr().err
