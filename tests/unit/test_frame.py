"""The files around the code agree with it: .env.example with the settings, requirements.lock with pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import TypeAdapter

from app.settings import Settings

ROOT = Path(__file__).parents[2]
SETTING = re.compile(r"#(?P<name>AGUI_[A-Z_]+)=(?P<value>.*)")
PINNED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[.*\])?==(?P<version>[^\s;]+)(?P<marker>.*) \\")


def example_lines() -> list[str]:
    return (ROOT / ".env.example").read_text().splitlines()


def lock_lines() -> list[str]:
    return (ROOT / "requirements.lock").read_text().splitlines()


def wanted() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = [line for group in project["dependency-groups"].values() for line in group]
    return [Requirement(line) for line in [*project["project"]["dependencies"], *groups]]


def test_env_example_names_every_setting_and_nothing_else() -> None:
    names = [found["name"] for line in example_lines() if (found := SETTING.fullmatch(line))]

    assert names == [f"AGUI_{name.upper()}" for name in Settings.model_fields]


@pytest.mark.parametrize("line", [line for line in example_lines() if SETTING.fullmatch(line)])
def test_env_example_shows_the_default(line: str) -> None:
    found = SETTING.fullmatch(line)
    assert found is not None
    field = Settings.model_fields[found["name"].removeprefix("AGUI_").lower()]
    assert field.annotation is not None

    if field.default in {None, ""}:
        assert found["value"] == ""
    else:
        assert TypeAdapter(field.annotation).validate_python(found["value"]) == field.default


def test_env_example_explains_every_setting_in_the_line_above() -> None:
    lines = example_lines()

    unexplained = [line for above, line in pairwise(lines) if SETTING.match(line) and above[:2] != "# "]

    assert unexplained == []


def test_env_example_changes_nothing_when_it_is_copied() -> None:
    assert [line for line in example_lines() if line and not line.startswith("#")] == []


def test_lock_satisfies_every_dependency() -> None:
    locked = {
        canonicalize_name(found["name"]): found["version"] for line in lock_lines() if (found := PINNED.match(line))
    }

    unsatisfied = [
        str(each) for each in wanted() if not each.specifier.contains(locked.get(canonicalize_name(each.name), ""))
    ]

    assert unsatisfied == []


def test_lock_has_a_hash_for_every_package_and_names_no_address() -> None:
    text = (ROOT / "requirements.lock").read_text()
    packages = re.split(r"\n(?=\S)", text.strip())

    assert [package.splitlines()[0] for package in packages if "--hash=sha256:" not in package] == []
    assert "://" not in text
