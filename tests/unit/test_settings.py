"""The host refuses to start with settings that are unsafe, and names the variable to change."""

from __future__ import annotations

import os

import pytest
from pydantic import ValidationError

from app.settings import Settings

SAFE = {"AGUI_SCOPE": "header", "AGUI_TRUSTED_PROXIES": "10.0.0.0/8", "AGUI_MODEL": "openai"}


def settings_of(monkeypatch: pytest.MonkeyPatch, **environment: str) -> Settings:
    """Read settings from exactly this environment."""
    for name in [name for name in os.environ if name.upper().startswith("AGUI_")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return Settings()


def test_safe_settings_start_in_production_which_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(monkeypatch, **SAFE)

    assert settings.environment == "production"
    assert settings.trusted_proxies == "10.0.0.0/8"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        pytest.param({"AGUI_SCOPE": None}, "AGUI_SCOPE is not set", id="no scope"),
        pytest.param({"AGUI_TRUSTED_PROXIES": None}, "AGUI_TRUSTED_PROXIES is empty", id="no proxies"),
        pytest.param({"AGUI_TRUSTED_PROXIES": "  "}, "AGUI_TRUSTED_PROXIES is empty", id="blank proxies"),
        pytest.param({"AGUI_SCOPE": "fixed"}, "AGUI_SCOPE=fixed is for development only", id="fixed"),
        pytest.param({"AGUI_STORES": "memory"}, "AGUI_STORES=memory is for development only", id="memory"),
        pytest.param({"AGUI_MODEL": "scripted"}, "AGUI_MODEL=scripted is for development only", id="scripted"),
        pytest.param({"AGUI_MODEL": None}, "AGUI_MODEL=scripted is for development only", id="default model"),
    ],
)
def test_unsafe_settings_are_refused_in_production(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str | None], sentence: str
) -> None:
    environment = {name: value for name, value in {**SAFE, **changes}.items() if value is not None}

    with pytest.raises(ValidationError, match=sentence):
        settings_of(monkeypatch, **environment)


def test_development_allows_what_production_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(
        monkeypatch,
        AGUI_ENVIRONMENT="development",
        AGUI_SCOPE="fixed",
        AGUI_STORES="memory",
        AGUI_MODEL="scripted",
    )

    assert (settings.scope, settings.stores, settings.model) == ("fixed", "memory", "scripted")


@pytest.mark.parametrize("variable", ["AGUI_SCOPE", "AGUI_TRUSTED_PROXIES"])
def test_even_development_has_no_default_scope(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    environment = {name: value for name, value in SAFE.items() if name != variable}

    with pytest.raises(ValidationError, match=variable):
        settings_of(monkeypatch, AGUI_ENVIRONMENT="development", **environment)


@pytest.mark.parametrize("environment", ["Production", "prod", "dev", ""])
def test_a_misspelt_environment_does_not_pass_for_development(
    monkeypatch: pytest.MonkeyPatch, environment: str
) -> None:
    with pytest.raises(ValidationError, match="environment"):
        settings_of(monkeypatch, **SAFE, AGUI_ENVIRONMENT=environment)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("AGUI_LEASE_SECONDS", "0"),
        ("AGUI_RUN_SECONDS", "-1"),
        ("AGUI_TOOL_RETRIES_MAX", "-1"),
        ("AGUI_BODY_BYTES_MAX", "0"),
        ("AGUI_SCOPE_LENGTH_MAX", "many"),
        ("AGUI_STORES", "mongodb"),
    ],
)
def test_values_without_meaning_are_refused_by_name(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    with pytest.raises(ValidationError, match=variable.removeprefix("AGUI_").lower()):
        settings_of(monkeypatch, **{**SAFE, variable: value})


def test_settings_cannot_be_changed_after_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(monkeypatch, **SAFE)

    with pytest.raises(ValidationError, match="frozen"):
        settings.lease_seconds = 1.0
