"""The suite as it is run on a user's stores: it passes an adapter that keeps the contract, and no other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

REPOSITORY = Path(__file__).parents[2]
SUITE = "tests/conformance"
FORMATS, THREADS = f"{SUITE}/test_unknown_formats.py", f"{SUITE}/test_thread_store.py"
LOCK = "        with self._locked():\n"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run of the suite said; `failed` counts errors too."""

    code: int
    passed: int
    failed: int
    said: str


def run_suite(folder: Path, *arguments: str, suite: Sequence[str] = (SUITE,), python_path: Path | None = None) -> Ran:
    """Run the suite in a process of its own, as a user of a clone does."""
    report = folder / "report.xml"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "AGUI_"))}
    command = [sys.executable, "-m", "pytest", *suite, "-p", "no:cacheprovider", "-p", "no:xdist", "--junitxml", report]
    ended = subprocess.run(
        [*map(str, command), *arguments],
        cwd=REPOSITORY,
        env=environment | ({} if python_path is None else {"PYTHONPATH": str(python_path)}),
        capture_output=True,
        text=True,
        check=False,
    )
    said = ended.stdout + ended.stderr
    if not report.exists():
        return Ran(ended.returncode, 0, 0, said)
    counts = ET.parse(report).getroot()[0].attrib
    total, failures, errors, skipped = (int(counts[name]) for name in ("tests", "failures", "errors", "skipped"))
    return Ran(ended.returncode, total - failures - errors - skipped, failures + errors, said)


@pytest.mark.timeout(600)
def test_the_example_adapter_passes_the_whole_suite(tmp_path: Path) -> None:
    ran = run_suite(tmp_path, "--stores", "tests.example_adapter.world:make_stores")
    assert (ran.code, ran.failed) == (0, 0), ran.said
    assert ran.passed > 250
    assert "left out: 0, each needs a back door" in ran.said


def test_stores_without_a_back_door_are_told_what_was_left_out(tmp_path: Path) -> None:
    worlds = tmp_path / "worlds"
    to_worlds = ("--stores-database-url", f"{worlds.as_uri()}/{{world}}")
    arguments = ("--stores", "tests.example_adapter:make_stores", "-k", "unknown_format or never_written_is_empty")
    ran = run_suite(tmp_path, *arguments, *to_worlds, suite=[FORMATS, THREADS])
    assert (ran.code, ran.passed, ran.failed) == (0, 1, 0), ran.said
    assert "left out: 0, each needs a back door" not in ran.said
    assert "each needs a back door" in ran.said
    assert len(list(worlds.iterdir())) == 1


@pytest.mark.timeout(600)
def test_a_compare_and_set_that_reads_and_then_writes_does_not_pass(tmp_path: Path) -> None:
    # A user's package outside of the repository: the example, but for its lock.
    broken = tmp_path / "somewhere" / "broken_adapter"
    shutil.copytree(REPOSITORY / "tests" / "example_adapter", broken)
    for path in broken.glob("*.py"):
        path.write_text(path.read_text().replace("tests.example_adapter", "broken_adapter"))
    source = (broken / "folder.py").read_text()
    assert source.count(LOCK) == 1
    (broken / "folder.py").write_text(source.replace(LOCK, "        if True:\n"))
    arguments = ("--stores", "broken_adapter:make_stores", "-k", "_races")
    ran = run_suite(tmp_path, *arguments, python_path=broken.parent)
    assert ran.code == pytest.ExitCode.TESTS_FAILED, ran.said
    assert ran.failed > 3
    assert "test_of_sixteen_attempts_one_reserves" in ran.said.rpartition("short test summary")[2]


@pytest.mark.parametrize("name", ["no_such_package:make_stores", "tests.example_adapter:no_such_name"])
def test_a_name_that_leads_nowhere_is_refused_before_any_test(tmp_path: Path, name: str) -> None:
    ran = run_suite(tmp_path, "--stores", name)
    assert ran.code == pytest.ExitCode.USAGE_ERROR
    assert f"--stores {name}: " in ran.said
