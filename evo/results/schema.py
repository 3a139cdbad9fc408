"""JSON Schemas of the types that are written, with a sentence for each field from the comment beside it."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evo.results.codec import Json, Serializable, plan

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(kind: Any, *, many: bool = False) -> dict[str, Json]:
    """The JSON Schema (2020-12) of what is written of a type, or of a union of types. many: of an array of it."""
    whole, parts = _schemas(kind)
    shape: dict[str, Json] = {"type": "array", "items": whole} if many else whole
    return {"$schema": DIALECT, **shape, **({"$defs": dict[str, Json](parts)} if parts else {})}


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


def _schemas(kind: Any) -> tuple[dict[str, Json], dict[str, dict[str, Json]]]:
    import msgspec

    def hook(other: type) -> dict[str, Any]:
        if issubclass(other, Path):
            return {"type": "string"}
        raise TypeError(f"{other} has no schema")

    def shapes(*kinds: Any) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
        return msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}", schema_hook=hook)

    written = types_within(kind)
    members = typing.get_args(kind) if not isinstance(kind, type) else ()
    (first, *others), parts = shapes(*(members or (kind,)))
    for one in written:
        hints = dict(_hints(one))
        words = field_words(one)
        before = parts[one.__name__]
        properties: dict[str, Json] = {}
        for attribute, name, *_ in plan(one):
            if attribute not in before["properties"]:
                (shape,), more = shapes(hints[attribute])
                parts |= {key: value for key, value in more.items() if key not in parts}
            else:
                shape = {k: v for k, v in before["properties"][attribute].items() if k != "default"}
            properties[name] = shape | ({"description": words[attribute]} if attribute in words else {})
        renamed = {attribute: name for attribute, name, *_ in plan(one)}
        parts[one.__name__] = {
            "type": "object",
            "description": (one.__doc__ or "").split("\n")[0],
            "properties": properties,
            "required": [renamed[name] for name in before.get("required", ()) if name in renamed],
        }
    return ({"anyOf": [first, *others]} if others else first), parts


def _hints(kind: type) -> Iterator[tuple[str, Any]]:
    """The types of what is written, by attribute."""
    hints = typing.get_type_hints(kind)
    for attribute, *_ in plan(kind):
        if attribute in hints:
            yield attribute, hints[attribute]
        else:
            yield attribute, typing.get_type_hints(getattr(kind, attribute).fget)["return"]
