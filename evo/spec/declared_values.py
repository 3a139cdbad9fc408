"""What `task.yaml` says of the values of an input: domain, low, high and index on its tensor, and the field `specials`.

Ranges are formulas over the axes, so one is known once a case is. Zeros, infinities, NaN and denormals mean by default
what the reference makes of them in float64. Knows no arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from evo.spec.element_types import DTYPES, is_float
from evo.spec.expr import Expression
from evo.spec.integer_distributions import INTEGER_DOMAINS, IntegerRange, range_of_dtype
from evo.spec.yaml_fields import Place, YamlFields

REAL_DOMAINS = ("real", "positive", "unit", "fixed")
RANGE_FIELDS = ("low", "high", "index")
Parse = Callable[[object, Place], Expression]
REFERENCE, FLUSH, UNDEFINED = "reference", "flush", "undefined"
_WIDE = 4  # bytes of a type whose denormals hardware may flush


@dataclass(frozen=True, slots=True)
class DeclaredRange:
    """The range of an integer input as its task states it; a missing end is the type's own."""

    dtype: str
    low: Expression | None = None
    high: Expression | None = None
    beyond: Expression | None = None  # `index: V`: every index into an axis of length V, 0 to V - 1

    def at(self, axes: Mapping[str, int]) -> IntegerRange:
        """The range at one case, within the type's own."""
        if self.beyond is not None:
            return IntegerRange(0, int(self.beyond.value(axes)) - 1)
        own = range_of_dtype(self.dtype)
        low = own.low if self.low is None else int(self.low.value(axes))
        high = own.high if self.high is None else int(self.high.value(axes))
        return IntegerRange(low, high)


def read_domain(fields: YamlFields, entry: Mapping[str, object], at: Place) -> str | None:
    """Which other values the gate may put in. Raises SyntaxInvalid."""
    domain, role, dtype = entry.get("domain"), entry.get("role"), str(entry.get("dtype"))
    known = REAL_DOMAINS if is_float(dtype) else INTEGER_DOMAINS
    if domain is not None and (domain not in known or role == "out"):
        raise fields.invalid((*at, "domain"), f"unknown domain {domain!r}", f"for {dtype} inputs: {', '.join(known)}")
    return None if domain is None else str(domain)


def read_range(fields: YamlFields, entry: Mapping[str, object], at: Place, parse: Parse) -> DeclaredRange | None:
    """The declared range of an integer input; None if it states none. Raises SyntaxInvalid."""
    given = [name for name in RANGE_FIELDS if entry.get(name) is not None]
    if not given:
        return None
    dtype = str(entry.get("dtype"))
    if entry.get("role") == "out" or is_float(dtype) or dtype == "bool":
        raise fields.invalid((*at, given[0]), "a range is for integer inputs", "state the `domain` of real inputs")
    if "index" in given and len(given) > 1:
        raise fields.invalid((*at, "index"), f"beside `{given[0]}`", "`index: V` stands for low 0 and high V - 1")
    found = {name: parse(entry[name], (*at, name)) for name in given}
    return DeclaredRange(dtype, found.get("low"), found.get("high"), found.get("index"))


def range_problem(declared: DeclaredRange, axes: Mapping[str, int]) -> str | None:
    """Why the range makes no sense at a case, in words; None if it does."""
    found, own = declared.at(axes), range_of_dtype(declared.dtype)
    if found.low > found.high:
        return f"no value from {found.low} to {found.high}"
    if found.low < own.low or found.high > own.high:
        return f"{found.low} to {found.high} is beyond {declared.dtype}, {own.low} to {own.high}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Specials:
    """Of one input, by kind: `reference`, a variant has to give what the reference gives; `undefined`, anything.

    denormals may be `flush` as well: a variant may take them for zeros.
    """

    zeros: str = REFERENCE
    infinities: str = REFERENCE
    nan: str = REFERENCE
    denormals: str = REFERENCE

    @staticmethod
    def of(dtype: str) -> Specials:
        """Where nothing is stated."""
        return Specials(denormals=FLUSH if DTYPES[dtype] >= _WIDE else REFERENCE)

    @property
    def asked(self) -> tuple[str, ...]:
        """The kinds that variants are held to the reference for."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) == REFERENCE)

    @property
    def not_finite(self) -> bool:
        """Whether infinities or NaN have a meaning."""
        return REFERENCE in (self.infinities, self.nan)


_KINDS = tuple(field.name for field in fields(Specials))


def read_specials(given: YamlFields) -> dict[str, Specials]:
    """What is stated, by input: in the field `specials`, or on the tensor, where `specials: true` means `reference`.

    Raises SyntaxInvalid naming file, line and field.
    """
    types: dict[str, str] = {}
    unknown: set[str] = set()  # of a type that does not exist, which is told where the tensor is read
    found: dict[str, Specials] = {}
    for number, entry in given.entries("tensors"):
        name, role, dtype, short = (entry.get(key) for key in ("name", "role", "dtype", "specials"))
        if short not in (None, True, False) or (short and role == "out"):
            at: Place = ("tensors", number, "specials")
            raise given.invalid(at, f"{short!r} is not a choice", "true or false, for inputs")
        if isinstance(name, str) and not (isinstance(dtype, str) and dtype in DTYPES):
            unknown.add(name)
        elif role != "out" and isinstance(name, str) and isinstance(dtype, str) and is_float(dtype):
            types[name] = dtype
            if short:
                found[name] = Specials.of(dtype)
    for name, value in given.mapping("specials").items() if "specials" in given.data else ():
        if name in unknown:
            continue
        if name not in types:
            known = ", ".join(types) or "none"
            raise given.invalid(("specials", name), f"no float input {name!r}", f"float inputs: {known}")
        stated = _stated(given, name, value, types[name])
        if found.get(name, stated) != stated:
            raise given.invalid(("specials", name), "stated twice", f"leave out `specials: true` of tensor {name}")
        found[name] = stated
    return found


def _stated(given: YamlFields, name: str, value: object, dtype: str) -> Specials:
    at: Place = ("specials", name)
    if value == REFERENCE:
        return Specials.of(dtype)
    if value == UNDEFINED:
        return Specials(**dict.fromkeys(_KINDS, UNDEFINED))
    if isinstance(value, dict) and value:
        return _of_kinds(given, at, value, dtype)
    raise given.invalid(at, f"{value!r} is no meaning", "`reference`, `undefined`, or one for each kind")


def _of_kinds(given: YamlFields, at: Place, value: dict[object, object], dtype: str) -> Specials:
    usual = Specials.of(dtype)
    meanings = {kind: str(getattr(usual, kind)) for kind in _KINDS}
    for kind, meaning in value.items():
        place: Place = (*at, str(kind))
        if kind not in meanings:
            raise given.invalid(place, "unknown kind", f"kinds: {', '.join(_KINDS)}")
        allowed = (REFERENCE, UNDEFINED) + ((FLUSH,) if kind == "denormals" else ())
        if meaning not in allowed:
            raise given.invalid(place, f"{meaning!r} is no meaning", f"one of {', '.join(allowed)}")
        meanings[str(kind)] = str(meaning)
    return Specials(**meanings)
