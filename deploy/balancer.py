"""The load balancer of the local cluster: a real Caddy, from its wheel, run with a copy of deploy/Caddyfile.

The copy is the cluster's own, in its state directory; Caddy reads it anew on SIGUSR1, and streams in progress go on.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.processes import Program

ANSWER_HEADER = "x-agui-balancer"
"""What `label_answers` lets the balancer add to each answer."""
_ORIGINAL = Path(__file__).with_name("Caddyfile")
_LISTENS = "\tbind 127.0.0.1\n"


def balancer_program(*, port: int, upstream_ports: Sequence[int], directory: Path) -> Program:
    """Describe the balancer that listens on a local `port` and spreads requests over local `upstream_ports`.

    Its copy of the configuration is made in `directory`.
    """
    config = shutil.copyfile(_ORIGINAL, config_file(directory))
    environment = {
        "BALANCER_PORT": str(port),
        "BALANCER_UPSTREAMS": " ".join(f"127.0.0.1:{upstream}" for upstream in upstream_ports),
        "BALANCER_STORAGE": str(directory / "caddy"),
    }
    return Program(
        name="balancer",
        command=(_caddy(), "run", "--config", str(config), "--adapter", "caddyfile"),
        environment=environment,
        port=port,
        ready_path="/readyz",
    )


def config_file(directory: Path) -> Path:
    """Return where the balancer of the cluster in this state directory reads its configuration."""
    return directory / "Caddyfile"


def label_answers(label: str) -> str:
    """Return the configuration with one change to see: each answer carries this label in ANSWER_HEADER."""
    before, listens, after = _ORIGINAL.read_text().partition(_LISTENS)
    if not listens:
        raise ValueError(f"deploy/Caddyfile has no line {_LISTENS.strip()!r} to put a header after.")
    return f"{before}{listens}\theader {ANSWER_HEADER} {label}\n{after}"


def _caddy() -> str:
    """Return the caddy that was installed beside this Python, else the one on the path."""
    found = shutil.which("caddy", path=str(Path(sys.executable).parent)) or shutil.which("caddy")
    if found is None:
        raise FileNotFoundError("No caddy found: install the dependency group `cluster` (make install).")
    return found
