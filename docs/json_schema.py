"""JSON Schemas of the types that are written, with a sentence for each field from the comment beside it."""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evo.results.codec import ALWAYS, FINITE, NONEMPTY, Json, Mark, Serializable, plan

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS = {str: "string", Path: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schema_of(kind: Any, *, many: bool = False) -> dict[str, Json]:
    """The JSON Schema (2020-12) of what is written of a type, or of a union of types. many: of an array of it."""
    written = types_within(kind)
    hints = [hint for one in written for _, hint in _hints(one)]
    parts: dict[str, Json] = {one.__name__: _object(one) for one in written}
    parts |= {one.__name__: {"enum": [each.value for each in one]} for one in _enums(hints)}
    whole = _shape(kind)
    shape: dict[str, Json] = {"type": "array", "items": whole} if many else whole
    return {"$schema": DIALECT, **shape, "$defs": parts}


def types_within(kind: Any) -> list[type]:
    """The types that are written as objects in a value of a type, itself first."""
    found: dict[type, None] = {}
    waiting = [kind]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, type) and issubclass(one, Serializable):
            if one not in found:
                found[one] = None
                waiting += [hint for _, hint in _hints(one)]
        else:
            waiting += typing.get_args(one)
    return list(found)


@functools.cache
def field_words(kind: type) -> dict[str, str]:
    """What each field and written property says, by attribute: the comment beside or above it, or the docstring."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not issubclass(base, Serializable) or base is Serializable:
            continue
        lines = textwrap.dedent(inspect.getsource(base)).splitlines()
        for node in ast.parse("\n".join(lines)).body[0].body:  # type: ignore[attr-defined]
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                beside = re.search(r"  # (.*)$", lines[(node.end_lineno or node.lineno) - 1])
                above = re.match(r"\s*# (.*)$", lines[node.lineno - 2])
                if words := beside or above:
                    found[node.target.id] = words[1]
            elif isinstance(node, ast.FunctionDef) and (said := ast.get_docstring(node)):
                found[node.name] = said.split("\n")[0].rstrip(".")
    return found


def _object(kind: type) -> dict[str, Json]:
    words, hints = field_words(kind), dict(_hints(kind))
    # A field with a default may be missing from a file of an earlier version.
    defaults = {f.name for f in dataclasses.fields(kind) if not _is_needed(f)}
    properties: dict[str, Json] = {}
    required: list[Json] = []
    for attribute, name, _, mark, _ in plan(kind):
        shape = _shape(hints[attribute], null=mark is ALWAYS)
        properties[name] = shape | ({"description": words[attribute]} if attribute in words else {})
        if attribute not in defaults and not _may_be_left_out(hints[attribute], mark):
            required.append(name)
    about = (kind.__doc__ or "").split("\n")[0]
    return {"type": "object", "description": about, "properties": properties, "required": required}


def _is_needed(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _may_be_left_out(hint: Any, mark: Mark | None) -> bool:
    return mark in (FINITE, NONEMPTY) or (mark is not ALWAYS and type(None) in typing.get_args(hint))


def _shape(hint: Any, *, null: bool = True) -> dict[str, Json]:
    """The schema of a type's values. null: whether None is written, where the type has it."""
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    if isinstance(hint, type) and issubclass(hint, Serializable | enum.Enum):
        return {"$ref": f"#/$defs/{hint.__name__}"}
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        shapes = [_shape(arg) for arg in args if null or arg is not type(None)]
        return {"anyOf": list[Json](shapes)} if len(shapes) > 1 else shapes[0]
    if origin is typing.Literal:
        return {"enum": list(args)}
    if origin in (tuple, list):
        if origin is tuple and args[-1] is not ...:
            return {"type": "array", "prefixItems": [_shape(arg) for arg in args], "items": False}
        return {"type": "array", "items": _shape(args[0])}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _shape(args[1])}
    assert hint is Any, f"{hint} has no schema"
    return {}


def _enums(hints: list[Any]) -> Iterator[type[enum.Enum]]:
    for hint in hints:
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            yield hint
        yield from _enums(list(typing.get_args(hint)))


def _hints(kind: type) -> Iterator[tuple[str, Any]]:
    """The types of what is written, by attribute."""
    hints = typing.get_type_hints(kind)
    for attribute, *_ in plan(kind):
        if attribute in hints:
            yield attribute, hints[attribute]
        else:
            yield attribute, typing.get_type_hints(getattr(kind, attribute).fget)["return"]
