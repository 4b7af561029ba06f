"""Runs upstream's own tests on this project's runner and stores: `python -m tests.upstream_suite`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.upstream_suite.fetch import ROOT, NotFetched, Suite, fetch
from tests.upstream_suite.verdict import Verdict, judge, read_differences

DIFFERENCES = Path(__file__).with_name("differences.toml")
SECONDS_MAX = 600
"""The whole suite; it takes one to four minutes on two cores, as busy as they are."""
TEST_SECONDS_MAX = 60


def main() -> int:
    """Fetch, run, judge; 0 if upstream's tests did what is expected of them."""
    parser = argparse.ArgumentParser(prog="upstream-suite", description=__doc__)
    parser.add_argument("--stores", choices=("memory", "sqlite"), default="memory")
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--tests", default="tests", help="some of them only; then nothing is judged")
    chosen = parser.parse_args()
    try:
        suite = fetch()
    except NotFetched as error:
        print(error, file=sys.stderr)
        return 2
    outcomes = _run(suite, chosen)
    if chosen.tests != "tests":
        return 0 if all(outcomes.values()) else 1
    verdict = judge(outcomes, read_differences(tomllib.loads(DIFFERENCES.read_text())))
    _print(verdict)
    return 1 if verdict.problems else 0


def _run(suite: Suite, chosen: argparse.Namespace) -> dict[str, bool]:
    with tempfile.TemporaryDirectory() as folder:
        outcomes = Path(folder) / "outcomes.json"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(suite.packages))),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONWARNINGS": "ignore",
            "UPSTREAM_SUITE_STORES": chosen.stores,
            "UPSTREAM_SUITE_OUTCOMES": str(outcomes),
        }
        options = ["-p", "tests.upstream_suite.plugin", "-p", "no:cacheprovider", f"--timeout={TEST_SECONDS_MAX}"]
        quiet = [
            "--quiet",
            "--disable-warnings",
            "--show-capture=no",
            "--tb=no" if chosen.tests == "tests" else "--tb=short",
        ]
        command = [sys.executable, "-m", "pytest", *options, *quiet, "-n", chosen.jobs, *chosen.tests.split()]
        subprocess.run(command, cwd=suite.tests, env=environment, timeout=SECONDS_MAX, check=False)
        found: dict[str, bool] = json.loads(outcomes.read_text()) if outcomes.exists() else {}
        return found


def _print(verdict: Verdict) -> None:
    print(f"\nUpstream's own tests on this host: {verdict.passed} passed, {verdict.failed} failed")
    for rule, count in sorted(verdict.by_rule.items()):
        print(f"  {count:4}  {rule}")
    for problem in verdict.problems:
        print(f"WRONG  {problem}")
    if not verdict.problems:
        print("Every failure is an expected difference, and every expected difference is one.")


if __name__ == "__main__":
    sys.exit(main())
