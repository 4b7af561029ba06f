"""One host as a process of its own, without a launcher: for what it does before it is ready."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from deploy.free_ports import find_free_ports
from deploy.processes import Child, Program

NOWHERE = "http://127.0.0.1:9"
"""A bank that nobody reaches: for hosts whose tools only write in the database."""


@asynccontextmanager
async def running_host(directory: Path, database_url: str, **settings: str) -> AsyncIterator[Child]:
    """Start a host and do not wait for it; `settings` are AGUI_ variables."""
    [port] = find_free_ports(1)
    environment = {
        "AGUI_ENVIRONMENT": "development",
        "AGUI_SCOPE": "header",
        "AGUI_TRUSTED_PROXIES": "127.0.0.0/8",
        "AGUI_DATABASE_URL": database_url,
        "AGUI_BANK_URL": NOWHERE,
        "AGUI_LEASE_SECONDS": "2",
        "AGUI_STORE_TIMEOUT_SECONDS": "1",
        **settings,
    }
    command = (sys.executable, "-m", "uvicorn", "--factory", "app.main:create_app_from_environment")
    program = Program(
        name="host",
        command=(*command, "--host", "127.0.0.1", "--port", str(port), "--no-proxy-headers"),
        environment=environment,
        port=port,
        ready_path="/readyz",
    )
    host = Child(program, directory)
    await host.start()
    try:
        yield host
    finally:
        await host.stop()
