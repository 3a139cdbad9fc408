"""The field `specials` of a task: what zeros, infinities, NaN and denormals in its inputs mean.

By default what the reference makes of them in float64. Knows no arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from evo.spec.element_types import DTYPES, is_float
from evo.spec.yaml_fields import Place, YamlFields

REFERENCE, FLUSH, UNDEFINED = "reference", "flush", "undefined"
_WIDE = 4  # bytes of a type whose denormals hardware may flush


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
