"""Which arguments a tool refuses, before it is called: by the model or schema that it would check them with itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_framework import FunctionTool
from pydantic import BaseModel, ValidationError

from app.gated_tools import TOGETHER
from stores.records import Json

_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def misfits_of(tool: FunctionTool, arguments: Json) -> Mapping[str, str]:
    """Return each argument that the tool does not take, with the reason in words that do not repeat its value.

    A name that the schema does not know is refused, even where the tool would drop it in silence: what is executed must
    be what was approved.
    """
    schema = tool.parameters()
    if tool.input_model is None:
        return _by_schema(schema, arguments)
    is_open = bool(schema.get("additionalProperties"))
    known = schema.get("properties", {})
    unknown = {name: "unknown" for name in arguments if name not in known and not is_open}
    return {**_by_model(tool.input_model, arguments), **unknown}


def _by_model(model: type[BaseModel], arguments: Json) -> dict[str, str]:
    try:
        model.model_validate(arguments)
    except ValidationError as error:
        # A message may repeat the value; the type of the error never does.
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        return {_name_of(each["loc"]): each["type"].replace("_", " ") for each in problems}
    return {}


def _name_of(location: tuple[int | str, ...]) -> str:
    return str(location[0]) if location else TOGETHER


def _by_schema(schema: Mapping[str, Any], arguments: Json) -> dict[str, str]:
    """Check the outermost level only, as core does for a tool that was declared by a schema."""
    properties = schema.get("properties", {})
    misfits = {name: "missing" for name in schema.get("required", ()) if name not in arguments}
    for name, value in arguments.items():
        declared = properties.get(name)
        if not isinstance(declared, Mapping):
            if schema.get("additionalProperties") is False:
                misfits[name] = "unknown"
        elif declared.get("enum") and value not in declared["enum"]:
            misfits[name] = "not one of those allowed"
        elif not _is_of(declared.get("type"), value):
            misfits[name] = f"not of the type {declared['type']}"
    return misfits


def _is_of(declared: Any, value: Any) -> bool:
    names = [declared] if isinstance(declared, str) else declared or []
    if not names:
        return True
    if isinstance(value, bool):
        return "boolean" in names
    return any(isinstance(value, _JSON_TYPES.get(name, (object,))) for name in names)
