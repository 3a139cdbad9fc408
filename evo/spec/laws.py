"""The `laws:` of a task: what must become of the outputs when the inputs change in a known way (metamorphic relations).

    laws:
      - {permute: SK, when: not CAUSAL}
      - {split: B}
      - {repeat: COLS}
      - {append: COLS, fill: {x: -inf}, gives: {y: 0}}
      - {scale: v, power: 1}

Knows the field of task.yaml. What a law makes of inputs and outputs is in `changed_inputs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from evo.spec.element_types import is_float
from evo.spec.expr import Expression, parse
from evo.spec.yaml_fields import Place, YamlFields

PERMUTE, SPLIT, REPEAT, APPEND, SCALE = "permute", "split", "repeat", "append", "scale"
OF_AXES = (PERMUTE, SPLIT, REPEAT, APPEND)
SAME_SIZE = (PERMUTE, SCALE)
_FIELDS = {
    PERMUTE: (PERMUTE, "when"),
    SPLIT: (SPLIT, "when"),
    REPEAT: (REPEAT, "when"),
    APPEND: (APPEND, "fill", "gives", "when"),
    SCALE: (SCALE, "power", "when"),
}
_POWERS = range(-4, 5)


class NamedTensor(Protocol):
    """What a law needs to know of a tensor."""

    @property
    def name(self) -> str: ...

    @property
    def role(self) -> str: ...

    @property
    def dtype(self) -> str: ...

    @property
    def shape(self) -> Sequence[Expression]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """kind: one of the five. axis: of those in OF_AXES. tensors, power: of `scale`: outputs grow with that power.

    fill: what the inputs hold at appended places; gives: what the outputs with that axis hold there.
    when: an expression over the axes; the law says nothing of other cases. line: in task.yaml, if it is stated.
    """

    kind: str
    axis: str = ""
    tensors: tuple[str, ...] = ()
    power: int = 1
    fill: Mapping[str, float] = field(default_factory=dict)
    gives: Mapping[str, float] = field(default_factory=dict)
    when: Expression | None = None
    line: int | None = None

    @property
    def words(self) -> str:
        """As a record names it: `permute SK`."""
        return f"{self.kind} {self.axis or ', '.join(self.tensors)}"

    def applies(self, axes: Mapping[str, int]) -> bool:
        return self.when is None or bool(self.when.value(axes))


def read_laws(fields: YamlFields, axes: Sequence[str], tensors: Sequence[NamedTensor]) -> tuple[Law, ...] | None:
    """Read the field `laws`; None where it is absent. Raises SyntaxInvalid naming file, line and field."""
    if "laws" not in fields.data:
        return None
    if fields.data["laws"] == []:
        return ()
    return tuple(_law(fields, ("laws", number), entry, axes, tensors) for number, entry in fields.entries("laws"))


def _law(
    fields: YamlFields, at: Place, entry: Mapping[str, object], axes: Sequence[str], tensors: Sequence[NamedTensor]
) -> Law:
    kinds = [kind for kind in _FIELDS if kind in entry]
    if len(kinds) != 1:
        raise fields.invalid(at, f"{len(kinds)} laws", f"one of {', '.join(_FIELDS)} in each entry")
    kind = kinds[0]
    for name in entry:
        if name not in _FIELDS[kind]:
            raise fields.invalid((*at, name), "unknown field", f"of `{kind}`: {', '.join(_FIELDS[kind])}")
    when = None
    if "when" in entry:
        when = parse(str(entry["when"]), path=fields.path, line=fields.line(*at, "when"))
        for name in sorted(when.names - set(axes)):
            raise fields.invalid((*at, "when"), f"unknown axis {name!r}", f"axes: {', '.join(axes)}")
    line = fields.line(*at)
    if kind == SCALE:
        return Law(
            kind=kind,
            tensors=_scaled(fields, at, entry, tensors),
            power=_power(fields, at, entry),
            when=when,
            line=line,
        )
    axis = entry[kind]
    if not isinstance(axis, str) or axis not in axes:
        raise fields.invalid((*at, kind), f"unknown axis {axis!r}", f"axes: {', '.join(axes)}")
    if (problem := axis_problem(axis, tensors)) is not None:
        raise fields.invalid((*at, kind), problem, "the axis has to be a whole dimension of a tensor, once")
    fill = _numbers(fields, (*at, "fill"), entry, [t for t in tensors if t.role != "out" and axis in dimensions_of(t)])
    gives = _numbers(fields, (*at, "gives"), entry, [t for t in tensors if t.role != "in" and axis in dimensions_of(t)])
    return Law(kind=kind, axis=axis, fill=fill, gives=gives, when=when, line=line)


def _scaled(
    fields: YamlFields, at: Place, entry: Mapping[str, object], tensors: Sequence[NamedTensor]
) -> tuple[str, ...]:
    given = entry[SCALE]
    names = given if isinstance(given, list) else [given]
    known = [tensor.name for tensor in tensors if tensor.role != "out" and is_float(tensor.dtype)]
    for name in names:
        if name not in known:
            raise fields.invalid((*at, SCALE), f"{name!r} is no float input", f"one or more of {', '.join(known)}")
    return tuple(names)


def _power(fields: YamlFields, at: Place, entry: Mapping[str, object]) -> int:
    power = entry.get("power", 1)
    if not isinstance(power, int) or isinstance(power, bool) or power not in _POWERS:
        raise fields.invalid((*at, "power"), f"{power!r} is no power", "a whole number from -4 to 4")
    return power


def _numbers(
    fields: YamlFields, at: Place, entry: Mapping[str, object], tensors: Sequence[NamedTensor]
) -> Mapping[str, float]:
    """A number for each of these tensors, if the law is `append`."""
    given = entry.get(str(at[-1]))
    if APPEND not in entry or (given is None and not tensors):
        return {}
    wanted = {tensor.name for tensor in tensors}
    if not isinstance(given, dict) or set(given) != wanted:
        raise fields.invalid(at, f"expected a number for each of {', '.join(sorted(wanted))}", "e.g. {x: 0}")
    found: dict[str, float] = {}
    for name, value in given.items():
        try:
            found[str(name)] = float(cast(str, value))  # YAML reads `-inf` as text
        except (TypeError, ValueError):
            raise fields.invalid((*at, name), f"{value!r} is not a number", "e.g. 0 or -inf") from None
    return found


def axis_problem(axis: str, tensors: Sequence[NamedTensor]) -> str | None:
    """Why no law of axes can be stated of this one; None if it can."""
    count = 0
    for tensor in tensors:
        texts = dimensions_of(tensor)
        if texts.count(axis) > 1:
            return f"{axis} is two dimensions of {tensor.name}"
        for dim in tensor.shape:
            if axis in dim.names and dim.text != axis:
                return f"{axis} is in the dimension `{dim.text}` of {tensor.name}"
        count += axis in texts
    return None if count else f"no tensor has the dimension {axis}"


def dimensions_of(tensor: NamedTensor) -> list[str]:
    """Its dimensions as they are written."""
    return [dim.text for dim in tensor.shape]
