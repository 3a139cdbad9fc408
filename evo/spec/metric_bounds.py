"""The `gates:` of a task: bounds on metrics, axes and work formulas that a correct variant must also keep.

    gates:
      no_spills: spill_bytes == 0
      exact: {require: hmma == flop / 4096, case: full_tile}

Knows the names of metrics, no variant and no device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evo.spec.expr import Expression, parse
from evo.spec.metrics import COUNTED, METRICS
from evo.spec.yaml_fields import YamlFields


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricGate:
    """case: where counted metrics are counted; `counted` tells whether there are any."""

    name: str
    bound: Expression
    case: str
    counted: bool


def read_gates(fields: YamlFields, own: set[str], cases: Sequence[str]) -> tuple[MetricGate, ...]:
    """Read the field `gates`. own: names of axes and work formulas. Counted at the first case unless said otherwise.

    Raises SyntaxInvalid naming file, line and field.
    """
    if not fields.data.get("gates"):
        return ()
    gates = []
    for name, given in fields.mapping("gates").items():
        entry = given if isinstance(given, dict) else {"require": given}
        fields.only(entry, ("require", "case"), ("gates", name))
        if not entry.get("require"):
            raise fields.invalid(("gates", name), "no bound", "e.g. `no_spills: spill_bytes == 0`")
        where = entry.get("case", cases[0])
        if where not in cases:
            raise fields.invalid(("gates", name, "case"), f"no case {where!r}", f"one of {', '.join(cases)}")
        at = ("gates", name, "require") if isinstance(given, dict) else ("gates", name)
        bound = parse(str(entry["require"]), path=fields.path, line=fields.line(*at), real=True)
        used = _metrics(fields, at, bound, own)
        counted = any(METRICS[metric].kind == COUNTED for metric in used)
        gates.append(MetricGate(name=name, bound=bound, case=str(where), counted=counted))
    return tuple(gates)


def _metrics(fields: YamlFields, at: tuple[str, ...], bound: Expression, own: set[str]) -> frozenset[str]:
    used = bound.names & set(METRICS)
    if unknown := sorted(bound.names - own - set(METRICS)):
        known = f"metrics: {', '.join(METRICS)}; also the axes and work formulas ({', '.join(sorted(own))})"
        raise fields.invalid(at, f"unknown metric {unknown[0]!r}", known)
    if twice := sorted(used & own):
        raise fields.invalid(at, f"{twice[0]!r} is a metric and this task's own", "rename the axis or formula")
    if not used:
        raise fields.invalid(at, "names no metric", f"one of {', '.join(METRICS)}")
    return used
