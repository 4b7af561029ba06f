"""Settings: one frozen class, read once in main.py from AGUI_* variables; refuses unsafe values outside development."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, PositiveInt, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.setting_pairs import ALWAYS, IN_PRODUCTION, wrong_pair
from stores.options import RedisOptions, StoreOptions
from stores.sealing import Seal

Seconds = Annotated[float, Field(gt=0, le=10 * 365 * 86_400, allow_inf_nan=False)]
"""A duration: more than nothing, ten years at most, so that a date made from it exists."""

_TYPE = re.compile(r"[\w.]+:[\w.]+")

TECHNOLOGIES = ("memory", "sql", "redis")
_OWN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
"""package.module:name of stores of one's own."""


class Environment(StrEnum):
    """Where the host runs. Only `development` allows a fixed identity, memory stores and the scripted model."""

    DEVELOPMENT = "development"
    PRODUCTION = "production"


class ScopeResolver(StrEnum):
    """How a caller's authorization scope is found; see app/scope.py."""

    FIXED = "fixed"
    HEADER = "header"


class Settings(BaseSettings):
    """Every setting of a host. Durations are seconds, sizes are bytes; names in the environment start with AGUI_."""

    # An error that showed what it was given would show keys and passwords.
    model_config = SettingsConfigDict(env_prefix="AGUI_", frozen=True, extra="ignore", hide_input_in_errors=True)

    environment: Environment = Environment.PRODUCTION
    replica_name: str = Field(default="", description="A label for logs and response headers; decides nothing.")

    stores: str = Field(default="sql", description="memory, sql, redis, or package.module:name of your own.")
    effects_store: str = Field(default="", description="Where the effect ledger is kept; empty: where `stores` says.")
    checkpoints_store: str = Field(default="", description="Where checkpoints are kept; empty: where `stores` says.")
    database_url: SecretStr = Field(
        default=SecretStr("sqlite+aiosqlite:///agui.db"),
        description="sqlite+aiosqlite:///FILE, or a libpq URL of PostgreSQL.",
    )
    database_pooled: bool = Field(default=False, description="Between us and PostgreSQL is a transaction-mode pooler.")
    store_timeout_seconds: Seconds = Field(default=5.0, description="After this a store call counts as unanswered.")
    store_pool_size: PositiveInt = Field(default=10, description="Connections kept; as many again for tools.")

    redis_url: SecretStr = Field(default=SecretStr(""), description="redis://, rediss:// (TLS) or unix://.")
    redis_username: str = Field(default="", description="The ACL user, if it is not in the URL.")
    redis_password: SecretStr = Field(default=SecretStr(""), description="Its password, if it is not in the URL.")
    redis_sentinels: str = Field(default="", description="Comma-separated host:port of the Sentinels to ask.")
    redis_sentinel_service: str = Field(default="", description="The name the Sentinels know the primary by.")
    redis_sentinel_username: str = ""
    redis_sentinel_password: SecretStr = SecretStr("")
    redis_cluster: bool = Field(default=False, description="The URL's address is a node of a Redis Cluster.")
    redis_ca_file: str = Field(default="", description="PEM of the authority that signed the server's certificate.")
    redis_certificate_file: str = Field(default="", description="PEM of our certificate, if the server asks for one.")
    redis_key_file: str = ""

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

    runs_max: PositiveInt = Field(default=200, description="Runs at once in one replica; more get 503.")
    runs_per_scope_max: PositiveInt = Field(default=100, description="Of these, runs of one scope; more get 429.")
    runs_resume_share: float = Field(default=0.2, ge=0, le=0.9, description="The share of either kept for resumes.")
    open_approvals_per_thread_max: PositiveInt = Field(default=50, description="More, in one thread, are refused.")
    open_approvals_per_scope_max: PositiveInt = Field(default=1_000, description="More, in one scope, are refused.")
    tool_threads_max: PositiveInt = Field(default=256, description="Threads for tools that are plain functions.")
    send_seconds: Seconds = Field(default=30.0, description="A client that takes nothing for so long is dropped.")

    body_bytes_max: PositiveInt = Field(default=1_048_576, description="A larger request body gets 413.")
    id_length_max: PositiveInt = Field(default=256, description="A longer thread or run id is refused.")
    messages_max: PositiveInt = Field(default=1_000, description="A request with more messages or answers is refused.")
    nesting_max: PositiveInt = Field(default=64, description="A request nested deeper is refused.")
    snapshot_bytes_max: PositiveInt = Field(
        default=4_194_304, description="A thread whose snapshot is larger takes no new message; its approvals it does."
    )
    state_bytes_max: PositiveInt = Field(default=262_144, description="A request with a larger state is refused.")

    retention_terminal_seconds: Seconds = Field(
        default=90 * 86_400.0, description="How long ended runs answer duplicates; an idle thread goes with its last."
    )
    retention_pending_seconds: Seconds = Field(
        default=90 * 86_400.0, description="The longest AGUI_APPROVAL_SECONDS may be: what is open can not be purged."
    )
    retention_indeterminate_seconds: Seconds = Field(
        default=7 * 86_400.0, description="After this a call in doubt is logged as an error; it is never purged."
    )
    purge_seconds: Seconds = Field(default=60.0, description="Pause between two passes of the purge.")
    purge_batch: PositiveInt = Field(default=200, description="Runs looked at in one pass.")

    checkpoint_keys: SecretStr = Field(
        default=SecretStr(""),
        description="Comma-separated hex keys (openssl rand -hex 32): the first signs checkpoints, all verify.",
    )
    checkpoint_types: str = Field(
        default="", description="Comma-separated module:Class of your own types that checkpoints may contain."
    )
    checkpoints_keep: PositiveInt = Field(default=20, description="Checkpoints kept per workflow of a thread.")

    stream_events_max: PositiveInt = Field(default=10_000, description="Events kept for a reader that does not read.")

    model: str = Field(default="scripted", description="The chat client; scripted is for development only.")
    bank_url: str = Field(default="", description="Where the demo's bank listens; the payments agent needs it.")

    @field_validator("checkpoint_keys")
    @classmethod
    def _refuse_weak_keys(cls, keys: SecretStr) -> SecretStr:
        try:
            if keys.get_secret_value():
                Seal.from_text(keys.get_secret_value())
        except ValueError as error:
            raise ValueError(f"AGUI_CHECKPOINT_KEYS can not be used: {error}") from None
        return keys

    @field_validator("checkpoint_types")
    @classmethod
    def _refuse_what_names_no_type(cls, types: str) -> str:
        for each in _listed(types):
            if not _TYPE.fullmatch(each):
                raise ValueError(f"AGUI_CHECKPOINT_TYPES has '{each}', which is not module:Class.")
        return types

    @field_validator("stores", "effects_store", "checkpoints_store")
    @classmethod
    def _name_stores(cls, value: str) -> str:
        if value not in ("", *TECHNOLOGIES) and not _OWN.fullmatch(value):
            raise ValueError(f"it is {', '.join(TECHNOLOGIES)}, or package.module:name of your own")
        return value

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
                "AGUI_STORES=memory": self.stores == "memory",
                "AGUI_EFFECTS_STORE=memory": self.effects_store == "memory",
                "AGUI_CHECKPOINTS_STORE=memory": self.checkpoints_store == "memory",
                "AGUI_MODEL=scripted": self.model == "scripted",
            }
            for setting, is_set in unsafe.items():
                if is_set:
                    raise ValueError(f"{setting} is for development only; AGUI_ENVIRONMENT is {self.environment}.")
        return self

    @model_validator(mode="after")
    def _refuse_stores_that_can_not_be_reached(self) -> Self:
        used = {self.stores, self.effects_store, self.checkpoints_store}
        if not self.stores:
            raise ValueError("AGUI_STORES is empty: say where threads are kept.")
        if "sql" in used and not self.database_url.get_secret_value():
            raise ValueError("AGUI_DATABASE_URL is empty, and stores are in sql.")
        if "redis" in used and not (self.redis_url.get_secret_value() or self.redis_sentinels.strip()):
            raise ValueError("Stores are in redis: set AGUI_REDIS_URL, or AGUI_REDIS_SENTINELS.")
        if bool(self.redis_sentinels.strip()) != bool(self.redis_sentinel_service.strip()):
            raise ValueError("AGUI_REDIS_SENTINELS and AGUI_REDIS_SENTINEL_SERVICE are set together or not at all.")
        if self.redis_sentinels.strip() and self.redis_cluster:
            raise ValueError("AGUI_REDIS_SENTINELS and AGUI_REDIS_CLUSTER exclude each other: a cluster has its own.")
        return self

    @model_validator(mode="after")
    def _refuse_wrong_pairs(self) -> Self:
        is_development = self.environment is Environment.DEVELOPMENT
        wrong = wrong_pair(self.model_dump(), ALWAYS if is_development else (*ALWAYS, *IN_PRODUCTION))
        if wrong is not None:
            raise ValueError(wrong)
        return self

    def store_options(self) -> StoreOptions:
        """Return what the stores are opened with."""
        return StoreOptions(
            threads=self.stores,
            effects=self.effects_store,
            checkpoints=self.checkpoints_store,
            database_url=self.database_url.get_secret_value(),
            is_pooled=self.database_pooled,
            redis=self._redis_options(),
            timeout_seconds=self.store_timeout_seconds,
            pool_size=self.store_pool_size,
        )

    def checkpoint_seal(self) -> Seal:
        """Return what signs and verifies checkpoints; raises ValueError if no key is set."""
        if not self.checkpoint_keys.get_secret_value():
            raise ValueError("AGUI_CHECKPOINT_KEYS is empty: workflows need a key that signs their checkpoints.")
        return Seal.from_text(self.checkpoint_keys.get_secret_value())

    def checkpoint_allowed_types(self) -> frozenset[str]:
        """Return the types of one's own that a checkpoint may contain."""
        return frozenset(_listed(self.checkpoint_types))

    def _redis_options(self) -> RedisOptions:
        return RedisOptions(
            url=self.redis_url.get_secret_value(),
            username=self.redis_username,
            password=self.redis_password.get_secret_value(),
            sentinels=_listed(self.redis_sentinels),
            sentinel_service=self.redis_sentinel_service,
            sentinel_username=self.redis_sentinel_username,
            sentinel_password=self.redis_sentinel_password.get_secret_value(),
            is_cluster=self.redis_cluster,
            ca_file=self.redis_ca_file,
            certificate_file=self.redis_certificate_file,
            key_file=self.redis_key_file,
        )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())
