"""The fields of an input tensor in `task.yaml` that say which values it may hold: domain, low, high, index.

They are formulas over the axes, so a range is known once a case is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evo.spec.element_types import is_float
from evo.spec.expr import Expression
from evo.spec.integer_distributions import INTEGER_DOMAINS, IntegerRange, range_of_dtype
from evo.spec.yaml_fields import Place, YamlFields

REAL_DOMAINS = ("real", "positive", "unit", "fixed")
RANGE_FIELDS = ("low", "high", "index")
Parse = Callable[[object, Place], Expression]


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
