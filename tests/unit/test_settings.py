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
        pytest.param({"AGUI_EFFECTS_STORE": "memory"}, "AGUI_EFFECTS_STORE=memory is for development", id="effects"),
        pytest.param({"AGUI_CHECKPOINTS_STORE": "memory"}, "AGUI_CHECKPOINTS_STORE=memory is for", id="checkpoints"),
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
        ("AGUI_RUNS_MAX", "0"),
        ("AGUI_RUNS_PER_SCOPE_MAX", "0"),
        ("AGUI_RUNS_RESUME_SHARE", "1"),
        ("AGUI_OPEN_APPROVALS_PER_THREAD_MAX", "0"),
        ("AGUI_OPEN_APPROVALS_PER_SCOPE_MAX", "0"),
        ("AGUI_TOOL_THREADS_MAX", "0"),
        ("AGUI_SEND_SECONDS", "0"),
        ("AGUI_SCOPE_LENGTH_MAX", "many"),
        ("AGUI_STORES", "mongodb"),
        ("AGUI_STORES", "mypackage.stores"),
        ("AGUI_STORES", ":make"),
        ("AGUI_EFFECTS_STORE", "postgres"),
        ("AGUI_CHECKPOINTS_STORE", "SQL"),
    ],
)
def test_values_without_meaning_are_refused_by_name(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    with pytest.raises(ValidationError, match=variable.removeprefix("AGUI_").lower()):
        settings_of(monkeypatch, **{**SAFE, variable: value})


def test_settings_cannot_be_changed_after_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(monkeypatch, **SAFE)

    with pytest.raises(ValidationError, match="frozen"):
        settings.lease_seconds = 1.0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"AGUI_STORES": ""}, "AGUI_STORES is empty"),
        ({"AGUI_DATABASE_URL": ""}, "AGUI_DATABASE_URL is empty"),
        ({"AGUI_STORES": "redis"}, "set AGUI_REDIS_URL, or AGUI_REDIS_SENTINELS"),
        ({"AGUI_CHECKPOINTS_STORE": "redis"}, "set AGUI_REDIS_URL, or AGUI_REDIS_SENTINELS"),
        ({"AGUI_REDIS_SENTINELS": "a:1"}, "AGUI_REDIS_SENTINELS and AGUI_REDIS_SENTINEL_SERVICE"),
        ({"AGUI_REDIS_SENTINEL_SERVICE": "main"}, "AGUI_REDIS_SENTINELS and AGUI_REDIS_SENTINEL_SERVICE"),
        (
            {"AGUI_REDIS_SENTINELS": "a:1", "AGUI_REDIS_SENTINEL_SERVICE": "main", "AGUI_REDIS_CLUSTER": "true"},
            "AGUI_REDIS_SENTINELS and AGUI_REDIS_CLUSTER exclude each other",
        ),
    ],
)
def test_stores_that_can_not_be_reached_are_refused_also_in_development(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ValidationError, match=sentence):
        settings_of(monkeypatch, **{**SAFE, "AGUI_ENVIRONMENT": "development", **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"AGUI_STORES": "redis", "AGUI_REDIS_URL": "redis://cache", "AGUI_EFFECTS_STORE": "sql"},
        {"AGUI_STORES": "redis", "AGUI_REDIS_SENTINELS": "a:1, b:1", "AGUI_REDIS_SENTINEL_SERVICE": "main"},
        {"AGUI_STORES": "my_package.stores:Mine.open", "AGUI_DATABASE_URL": ""},
    ],
)
def test_stores_that_can_be_reached_are_taken(monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]) -> None:
    options = settings_of(monkeypatch, **{**SAFE, **changes}).store_options()

    assert options.threads == changes["AGUI_STORES"]
    assert options.effects == changes.get("AGUI_EFFECTS_STORE", "")
    assert len(options.redis.sentinels) == len(changes.get("AGUI_REDIS_SENTINELS", "").split(",")) * bool(
        changes.get("AGUI_REDIS_SENTINELS")
    )


WRONG_PAIRS = [
    ({"AGUI_STORE_TIMEOUT_SECONDS": "7.6"}, "AGUI_STORE_TIMEOUT_SECONDS .7.6. is more than 1/2 of AGUI_LEASE_SECONDS"),
    ({"AGUI_LEASE_SECONDS": "9"}, "AGUI_STORE_TIMEOUT_SECONDS .5. is more than 1/2 of AGUI_LEASE_SECONDS .9."),
    ({"AGUI_TOOL_SECONDS": "301"}, "AGUI_TOOL_SECONDS .301. is more than AGUI_RUN_SECONDS .300."),
    ({"AGUI_RETENTION_TERMINAL_SECONDS": "599"}, "AGUI_RUN_SECONDS .300. is more than 1/2 of AGUI_RETENTION_TERMINAL"),
    ({"AGUI_RETENTION_TERMINAL_SECONDS": "86399"}, "AGUI_APPROVAL_SECONDS .86400. is more than AGUI_RETENTION_TERMIN"),
    ({"AGUI_PURGE_SECONDS": "7776001"}, "AGUI_PURGE_SECONDS .* is more than AGUI_RETENTION_TERMINAL_SECONDS"),
    ({"AGUI_RUNS_MAX": "257"}, "AGUI_RUNS_MAX .257. is more than AGUI_TOOL_THREADS_MAX .256."),
    ({"AGUI_RUNS_MAX": "99"}, "AGUI_RUNS_PER_SCOPE_MAX .100. is more than AGUI_RUNS_MAX .99."),
    ({"AGUI_OPEN_APPROVALS_PER_SCOPE_MAX": "49"}, "AGUI_OPEN_APPROVALS_PER_THREAD_MAX .50. is more than AGUI_OPEN_APP"),
    ({"AGUI_SNAPSHOT_BYTES_MAX": "100"}, "AGUI_STATE_BYTES_MAX .262144. is more than AGUI_SNAPSHOT_BYTES_MAX .100."),
]


@pytest.mark.parametrize(("changes", "sentence"), WRONG_PAIRS)
def test_settings_that_break_a_promise_together_are_refused_with_both_names(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ValidationError, match=sentence):
        settings_of(monkeypatch, **SAFE, **changes)


@pytest.mark.parametrize("changes", [changes for changes, _ in WRONG_PAIRS])
def test_development_may_be_as_quick_as_a_test_wants(monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]) -> None:
    settings_of(monkeypatch, **SAFE, AGUI_ENVIRONMENT="development", **changes)


@pytest.mark.parametrize("environment", ["development", "production"])
def test_an_approval_that_would_outlive_its_retention_is_refused(
    monkeypatch: pytest.MonkeyPatch, environment: str
) -> None:
    sentence = "AGUI_APPROVAL_SECONDS .86400. is more than AGUI_RETENTION_PENDING_SECONDS .3600."

    with pytest.raises(ValidationError, match=sentence):
        settings_of(monkeypatch, **SAFE, AGUI_ENVIRONMENT=environment, AGUI_RETENTION_PENDING_SECONDS="3600")


def test_no_secret_is_shown_by_settings_or_by_what_stores_are_opened_with(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(
        monkeypatch,
        **SAFE,
        AGUI_DATABASE_URL="postgresql://me:pa55@host/name",
        AGUI_REDIS_PASSWORD="pa55",
        AGUI_REDIS_SENTINEL_PASSWORD="pa55",
    )

    assert "pa55" not in f"{settings!r} {settings.store_options()!r}"
