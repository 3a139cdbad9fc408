"""The `tolerance:` of a task: how far an output may be from the reference, and where that comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from evo.spec.yaml_fields import YamlFields

# Of a task whose author gives none, by type: rtol, and atol as a share of the size of the outputs.
DEFAULT_TOLERANCES = {
    "float64": (1e-9, 1e-11),
    "float32": (1e-5, 1e-6),
    "float16": (1e-2, 1e-3),
    "bfloat16": (2e-2, 1e-2),
}
COARSEST_TOLERANCE = (5e-2, 1e-2)  # float8


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """`allclose` bounds, and how many times the trusted implementation's own error a variant may have.

    integers: by how much an element of an integer output may differ; 0: not at all. sizes: of what is summed for an
    element of an output, as drawn; a few roundings of that are no error, where the trusted one is better by chance.
    """

    rtol: float
    atol: float
    rival_error_factor: float
    because: str
    integers: int = 0
    sizes: Mapping[str, float] = field(default_factory=dict)


def read_tolerance(fields: YamlFields) -> Tolerance:
    """Read the field `tolerance`. Raises SyntaxInvalid naming file, line and field."""
    given = fields.mapping("tolerance")
    numbers = {}
    for key in ("rtol", "atol", "rival_error_factor"):
        value = given.get(key)
        # YAML 1.1 reads 1e-2 as a string; it is a number to everyone who writes it.
        try:
            numbers[key] = float(cast(str, value))
        except (TypeError, ValueError):
            raise fields.invalid(("tolerance", key), f"{value!r} is not a number", f"write `{key}: 0.01`") from None
        # atol is of the size of the outputs, and products of whole numbers are large; whether it tells a kernel that
        # does nothing from a correct one is tried on the reference.
        if not 0 <= numbers[key] < (math.inf if key == "atol" else 1e3):
            raise fields.invalid(("tolerance", key), f"{value!r} is out of range", "a small positive number")
    if not given.get("because"):
        raise fields.invalid(("tolerance", "because"), "missing", "say where the tolerance comes from")
    integers = given.get("integers", 0)
    if not isinstance(integers, int) or isinstance(integers, bool) or not 0 <= integers <= 16:
        raise fields.invalid(("tolerance", "integers"), f"{integers!r} is not a step", "a whole number from 0 to 16")
    return Tolerance(**numbers, because=str(given["because"]), integers=integers, sizes=_sizes(fields, given))


def _sizes(fields: YamlFields, given: Mapping[str, object]) -> dict[str, float]:
    sizes = given.get("sizes", {})
    if not isinstance(sizes, dict):
        raise fields.invalid(("tolerance", "sizes"), f"{sizes!r} is no mapping", "{y: 1.0}, a size for each output")
    outputs = {entry.get("name") for _, entry in fields.entries("tensors") if entry.get("role") in ("out", "inout")}
    found: dict[str, float] = {}
    for name, value in sizes.items():
        try:
            found[str(name)] = float(cast(str, value))
        except (TypeError, ValueError):
            found[str(name)] = math.nan
        if name not in outputs or not 0 < found[str(name)] < math.inf:
            hint = f"outputs: {', '.join(map(str, outputs))}; each with the size of its elements"
            raise fields.invalid(("tolerance", "sizes", str(name)), f"{value!r} is no size of an output", hint)
    return found
