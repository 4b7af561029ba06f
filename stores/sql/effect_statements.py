"""The statements of EffectLedger, written once for both databases."""

from __future__ import annotations

from sqlalchemy import and_, bindparam, case, func, null, or_, select, true, update

from stores.records import EffectState
from stores.sql.expressions import Now, at_key, field_in, insert_into, is_among, key_parameters, rows_of, text_parameter
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

_given = rows_of("new_effects")
_fields = [
    effects.c[name]
    for name in (
        *("interrupt_id", "state", "kind", "digest", "key_lifetime_seconds"),
        *("attempt", "holder", "until", "begun_by", "why"),
    )
]
_is_given_begun = field_in(_given, effects.c.state) == EffectState.BEGUN.value
INSERT = (
    insert_into(effects)
    .from_select(
        [*KEY, *(field.name for field in _fields), "begun_at", "refuted"],
        select(
            *key_parameters(),
            *(field_in(_given, field) for field in _fields),
            case((_is_given_begun, Now())),
            text_parameter("nobody"),
        )
        .select_from(_given)
        .where(true()),
    )
    .on_conflict_do_nothing()
    .returning(effects.c.interrupt_id)
)

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
_locked = select(effects.c.interrupt_id).where(_IS_FREED).order_by(effects.c.interrupt_id).with_for_update()
FREE = update(effects).values(holder=null()).where(_IS_FREED, effects.c.interrupt_id.in_(_locked))
FREE_ALONE = FREE.returning(effects.c.interrupt_id)
