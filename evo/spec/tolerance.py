"""The `tolerance:` of a task: how far an output may be from the reference, and where that comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from evo.spec.yaml_fields import YamlFields


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """`allclose` bounds, and how many times the trusted implementation's own error a variant may have.

    integers: by how much an element of an integer output may differ; 0: not at all.
    """

    rtol: float
    atol: float
    rival_error_factor: float
    because: str
    integers: int = 0


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
        if not 0 <= numbers[key] < 1e3:
            raise fields.invalid(("tolerance", key), f"{value!r} is out of range", "a small positive number")
    if not given.get("because"):
        raise fields.invalid(("tolerance", "because"), "missing", "say where the tolerance comes from")
    integers = given.get("integers", 0)
    if not isinstance(integers, int) or isinstance(integers, bool) or not 0 <= integers <= 16:
        raise fields.invalid(("tolerance", "integers"), f"{integers!r} is not a step", "a whole number from 0 to 16")
    return Tolerance(**numbers, because=str(given["because"]), integers=integers)
