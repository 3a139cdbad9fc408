"""Typed values to JSON and back, by one rule for all types: no type writes or reads its own fields.

Written: the fields of a dataclass in order, then its `COMPUTED` properties. What is None is left out, and so is an
empty collection that a field has by default, unless it is marked `ALWAYS`. Floats are rounded as `Decimals` says.
Read: msgspec checks every type and fills in the defaults of fields that older files do not have.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import re
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn, Self, TypeVar

if TYPE_CHECKING:
    from typing import TypeAlias

    Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"
else:
    Json = Any  # what msgspec reads as it is

T = TypeVar("T")

_PATH = re.compile(r" - at `\$\.?(.*)`$", re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True)
class Decimals:
    """Marks a field whose floats are rounded when written, those in a mapping or tuple too."""

    places: int


class Mark(enum.Enum):
    """When a field is written, in `Annotated`."""

    ALWAYS = "even when it is empty or None"
    FINITE = "unless it is infinite or NaN"
    NONEMPTY = "unless it is an empty text"
    NEVER = "never: it is for the process alone"


ALWAYS, FINITE, NONEMPTY, NEVER = Mark

Us = Annotated[float, Decimals(4)]  # microseconds
Seconds = Annotated[float, Decimals(3)]


_Plan = tuple[tuple[str, int | None, Mark | None, bool], ...]
_PLANS: dict[type, _Plan] = {}


class Serializable:
    """A dataclass that is written and read as a JSON object. COMPUTED names the properties that are written as well."""

    __slots__ = ()
    COMPUTED: ClassVar[tuple[str, ...]] = ()

    def to_json(self) -> dict[str, Json]:
        """The JSON object, of plain values."""
        shape: dict[str, Json] = {}
        for name, places, rule, optional in _plan(type(self)):
            value = getattr(self, name)
            if value is None and rule is ALWAYS:
                shape[name] = None
                continue
            if value is None or (optional and not value and isinstance(value, Mapping | tuple | list)):
                continue
            if (rule is FINITE and not math.isfinite(value)) or (rule is NONEMPTY and not value):
                continue
            shape[name] = plain(value, places)
        return shape

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Read what `to_json` wrote. Raises ValueError that names the field."""
        return read(cls, data)


def plain(value: object, places: int | None = None) -> Json:
    """A value as JSON holds it; places: to how many decimals its floats are rounded."""
    if value is None or isinstance(value, bool | int) or type(value) is str:
        return value
    if isinstance(value, float):
        return value if places is None else round(value, places)
    if isinstance(value, Serializable):
        return value.to_json()
    if isinstance(value, Mapping):
        return {str(name): plain(member, places) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member, places) for member in value]
    assert isinstance(value, enum.Enum | str), f"{type(value).__name__} has no JSON"
    return str(value.value if isinstance(value, enum.Enum) else value)


def read(kind: type[T], data: object) -> T:
    """JSON data as a value of a type. Raises ValueError that names the field."""
    import msgspec

    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        message = str(error)
        found = _PATH.search(message)
        problem = message[: found.start()] if found else message
        raise ValueError(_at(found[1], problem) if found and found[1] else problem) from None


def _at(path: str, problem: str) -> str:
    """The problem with its place, in front of one that a type's own check has named already."""
    inner = problem.removeprefix("field `")
    return f"field `{path}.{inner}" if inner != problem else f"field `{path}`: {problem}"


def as_written(value: T) -> T:
    """The value that is read back where this one is written: with its numbers rounded."""
    return read(type(value), plain(value))


def unknown_field(kind: type, data: object) -> str | None:
    """The first field of a JSON object that the type does not have."""
    return next((name for name in data if name not in _names(kind)), None) if isinstance(data, dict) else None


def parse(text: str | bytes) -> Any:
    """JSON text as data. Raises ValueError, also for NaN, numbers out of range and a field that is given twice."""
    return json.loads(text, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_distinct)


def _names(kind: type) -> frozenset[str]:
    return frozenset(name for name, *_ in _plan(kind))


def _plan(kind: type) -> _Plan:
    if kind not in _PLANS:
        _PLANS[kind] = _planned(kind)
    return _PLANS[kind]


def _planned(kind: type) -> _Plan:
    """What is written: name, decimals, rule, and whether it is left out when empty."""
    hints = typing.get_type_hints(kind, include_extras=True)
    rows = []
    for field in dataclasses.fields(kind):
        places, rule = _marks(hints[field.name])
        if rule is NEVER:
            continue
        factory = field.default_factory
        optional = field.default == () or factory is dict or factory is list
        rows.append((field.name, places, rule, optional and rule is not ALWAYS))
    for name in getattr(kind, "COMPUTED", ()):
        getter = getattr(kind, name).fget
        places, rule = _marks(typing.get_type_hints(getter, include_extras=True)["return"])
        rows.append((name, places, rule, False))
    return tuple(rows)


def _marks(hint: Any) -> tuple[int | None, Mark | None]:
    """The marks anywhere in a type: its decimals, and its rule."""
    places: int | None = None
    rule: Mark | None = None
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, Decimals):
            places = mark.places
        elif isinstance(mark, Mark):
            rule = mark
    for part in typing.get_args(hint):
        inner = _marks(part) if not isinstance(part, str | Decimals | Mark) else (None, None)
        places, rule = (inner[0] if places is None else places, inner[1] if rule is None else rule)
    return places, rule


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number; what was not measured is left out")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is out of range")
    return value


def _distinct(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError("a field is given twice")
    return data


def drop_absent(fields: dict[str, Json]) -> dict[str, Json]:
    """Leave out what was not measured instead of writing null."""
    return {name: value for name, value in fields.items() if value is not None}
