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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn, Self, TypeVar

if TYPE_CHECKING:
    from typing import TypeAlias

    Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"
else:
    Json = Any  # what msgspec reads as it is

T = TypeVar("T")

_KIND = re.compile(r"`((?:object|array|int|str|float|bool|null)(?: \| \w+)*)`")  # in a message of msgspec
_KINDS = {"object": "an object", "array": "a list", "int": "a whole number", "str": "a text", "float": "a number"}
_KINDS |= {"bool": "true or false"}
_PATH = re.compile(r" - at `\$\.?(.*)`$", re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True)
class Decimals:
    """Marks a field whose floats are rounded when written, those in a mapping or tuple too."""

    places: int

    def __call__(self, value: float) -> float:
        return round(value, self.places)


@dataclasses.dataclass(frozen=True, slots=True)
class Digits:
    """Marks a field whose floats are written with so many significant digits."""

    count: int

    def __call__(self, value: float) -> float:
        return float(f"{value:.{self.count}g}")


@dataclasses.dataclass(frozen=True, slots=True)
class Whole:
    """Marks a count that may be a float: it is written as an integer if it is one."""

    def __call__(self, value: float) -> float:
        return int(value) if value == int(value) else value


Rounding = Decimals | Digits | Whole


class Mark(enum.Enum):
    """When a field is written, in `Annotated`."""

    ALWAYS = "even when it is empty or None"
    FINITE = "unless it is infinite or NaN"
    NONEMPTY = "unless it is an empty text"
    NEVER = "never: it is for the process alone"


ALWAYS, FINITE, NONEMPTY, NEVER = Mark

Us = Annotated[float, Decimals(4)]  # microseconds
Seconds = Annotated[float, Decimals(3)]


_Plan = tuple[tuple[str, str, Rounding | None, Mark | None, bool], ...]  # attribute, JSON name, ..., is optional
_PLANS: dict[type, _Plan] = {}


class Serializable:
    """A dataclass that is written and read as a JSON object.

    COMPUTED names the properties that are written as well. RENAMED gives fields and properties another name in JSON;
    a type that has it is written only.
    """

    __slots__ = ()
    COMPUTED: ClassVar[tuple[str, ...]] = ()
    RENAMED: ClassVar[Mapping[str, str]] = {}

    def to_json(self) -> dict[str, Json]:
        """The JSON object, of plain values."""
        shape: dict[str, Json] = {}
        for attribute, name, rounding, rule, optional in plan(type(self)):
            value = getattr(self, attribute)
            if value is None and rule is ALWAYS:
                shape[name] = None
                continue
            if value is None or (optional and not value and isinstance(value, Mapping | tuple | list)):
                continue
            if (rule is FINITE and not math.isfinite(value)) or (rule is NONEMPTY and not value):
                continue
            shape[name] = plain(value, rounding)
        return shape

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Read what `to_json` wrote. Raises ValueError that names the field."""
        return read(cls, data)


def plain(value: object, rounding: Rounding | None = None) -> Json:
    """A value as JSON holds it."""
    if value is None or isinstance(value, bool | int) or type(value) is str:
        return value
    if isinstance(value, float):
        return value if rounding is None else rounding(value)
    if isinstance(value, Serializable):
        return value.to_json()
    if isinstance(value, Mapping):
        return {str(name): plain(member, rounding) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member, rounding) for member in value]
    if isinstance(value, Path):
        return str(value)
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
        problem = _KIND.sub(_kind_in_words, message[: found.start()] if found else message)
        raise ValueError(_at(found[1], problem) if found and found[1] else problem) from None


def _kind_in_words(match: re.Match[str]) -> str:
    """`array | null` of a msgspec message as `a list or null`."""
    return " or ".join(_KINDS.get(kind, kind) for kind in match[1].split(" | "))


def _at(path: str, problem: str) -> str:
    """The problem with its place, in front of one that a type's own check has named already."""
    inner = problem.removeprefix("field `")
    return f"field `{path}.{inner}" if inner != problem else f"field `{path}`: {problem}"


def as_written(value: T) -> T:
    """The value that is read back where this one is written: with its numbers rounded."""
    return read(type(value), plain(value))


def copied(kind: type[T], *sources: object, **more: object) -> T:
    """A value of a dataclass from what the sources have under its fields' names. more: fields that are given.

    Raises TypeError if two sources have a field that is not given, since either could be meant.
    """
    found: dict[str, object] = {}
    for name in (field.name for field in dataclasses.fields(kind) if field.name not in more):  # type: ignore[arg-type]
        having = [source for source in sources if hasattr(source, name)]
        if len(having) > 1:
            raise TypeError(f"{kind.__name__}.{name}: more than one source has it")
        if having:
            found[name] = getattr(having[0], name)
    return kind(**found, **more)


def unknown_field(kind: type, data: object) -> str | None:
    """The first field of a JSON object that the type does not have."""
    return next((name for name in data if name not in _names(kind)), None) if isinstance(data, dict) else None


def parse(text: str | bytes) -> Any:
    """JSON text as data. Raises ValueError, also for NaN, numbers out of range and a field that is given twice."""
    return json.loads(text, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_distinct)


def _names(kind: type) -> frozenset[str]:
    return frozenset(name for _, name, *_ in plan(kind))


def plan(kind: type) -> _Plan:
    """What is written of a type: attribute, JSON name, rounding, mark, and whether it is left out when empty."""
    if kind not in _PLANS:
        _PLANS[kind] = tuple(_planned(kind))
    return _PLANS[kind]


def _planned(kind: Any) -> Iterator[tuple[str, str, Rounding | None, Mark | None, bool]]:
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        rounding, mark = _marks(hints[field.name])
        if mark is not NEVER:
            is_empty = field.default == () or field.default_factory in (dict, list)
            yield field.name, kind.RENAMED.get(field.name, field.name), rounding, mark, is_empty and mark is not ALWAYS
    for name in kind.COMPUTED:
        rounding, mark = _marks(typing.get_type_hints(getattr(kind, name).fget, include_extras=True)["return"])
        yield name, kind.RENAMED.get(name, name), rounding, mark, False


def _marks(hint: Any) -> tuple[Rounding | None, Mark | None]:
    """The marks anywhere in a type."""
    marks = list(getattr(hint, "__metadata__", ()))
    rounding = next((mark for mark in marks if isinstance(mark, Rounding)), None)
    rule = next((mark for mark in marks if isinstance(mark, Mark)), None)
    for part in typing.get_args(hint):
        if not isinstance(part, str | Rounding | Mark):
            inner = _marks(part)
            rounding, rule = rounding or inner[0], rule or inner[1]
    return rounding, rule


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number; leave out a value that was not measured")


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
