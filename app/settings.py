"""Settings: one frozen class, read once in main.py from AGUI_* variables; refuses unsafe values outside development."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, PositiveInt, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

Seconds = Annotated[float, Field(gt=0, le=10 * 365 * 86_400, allow_inf_nan=False)]
"""A duration: more than nothing, ten years at most, so that a date made from it exists."""


class Environment(StrEnum):
    """Where the host runs. Only `development` allows a fixed identity, memory stores and the scripted model."""

    DEVELOPMENT = "development"
    PRODUCTION = "production"


class ScopeResolver(StrEnum):
    """How a caller's authorization scope is found; see app/scope.py."""

    FIXED = "fixed"
    HEADER = "header"


class StoreChoice(StrEnum):
    """Which technology keeps threads, effects, checkpoints and replicas."""

    MEMORY = "memory"
    SQL = "sql"


class Settings(BaseSettings):
    """Every setting of a host. Durations are seconds, sizes are bytes; names in the environment start with AGUI_."""

    model_config = SettingsConfigDict(env_prefix="AGUI_", frozen=True, extra="ignore")

    environment: Environment = Environment.PRODUCTION
    replica_name: str = Field(default="", description="A label for logs and response headers; decides nothing.")

    stores: StoreChoice = StoreChoice.SQL
    database_url: str = Field(default="sqlite+aiosqlite:///agui.db", description="SQLAlchemy URL, async driver.")
    store_timeout_seconds: Seconds = Field(default=5.0, description="After this a store call counts as unanswered.")
    store_pool_size: PositiveInt = 10

    scope: ScopeResolver | None = Field(
        default=None, description="fixed (development only) or header; there is no default."
    )
    scope_fixed: str = Field(default="development", description="The one scope of the fixed resolver.")
    scope_header: str = Field(
        default="x-agui-scope", min_length=1, description="The header a trusted proxy puts the scope in."
    )
    scope_length_max: PositiveInt = 256
    trusted_proxies: str = Field(
        default="", description="Comma-separated networks the header is taken from, e.g. 10.0.0.0/8."
    )

    lease_seconds: Seconds = Field(default=15.0, description="How long a silent replica is still presumed alive.")
    run_seconds: Seconds = Field(default=300.0, description="The longest a run may take.")
    tool_seconds: Seconds = Field(default=120.0, description="The longest one tool call may take.")
    claim_margin_seconds: Seconds = Field(default=30.0, description="A claim outlives its run's limit by this much.")
    tool_retries_max: int = Field(
        default=2, ge=0, description="Retries of an idempotent call that timed out or lost its peer."
    )
    approval_seconds: Seconds = Field(default=86_400.0, description="How long an approval may be answered.")
    reconcile_seconds: Seconds = Field(default=5.0, description="Pause between two passes of the reconciler.")
    reconcile_batch: PositiveInt = Field(default=20, description="Threads handled in one pass.")
    reconcile_retries_max: PositiveInt = Field(default=8, description="After this many the thread waits for a person.")
    drain_seconds: Seconds = Field(default=30.0, description="How long running runs may take to end on SIGTERM.")
    keepalive_seconds: Seconds = Field(default=15.0, description="Pause between comment frames on an idle stream.")

    body_bytes_max: PositiveInt = Field(default=1_048_576, description="A larger request body gets 413.")
    id_length_max: PositiveInt = Field(default=256, description="A longer thread or run id is refused.")
    messages_max: PositiveInt = Field(default=1_000, description="A request with more messages is refused.")
    nesting_max: PositiveInt = Field(default=64, description="A request nested deeper is refused.")
    stream_events_max: PositiveInt = Field(default=10_000, description="Events kept for a reader that does not read.")

    model: str = Field(default="scripted", description="The chat client; scripted is for development only.")
    bank_url: str = Field(default="", description="Where the demo's bank listens; the payments agent needs it.")

    @model_validator(mode="after")
    def _refuse_unsafe(self) -> Self:
        if self.scope is None:
            raise ValueError(
                "AGUI_SCOPE is not set: choose `header` (or `fixed`, in development). There is no default."
            )
        if self.scope is ScopeResolver.HEADER and not self.trusted_proxies.strip():
            raise ValueError(
                "AGUI_TRUSTED_PROXIES is empty: with AGUI_SCOPE=header name the proxies that set the header."
            )
        if self.environment is not Environment.DEVELOPMENT:
            unsafe = {
                "AGUI_SCOPE=fixed": self.scope is ScopeResolver.FIXED,
                "AGUI_STORES=memory": self.stores is StoreChoice.MEMORY,
                "AGUI_MODEL=scripted": self.model == "scripted",
            }
            for setting, is_set in unsafe.items():
                if is_set:
                    raise ValueError(f"{setting} is for development only; AGUI_ENVIRONMENT is {self.environment}.")
        return self
