"""What host code holds besides numbers, and what it does to the GPU, in the order in which it does it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from evo.cuda.source.parser import Node
from evo.errors import SyntaxInvalid
from evo.interop.adopt.host_numbers import UNKNOWN, HostNumber
from evo.spec.element_types import OF_C_TYPE, is_float


@dataclass(eq=False, slots=True)
class Allocation:
    """An allocation on the GPU, or a pointer that a launcher is given. bytes: as the host says; unknown if it does not.

    of_bytes: from an allocation in bytes, not in elements.
    """

    name: str
    bytes: HostNumber = UNKNOWN
    line: int = 0
    is_parameter: bool = False
    is_symbol: bool = False  # a `__constant__` array that the host fills
    element: str | None = None
    is_managed: bool = False
    rows: tuple[HostNumber, HostNumber] | None = None  # how many rows, and bytes from one to the next
    shape: tuple[HostNumber, ...] | None = None  # in elements, if the host says it
    fill: object = None  # what the host fills it with, as a tree of `fills`
    first: object = None  # its element 0, where that is set by itself


@dataclass(frozen=True, slots=True)
class DevicePointer:
    """A place in GPU memory; offset in elements."""

    memory: Allocation
    offset: HostNumber = field(default_factory=lambda: HostNumber.number(0))


@dataclass(eq=False, slots=True)
class HostArray:
    """Memory of the host. length in elements. items: what an array of the text holds, `{32, 64, 128}`.

    is_new: a vector that nothing has been put into; its length is 0 if the program appends to it, else not known.
    cells: elements that are set one by one: pointers, extents. memory: what a kernel gets of it by value, in a struct.
    """

    name: str
    length: HostNumber = UNKNOWN
    element: str | None = None
    items: tuple[object, ...] = ()
    fill: object = None
    first: object = None
    is_new: bool = False
    of_pointers: bool = False
    cells: dict[int, HostVariable] = field(default_factory=dict)
    memory: Allocation | None = None

    @property
    def has_cells(self) -> bool:
        """Whether its elements are followed one by one."""
        kind = OF_C_TYPE.get(self.element or "")
        return self.of_pointers or (kind is not None and not is_float(kind))

    def cell(self, index: int) -> HostVariable:
        """The variable that an element is."""
        value = self.items[index] if index < len(self.items) else UNKNOWN
        kind = f"{self.element}{'*' * self.of_pointers}"
        return self.cells.setdefault(index, HostVariable(f"{self.name}_{index}", kind, value))

    def copied(self) -> HostArray:
        """By value, as a part of a struct."""
        cells = {index: HostVariable(c.name, c.type, c.value) for index, c in self.cells.items()}
        return replace(self, cells=cells)

    @property
    def filled(self) -> object:
        """What it holds, as a tree of `fills`; None if nothing was put in."""
        numbers = tuple(each.how for each in self.items if isinstance(each, HostNumber))
        return ("items", *numbers) if self.fill is None and numbers and None not in numbers else self.fill


@dataclass(frozen=True, slots=True)
class HostRandom:
    """A distribution of whole numbers, from low up to, not including, end."""

    low: object
    end: object


@dataclass(frozen=True, slots=True)
class Extent:
    """A dim3."""

    x: HostNumber
    y: HostNumber
    z: HostNumber

    @property
    def parts(self) -> tuple[HostNumber, HostNumber, HostNumber]:
        return self.x, self.y, self.z


@dataclass(eq=False, slots=True)
class HostVariable:
    """A variable."""

    name: str
    type: str
    value: object = None
    is_fixed: bool = False  # a loop's counter, or a block size: its number, and no name
    untold: frozenset[str] = frozenset()  # why its number is not known: variables that nothing in the file sets


@dataclass(eq=False, slots=True)
class HostRecord:
    """A value of a struct or class of the program."""

    type: str
    fields: dict[str, HostVariable] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()  # of its class's template

    def copied(self) -> HostRecord:
        """By value: fields of its own, and the same memory behind its pointers."""
        fields = {n: HostVariable(c.name, c.type, copied(c.value, is_part=True)) for n, c in self.fields.items()}
        return HostRecord(self.type, fields, self.arguments)

    @property
    def pointers(self) -> list[HostVariable]:
        arrays = [cell.value for cell in self.fields.values() if isinstance(cell.value, HostArray)]
        cells = [*self.fields.values(), *(cell for array in arrays for cell in array.cells.values())]
        return [cell for cell in cells if isinstance(cell.value, DevicePointer)]


def copied(value: object, *, is_part: bool = False) -> object:
    """A struct as it is passed by value, with the arrays that are part of it; anything else as it is."""
    if isinstance(value, HostRecord) or (is_part and isinstance(value, HostArray)):
        return value.copied()
    return value


@dataclass(frozen=True, slots=True)
class HostLambda:
    """A lambda and what it can see."""

    node: Node
    scopes: tuple[dict[str, HostVariable], ...]


@dataclass(frozen=True, slots=True)
class HostKernel:
    """A kernel as a value, `auto k = softmax<128>`."""

    name: str
    template: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostPack:
    """What `Args... args` stands for: variables by these names."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """`&variable`."""

    cell: HostVariable


@dataclass(frozen=True, slots=True)
class Launched:
    """A launch as the host makes it. template: the arguments between `<` and `>` as they are written or worked out."""

    kernel: str
    template: tuple[str, ...]
    grid: Extent
    block: Extent
    shared: HostNumber
    arguments: tuple[object, ...]
    line: int
    passed: tuple[object, ...] = ()  # the arguments as they are written, structs whole

    def looks_like(self, other: Launched) -> bool:
        """The same kernel with the same numbers and places."""
        return (self.kernel, self.template, _shape(self)) == (other.kernel, other.template, _shape(other))


def _shape(launched: Launched) -> list[object]:
    sizes = [size.value for size in (*launched.grid.parts, *launched.block.parts, launched.shared)]
    return [*sizes, *(_plain(argument) for argument in launched.arguments)]


def _plain(argument: object) -> object:
    if isinstance(argument, DevicePointer):
        return (argument.memory.name, argument.offset.value)
    return argument.value if isinstance(argument, HostNumber) else repr(argument)


@dataclass(frozen=True, slots=True)
class HostEvent:
    """kind: `launch`, `in` (host to GPU), `out` (GPU to host), `zero`, `fill` (another byte), `copy` (GPU to GPU).

    is_step: a launch in a loop whose turns differ, so that no other one does the same job.
    """

    kind: str
    line: int
    memory: Allocation | None = None
    launched: Launched | None = None
    source: Allocation | None = None
    is_step: bool = False


class Stopped(Exception):
    """A `return` of host code."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


def problem(path: Path | str, line: int | None, what: str, hint: str) -> SyntaxInvalid:
    return SyntaxInvalid(path, line, what, hint=hint)
