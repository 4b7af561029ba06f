"""Clients that nobody here wrote pause, resume and hydrate on a real cluster, while its replicas are killed."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from ag_ui.core import ResumeEntry
from agent_framework import ChatResponse, Message
from agent_framework_ag_ui import AGUIChatClient, AGUIChatOptions, AGUIHttpService
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from deploy.cluster_file import FILE_NAME
from deploy.running import RunningCluster, running_cluster
from deploy.waiting import wait_until

JAVASCRIPT = Path(__file__).parent / "js"
SCOPE_HEADER = "x-agui-scope"
REPLICA_HEADER = "x-agui-replica"
ANSWER_SECONDS_MAX = 60
NPM_SECONDS_MAX = 120


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[RunningCluster]:
    with running_cluster(directory) as running:
        yield running


@pytest.fixture
def ready(cluster: RunningCluster) -> RunningCluster:
    """The cluster, once every replica is there (again)."""
    for name in cluster.names:
        cluster.wait_ready(name)
    return cluster


@pytest.fixture
def invoice() -> str:
    return f"INV-{uuid4().hex[:8]}-1"


@pytest.fixture(scope="module")
def node() -> str:
    """Node with the JavaScript client installed beside the check script."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        if os.environ.get("CI"):
            pytest.fail("The JavaScript client is not checked: CI needs Node >= 20 with npm.")
        pytest.skip("The JavaScript client is not checked: there is no Node with npm here.")
    install_javascript(npm)
    return node


def install_javascript(npm: str) -> None:
    """Install once for each state of the lock file, whatever number of test processes ask for it."""
    stamp = JAVASCRIPT / "node_modules" / ".installed"
    with (JAVASCRIPT / "package-lock.json").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = sha256(lock.read()).hexdigest()
        if stamp.exists() and stamp.read_text() == wanted:
            return
        command = [npm, "ci", "--no-audit", "--no-fund"]
        done = subprocess.run(
            command, cwd=JAVASCRIPT, capture_output=True, text=True, timeout=NPM_SECONDS_MAX, check=False
        )
        assert done.returncode == 0, done.stderr
        stamp.write_text(wanted)


@pytest.mark.parametrize("scenario", ["paused", "running"])
def test_javascript_client_is_answered_when_its_replica_is_killed(
    node: str, ready: RunningCluster, directory: Path, invoice: str, scenario: str
) -> None:
    command = [node, "check.mjs", scenario, str(directory / FILE_NAME), invoice]
    done = subprocess.run(command, cwd=JAVASCRIPT, capture_output=True, text=True, timeout=150, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert payees(ready, invoice) == ["GLOBEX" if scenario == "paused" else "ACME"]


async def test_upstream_client_is_answered_when_the_replica_that_paused_is_killed(
    ready: RunningCluster, invoice: str
) -> None:
    async with open_page(ready.url) as page:
        card = await page.ask(f"pay {invoice} to ACME")
        paused = page.replica
        await asyncio.to_thread(ready.kill, paused)

        assert await page.reload() == [card]
        answer = await page.send(resume=approval(card, payee="GLOBEX"))

        assert page.replica != paused
        assert f"Paid {invoice} to GLOBEX" in answer.text
        assert await page.reload() == []
        assert await page.roles() == ["user", "assistant", "tool", "assistant"]
        duplicate = await page.send(resume=approval(card, payee="GLOBEX"))
        assert duplicate.text == answer.text
    assert payees(ready, invoice) == ["GLOBEX"]


async def test_upstream_client_is_answered_when_the_replica_that_runs_the_call_is_killed(
    ready: RunningCluster, invoice: str
) -> None:
    async with open_page(ready.url) as page:
        card = await page.ask(f"pay {invoice} to ACME")
        assert await page.reload() == [card]
        set_delay(ready, invoice, ANSWER_SECONDS_MAX)
        first = asyncio.create_task(page.post(resume=approval(card)))
        await asyncio.to_thread(wait_until, lambda: payees(ready, invoice), "the bank was asked to pay")
        await asyncio.to_thread(ready.kill, page.replica)
        with pytest.raises(httpx.RemoteProtocolError):
            await first
        set_delay(ready, invoice, 0)

        answer = await page.send(resume=approval(card))

        assert f"Paid {invoice} to ACME" in answer.text
        assert await page.reload() == []
        assert await page.roles() == ["user", "assistant", "tool", "assistant"]
    assert payees(ready, invoice) == ["ACME"]


class NotAnswered(Exception):
    pass


class Page:
    """One thread as upstream's client sees it; `replica` is who served it last."""

    def __init__(self, http: httpx.AsyncClient, endpoint: str) -> None:
        self.replica = ""
        self._thread_id = uuid4().hex
        self._client = AGUIChatClient(endpoint=endpoint, http_client=http)
        self._service = AGUIHttpService(endpoint, http)

    async def note_replica(self, response: httpx.Response) -> None:
        self.replica = response.headers.get(REPLICA_HEADER, "")

    async def post(self, *messages: Message, resume: list[ResumeEntry] | None = None) -> ChatResponse[Any]:
        options: AGUIChatOptions[None] = {"metadata": {"thread_id": self._thread_id}}
        if resume is not None:
            options["resume"] = resume
        response = await self._client.get_response(messages, options=options)
        # This client passes no codes on, so any error may be one to repeat.
        problems = [each.message for message in response.messages for each in message.contents if each.type == "error"]
        if problems or response.finish_reason != "stop":
            raise NotAnswered(problems)
        return response

    async def send(self, *messages: Message, resume: list[ResumeEntry] | None = None) -> ChatResponse[Any]:
        """Send the same until it is answered."""
        again = AsyncRetrying(
            retry=retry_if_exception_type((httpx.HTTPError, NotAnswered)),
            wait=wait_fixed(0.25),
            stop=stop_after_delay(ANSWER_SECONDS_MAX),
            reraise=True,
        )
        return await again(self.post, *messages, resume=resume)

    async def ask(self, words: str) -> dict[str, Any]:
        response = await self.send(Message("user", [words]))
        (card,) = response.additional_properties["interrupts"]
        assert isinstance(card, dict)
        return card

    async def reload(self) -> list[Any]:
        """Hydrate the thread and return the cards that wait."""
        response = await self.send()
        return list(response.additional_properties.get("interrupts", ()))

    async def roles(self) -> list[str]:
        """Hydrate with upstream's service below that client, which itself passes no history on."""
        events = self._service.post_run(self._thread_id, uuid4().hex, [])
        (snapshot,) = [event async for event in events if event["type"] == "MESSAGES_SNAPSHOT"]
        return [message["role"] for message in snapshot["messages"]]


@asynccontextmanager
async def open_page(url: str) -> AsyncIterator[Page]:
    async with httpx.AsyncClient(headers={SCOPE_HEADER: "outside-python"}, timeout=ANSWER_SECONDS_MAX) as http:
        page = Page(http, f"{url}/agents/payments")
        http.event_hooks = {"response": [page.note_replica]}
        yield page


def approval(card: dict[str, Any], **edited: str) -> list[ResumeEntry]:
    return [ResumeEntry(interrupt_id=card["id"], status="resolved", payload={"approved": True, **edited})]


def payees(cluster: RunningCluster, invoice: str) -> list[str]:
    """Return whom the bank has paid for an invoice, once per payment."""
    effects = httpx.get(f"{cluster.bank_url}/effects", params={"invoice_prefix": invoice}).json()
    assert effects["counts"]["wires"] == effects["counts"]["refunds"] == 0
    return [payment["payee"] for payment in effects["payments"]]


def set_delay(cluster: RunningCluster, invoice: str, seconds: float) -> None:
    httpx.put(f"{cluster.bank_url}/delays/{invoice}", json={"seconds": seconds}).raise_for_status()
