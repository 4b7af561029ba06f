"""The statements of EffectLedger, written once for both databases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    and_,
    bindparam,
    case,
    delete,
    func,
    literal,
    null,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import Insert

from stores.records import EffectState
from stores.sql.expressions import (
    Now,
    at_key,
    columns_of,
    field_in,
    insert_into,
    is_among,
    is_one_of,
    key_parameters,
    rows_of,
    text_parameter,
)
from stores.sql.tables import KEY, effects

_IS_RESERVED = effects.c.state == EffectState.RESERVED.value
_IS_BEGUN = effects.c.state == EffectState.BEGUN.value
_IS_HELD = effects.c.holder.is_not(None)
_IS_NAMED = and_(at_key(effects), effects.c.interrupt_id == text_parameter("interrupt"))
_IS_MINE = and_(_IS_NAMED, effects.c.attempt == text_parameter("my_attempt"))

READ = (
    select(effects, Now().label("now"))
    .where(at_key(effects), is_among(effects.c.interrupt_id, "interrupts"))
    .order_by(effects.c.interrupt_id)
)
LOCK = READ.with_for_update()
"""Rows are inserted and locked in the order of their interrupts, so that two batches never wait for each other."""

INSERTED = (
    *("interrupt_id", "state", "kind", "digest", "key_lifetime_seconds"),
    *("attempt", "holder", "until", "begun_by", "why"),
)
_given = rows_of("new_effects")
_is_given_begun = field_in(_given, effects.c.state) == EffectState.BEGUN.value


def _insert(key: Sequence[ColumnElement[Any]], *sources: FromClause) -> Insert:
    given = select(
        *key,
        *(field_in(_given, effects.c[name]) for name in INSERTED),
        case((_is_given_begun, Now())),
        literal(""),
    )
    return insert_into(effects).from_select(
        [*KEY, *INSERTED, "begun_at", "refuted"], given.select_from(*sources, _given).where(true())
    )


INSERT = _insert(key_parameters()).on_conflict_do_nothing().returning(effects.c.interrupt_id)


def insert_all(won: FromClause) -> Insert:
    """Insert the rows of a batch with the change that was won; one that is there already refuses both."""
    return _insert(columns_of(won), won)


CHANGING = (
    *("state", "digest", "attempt", "holder", "until", "begun_at", "begun_by"),
    *("refuted", "result", "why", "resolved_by", "evidence"),
)
PUT = (
    update(effects)
    .values({name: bindparam(f"new_{name}", type_=effects.c[name].type) for name in CHANGING})
    .where(_IS_NAMED)
    .returning(effects.c.interrupt_id)
)

BEGIN = (
    update(effects)
    .values(
        state=EffectState.BEGUN.value,
        begun_at=func.coalesce(effects.c.begun_at, Now()),
        begun_by=case((_IS_RESERVED, effects.c.begun_by + text_parameter("me_too")), else_=effects.c.begun_by),
    )
    .where(_IS_MINE, or_(and_(_IS_RESERVED, _IS_HELD), _IS_BEGUN))
    .returning(effects.c.interrupt_id)
)

_SETTLED = {"state": EffectState.SETTLED.value, "result": text_parameter("new_result")}
SETTLE = update(effects).values(_SETTLED).where(_IS_MINE, _IS_BEGUN).returning(effects.c.interrupt_id)
SETTLE_TRANSACTION = (
    update(effects).values(_SETTLED).where(_IS_MINE, _IS_RESERVED, _IS_HELD).returning(effects.c.interrupt_id)
)
IS_RESERVED_BY_ME = select(effects.c.interrupt_id).where(_IS_MINE, _IS_RESERVED, _IS_HELD)

# The last two are what the index of unsettled rows is about: a thread's many settled ones are not looked at.
_IS_FREED = and_(
    at_key(effects),
    effects.c.attempt == text_parameter("freed_attempt"),
    effects.c.result.is_(None),
    effects.c.why.is_(None),
)
# Ordered by an expression, because a primary key that has the order already would be preferred to that index.
_locked = select(effects.c.interrupt_id).where(_IS_FREED).order_by(effects.c.interrupt_id + "").with_for_update()
FREE = update(effects).values(holder=null()).where(_IS_FREED, is_one_of(effects.c.interrupt_id, _locked))
FREE_ALONE = FREE.returning(effects.c.interrupt_id)

# Settled and closed rows stay so: what the locking SELECT found needs no second look.
_ended = (
    select(effects.c.interrupt_id)
    .where(
        at_key(effects),
        is_among(effects.c.interrupt_id, "interrupts"),
        or_(effects.c.result.is_not(None), effects.c.why.is_not(None)),
    )
    .order_by(effects.c.interrupt_id)
    .with_for_update()
)
FORGET = (
    delete(effects).where(at_key(effects), is_one_of(effects.c.interrupt_id, _ended)).returning(effects.c.interrupt_id)
)
