"""The load balancer of the local cluster: a real Caddy, from its wheel, run with deploy/Caddyfile."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.processes import Program


def balancer_program(*, port: int, upstream_ports: Sequence[int], storage: Path) -> Program:
    """Describe the balancer that listens on a local `port` and spreads requests over local `upstream_ports`."""
    environment = {
        "BALANCER_PORT": str(port),
        "BALANCER_UPSTREAMS": " ".join(f"127.0.0.1:{upstream}" for upstream in upstream_ports),
        "BALANCER_STORAGE": str(storage),
    }
    config = Path(__file__).with_name("Caddyfile")
    return Program(
        name="balancer",
        command=(_caddy(), "run", "--config", str(config), "--adapter", "caddyfile"),
        environment=environment,
        port=port,
        ready_path="/readyz",
    )


def _caddy() -> str:
    """Return the caddy that was installed beside this Python, else the one on the path."""
    found = shutil.which("caddy", path=str(Path(sys.executable).parent)) or shutil.which("caddy")
    if found is None:
        raise FileNotFoundError("No caddy found: install the dependency group `cluster` (make install).")
    return found
