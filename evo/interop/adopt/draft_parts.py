"""The parts of a drafted task: tensors, scalars, launches; and which sizes are lengths of tables."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evo.cuda.source import Param
from evo.errors import UsageError, known_words
from evo.interop.adopt.fills import PLACE, UNTOLD
from evo.interop.adopt.host_numbers import UNKNOWN, HostNumber, applied, factors, names_of, written
from evo.interop.adopt.host_values import Allocation
from evo.interop.adopt.kernel_instance import Instance
from evo.spec.element_types import is_float

AS_FILLED = ", as the host code fills it"


@dataclass
class TensorDraft:
    """One tensor or scratch. dims: None if no allocation tells them. why: where the role comes from, in a few words."""

    name: str
    role: str  # in, out, inout, scratch
    dtype: str
    dims: list[object] | None
    init: str = "poison"
    why: str = ""
    memory: Allocation | None = None
    high: int | str | None = None  # of integers: one past the largest value that is drawn
    positive: bool = False
    ends: tuple[int, int] | None = None  # of integers that may be any of their type
    counts: str = ""  # of integers: the size that they count along, and may be any number up to
    is_ordered: bool = False  # integers that are drawn in order, from 0 to `high`: where rows begin and end
    is_loose: bool = False  # places where parts begin, drawn as filled but for the lengths of parts
    is_distinct: bool = False  # integers no two of which are one: places that are written
    fill: object = None  # of whole numbers: what the host code puts in, as a tree of `fills`
    drawn: str = ""  # `values`: they are drawn so; `range`: between the ends of that
    anywhere: tuple[int, ...] = ()  # of flags that are drawn as filled: those that may be at any place, and are at half

    @property
    def is_whole(self) -> bool:
        """Whether it holds whole numbers, other than flags."""
        return self.dtype != "bool" and not is_float(self.dtype)

    @property
    def is_told(self) -> bool:
        """Whether the host code says what is in it."""
        return self.fill not in (None, UNTOLD)

    @property
    def has_order(self) -> bool:
        """Whether what the host code puts in has a meaning together, as places where parts begin; not one by one."""
        kind = self.fill[0] if isinstance(self.fill, tuple) else ""
        is_linear = self.fill == PLACE or (kind == "+" and self.fill[1] == PLACE)  # type: ignore[index]
        return self.has_one_more or not (is_linear or kind in ("%", "&", "shuffled"))

    def draw_as_filled(self, kind: str = "values") -> None:
        """Draw what the host code puts in, or values between the ends of that."""
        if isinstance(self.fill, tuple) and self.fill[:2] == ("random", 0):
            self.high, self.fill = written(self.fill[2]), None
            self.why += f"{AS_FILLED} with random numbers below {self.high}"
        else:
            self.drawn = kind
            self.why += AS_FILLED if kind == "values" else f", in the range{AS_FILLED[1:]}"

    def keep_the_rest(self, *, is_fed: bool) -> None:
        """Elements that no thread writes hold what the host has put there, if it has; else they start at zero."""
        self.why = "copied in, not all of it is written" if is_fed else "not all of it is written"
        self.role, self.init = ("inout", "poison") if is_fed else ("out", "zero")

    @property
    def may_be_offsets(self) -> bool:
        """Places in another tensor, one more than there are rows."""
        return self.role == "in" and self.high is not None and self.has_one_more and not is_float(self.dtype)

    @property
    def has_one_more(self) -> bool:
        """Whether it has an element more than some size."""
        dims = self.dims or []
        return len(dims) == 1 and isinstance(dims[0], tuple) and dims[0][0] == "+" and dims[0][2] == 1

    @property
    def shape(self) -> list[str]:
        return [written(dim) for dim in self.dims or [1]]


@dataclass
class ScalarDraft:
    name: str
    dtype: str
    value: float
    given: bool


@dataclass
class LaunchDraft:
    instance: Instance
    grid: tuple[str, ...]
    block: tuple[str, ...]
    shared: str
    args: tuple[str, ...]


def require_numbers(launches: Iterable[LaunchDraft], names: Iterable[str]) -> None:
    """Raises UsageError for a name of which the kernels take no number."""
    taken = {param.name for launch in launches for param in launch.instance.params if not param.is_pointer}
    for name in names:
        if name not in taken:
            hint = known_words("numbers", name, sorted(taken) or ["none"])
            raise UsageError(f"--scalar {name}: no kernel takes this number", hint=hint)


def dims_of(memory: Allocation, size: int, whole: int) -> list[object] | None:
    """The extents of an allocation by elements of so many bytes; None if the host does not tell them.

    whole: bytes of what the host counts, as the two numbers of a `float2`.
    """
    if memory.shape is not None:
        return [*(dim.how for dim in memory.shape), *([whole // size] if whole > size else [])]
    if memory.bytes.how is None:
        return None
    if memory.rows is not None:
        rows, pitch = memory.rows
        return [rows.how, applied("//", pitch, HostNumber.number(size)).how]
    parts = [part for part in factors(applied("//", memory.bytes, HostNumber.number(size)).how) if part != 1]
    numbers = [int(part) for part in parts if isinstance(part, int | float)]
    others = [part for part in parts if not isinstance(part, int | float)]
    total = math.prod(numbers)
    return [*others, *([total] if total != 1 or not others else [])]


def is_left_alone(param: Param, argument: object, instance: Instance) -> bool:
    """A number that nothing tells and that the kernel does not look at, as a field of a struct."""
    untold = argument == UNKNOWN or isinstance(argument, str)
    return untold and not param.is_pointer and len(re.findall(rf"\b{param.name}\b", instance.text)) == 1


def table_lengths(tensors: Sequence[TensorDraft]) -> set[str]:
    """Sizes that are nothing but the first extent of float inputs, beside inputs of whole numbers: rows of a table."""
    inputs = [tensor for tensor in tensors if tensor.role == "in"]
    if all(is_float(tensor.dtype) for tensor in inputs):
        return set()
    first = {t.dims[0] for t in inputs if t.dims and is_float(t.dtype) and isinstance(t.dims[0], str)}
    rest = {n for t in tensors for at, dim in enumerate(t.dims or []) for n in names_of(dim) if at or dim not in first}
    whole = {
        n for t in tensors if t.role != "in" or not is_float(t.dtype) for dim in t.dims or [] for n in names_of(dim)
    }
    return first - rest - whole
