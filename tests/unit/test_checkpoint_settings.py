"""The settings of checkpoints: what is no key or no type is refused at start, and no secret is told."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from app.settings import Environment, ScopeResolver, Settings
from stores.sealing import Seal, SealBroken

OLD, NEW = "0a" * 32, "0b" * 32
PLACE = ("tenant-1", "thread-1")


def settings_of(**changes: Any) -> Settings:
    return Settings(environment=Environment.DEVELOPMENT, scope=ScopeResolver.FIXED, **changes)


def test_the_first_key_signs_and_all_verify() -> None:
    by_old = Seal.from_text(OLD).sealed(b"payload", place=PLACE, position=1)
    seal = settings_of(checkpoint_keys=f"{NEW}, {OLD}").checkpoint_seal()

    by_first = seal.sealed(b"payload", place=PLACE, position=2)

    assert seal.opened(by_old, place=PLACE) == Seal.from_text(NEW).opened(by_first, place=PLACE) == b"payload"
    with pytest.raises(SealBroken):
        Seal.from_text(OLD).opened(by_first, place=PLACE)


@pytest.mark.parametrize("keys", ["0a" * 31, "not hexadecimal", f"{OLD},"])
def test_a_key_that_is_no_key_is_refused_at_start_and_not_told(keys: str) -> None:
    with pytest.raises(ValidationError, match="AGUI_CHECKPOINT_KEYS can not be used: A key is") as refused:
        settings_of(checkpoint_keys=keys)

    assert keys not in str(refused.value)


def test_no_key_is_an_error_only_for_those_who_need_one() -> None:
    settings = settings_of()

    with pytest.raises(ValueError, match="AGUI_CHECKPOINT_KEYS is empty"):
        settings.checkpoint_seal()


def test_types_are_listed_by_module_and_class() -> None:
    settings = settings_of(checkpoint_types="app.agents.refunds:Refund, app.agents.refunds:Refund.Line")

    assert settings.checkpoint_allowed_types() == {"app.agents.refunds:Refund", "app.agents.refunds:Refund.Line"}


@pytest.mark.parametrize("types", ["Refund", "app.refunds.Refund", "app.refunds:Refund;os:system", "a:b:c"])
def test_what_names_no_type_is_refused_at_start(types: str) -> None:
    with pytest.raises(ValidationError, match="AGUI_CHECKPOINT_TYPES has '"):
        settings_of(checkpoint_types=types)
