"""Fetches upstream's tests, in the version that the lock pins, and the packages they need: by hash, and only once."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "agent-framework-ag-ui"
ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
NEEDED = Path(__file__).with_name("packages.txt")
KEPT_IN = ROOT / ".venv" / "upstream-suite"
TESTS = ("tests/", "pyproject.toml", "LICENSE")
"""What is taken out of the source package: its code is the installed one's, and not to be imported from here."""


class NotFetched(Exception):
    """The package index gave no answer, or not what the hashes say."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Where upstream's tests are, and the folder of packages they need."""

    tests: Path
    packages: Path


def fetch() -> Suite:
    """Return the tests of the pinned version, fetched if they are not there yet. Raises NotFetched."""
    pin = pinned(LOCK.read_text())
    known = hashlib.sha256((pin + NEEDED.read_text()).encode()).hexdigest()[:16]
    folder = KEPT_IN / known
    suite = Suite(folder / "tests-of-upstream", folder / "packages")
    if not (folder / "complete").exists():
        shutil.rmtree(KEPT_IN, ignore_errors=True)
        folder.mkdir(parents=True)
        _fetch_tests(pin, folder, suite.tests)
        _pip("install", "--target", str(suite.packages), "--requirement", str(NEEDED))
        (folder / "complete").touch()
    return suite


def pinned(lock: str) -> str:
    """Return the lines of the lock that name the package's version and hashes."""
    found = re.search(rf"^{re.escape(PACKAGE)}==.*\n(?: +--hash=.*\n)+", lock, re.MULTILINE)
    if found is None:
        raise NotFetched(f"{LOCK.name} does not pin {PACKAGE}.")
    return found.group()


def _fetch_tests(pin: str, folder: Path, into: Path) -> None:
    requirement = folder / "pinned.txt"
    requirement.write_text(pin)
    _pip("download", "--no-binary", PACKAGE, "--dest", str(folder), "--requirement", str(requirement))
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        top = archive.name.removesuffix(".tar.gz") + "/"
        wanted = [member for member in packed.getmembers() if member.name.removeprefix(top).startswith(TESTS)]
        packed.extractall(folder, members=wanted, filter="data")
    (folder / top).rename(into)


def _pip(command: str, *arguments: str) -> None:
    always = ("--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes")
    done = subprocess.run(
        [sys.executable, "-m", "pip", command, *always, *arguments], check=False, capture_output=True, text=True
    )
    if done.returncode:
        said = "\n".join(line for line in done.stderr.splitlines() if line.startswith("ERROR"))
        raise NotFetched(f"Upstream's tests could not be fetched from the package index that pip goes to:\n{said}")
