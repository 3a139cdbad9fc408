"""The loop-and-access form of a kernel: its loops and branches, and which thread touches which element of which array.

Plain frozen records, independent of the syntax tree and of any library for integer sets. Every record knows the
bytes of the file that it came from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from evo.analysis.access.comparisons import Condition, all_of
from evo.analysis.access.term_bounds import Bounds
from evo.analysis.access.terms import Symbol, Term
from evo.cuda.source import Span

_NOWHERE = Span(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """What the analysis could not follow: the expression as it is written, and why.

    by_data: a value in memory decides it, so another input may allow what this one forbids.
    """

    what: str
    reason: str
    span: Span
    line: int
    by_data: bool = False


@dataclass(eq=False, slots=True)
class Data:
    """A computed value that is no index: an operation over other values. Compared by identity.

    op: `read` (detail: number of the access), `constant` (float), `index` (Term), `carried` (Carried: the value of the
    turn before), `result` (Carried: what a loop left), `same` (its only operand), `add`, `sub`, `mul`, `div`, `neg`,
    `max`, `min`, `select` (detail: condition), `less`, `equal`, `shuffle` (detail: Exchange), `convert`, `part`
    (detail: field or Term), `pack`, `mma`, `call` (detail: name), `unknown`.
    """

    op: str
    args: tuple[Data, ...] = ()
    detail: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """Memory that the kernel addresses.

    space: `global`, `shared`, `local` or `constant`. role: of a tensor `in` or `out`; `scratch`; empty otherwise.
    element: its type in the kernel; shape in elements, outer dimension first, empty if not known. name: as in the task
    or the text; parameter: how the kernel calls it.
    """

    name: str
    space: str
    element: str
    element_bytes: int
    shape: tuple[Term, ...] = ()
    role: str = ""
    parameter: str = ""
    address: Symbol
    span: Span = _NOWHERE
    is_dynamic: bool = False  # shared memory that the launch sizes
    loops: tuple[Symbol, ...] = ()  # in whose body it is declared

    @property
    def is_tensor(self) -> bool:
        return self.space == "global"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One place that reads or writes memory, each time it is carried out by one thread.

    mode: `read`, `write` or `atomic`. bytes: touched by one thread. offset: of the first byte from the array's
    beginning; index: the same in elements, None if no whole number of them. subscripts: per dimension of the array.
    context: loops (by symbol) and conditions around it, the outer ones first. calls: names of the inlined functions
    that it stands in. route: `plain`, `ldg`, `cp.async`, `ldmatrix` ... blocked: why the place is not known.
    value: what is written.
    """

    number: int
    array: Array | None
    mode: str
    bytes: int
    offset: Term
    index: Term | None
    subscripts: tuple[Term, ...] = ()
    context: tuple[Symbol | Condition, ...] = ()
    span: Span
    line: int
    text: str
    calls: tuple[str, ...] = ()
    route: str = "plain"
    value: Data | None = None
    operation: str = ""  # of an atomic
    blocked: Blocked | None = None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return tuple(part for part in self.context if not isinstance(part, Symbol))

    @property
    def loops(self) -> tuple[Symbol, ...]:
        return tuple(part for part in self.context if isinstance(part, Symbol))

    @property
    def guard(self) -> Condition:
        return all_of(self.conditions)

    @property
    def memory(self) -> Array:
        """The array, of an access that is known to go to one."""
        assert self.array is not None
        return self.array

    @property
    def is_global(self) -> bool:
        """Whether it is known to go to memory that all blocks share."""
        return self.array is not None and self.array.is_tensor

    @property
    def is_read(self) -> bool:
        return self.mode in ("read", "atomic")

    @property
    def is_write(self) -> bool:
        return self.mode in ("write", "atomic")

    @property
    def elements(self) -> int:
        """Elements that one thread touches."""
        return max(1, self.bytes // self.array.element_bytes) if self.array is not None else 1


@dataclass(eq=False, slots=True, kw_only=True)
class Carried:
    """A scalar that a loop hands from turn to turn: initial before the first, update after each."""

    name: str
    loop: Symbol
    initial: Data
    update: Data | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A loop. symbol: its variable, which takes start, start + step ... while condition holds.

    values: what it takes if they are no such row (16, 8, 4, 2, 1). until: the turn in which it holds is the last one;
    skipped: a turn in which it holds ends early.
    trip: how often it runs, None if that has no formula. parent: the loop around it. factor: of `#pragma unroll`, as
    text, None without one. carried: numbers that go from turn to turn. is_given: data says how often it runs, but is
    known when it begins.
    """

    symbol: Symbol
    start: Term
    step: Term
    values: tuple[int, ...] | None = None
    condition: Condition
    until: Condition | None = None
    skipped: Condition | None = None
    trip: Term | None
    span: Span
    header: Span
    line: int
    parent: Symbol | None = None
    factor: str | None = None
    carried: tuple[Carried, ...] = ()
    calls: tuple[str, ...] = ()
    blocked: Blocked | None = None
    is_given: bool = False

    @property
    def counted(self) -> range | None:
        """The values of its variable, if those are numbers that its header tells."""
        start, step, trip = self.start.value, self.step.value, self.trip.value if self.trip is not None else None
        if self.values is not None or start is None or not step or trip is None:
            return None
        return range(start, start + step * trip, step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nest:
    """A loop with what it repeats."""

    loop: Loop
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """What is carried out if the condition holds, and otherwise."""

    condition: Condition
    then: tuple[Node, ...]
    otherwise: tuple[Node, ...]
    span: Span
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """scope: `block`, `warp`, `group` or `grid`."""

    scope: str
    context: tuple[Symbol | Condition, ...]
    span: Span
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Values that the lanes of a warp exchange. name: `shfl_xor`, `ballot` ... distance: None if unknown."""

    name: str
    distance: Term | None
    context: tuple[Symbol | Condition, ...]
    span: Span
    line: int

    @property
    def loops(self) -> tuple[Symbol, ...]:
        return tuple(part for part in self.context if isinstance(part, Symbol))


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiply:
    """A tensor-core instruction: its name, and the accumulators' update."""

    name: str
    context: tuple[Symbol | Condition, ...]
    span: Span
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyExit:
    """Where a function, loop turn or loop is left early. word: `return`, `continue` or `break`."""

    word: str
    span: Span
    line: int


Node = Nest | Branch | Access | Barrier | Exchange | Multiply | EarlyExit


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Where a `value` symbol comes from. data: the computation, if it was followed; access: what it was loaded by."""

    what: str
    reason: str
    span: Span
    line: int
    data: Data | None = None
    access: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One kernel of one launch line.

    grid, block: as terms over axes; threads and blocks are the symbols blockIdx and threadIdx of x, y, z. values: what
    is known about `value` symbols. bounds: the ranges of all symbols, for proofs.
    """

    kernel: str
    position: int  # of the launch in the file's sequence
    grid: tuple[Term, Term, Term]
    block: tuple[Term, Term, Term]
    shared_bytes: Term
    arrays: tuple[Array, ...]
    loops: Mapping[Symbol, Loop]
    accesses: tuple[Access, ...]
    body: tuple[Node, ...]
    barriers: tuple[Barrier, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    multiplies: tuple[Multiply, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    values: Mapping[Symbol, Unknown] = field(default_factory=dict)
    derived: Mapping[Symbol, Term] = field(default_factory=dict)  # sizes that follow from axes
    names: Mapping[Term, str] = field(default_factory=dict)  # what the author calls an index
    doubles: tuple[Span, ...] = ()  # arithmetic in double precision
    bounds: Bounds
    text: str

    def of(self, array: Array) -> tuple[Access, ...]:
        """The accesses to an array."""
        return tuple(access for access in self.accesses if access.array == array)

    def turns(self, loops: Iterable[Symbol]) -> int:
        """How often something in these loops is carried out; loops of no known length count once."""
        trips = (self.loops[symbol].trip for symbol in loops)
        return math.prod(trip.value or 1 for trip in trips if trip is not None)

    @property
    def tensors(self) -> tuple[Array, ...]:
        return tuple(array for array in self.arrays if array.is_tensor)

    @property
    def shared(self) -> tuple[Array, ...]:
        return tuple(array for array in self.arrays if array.space == "shared")

    @property
    def array_names(self) -> frozenset[str]:
        """What the text calls memory: a name whose elements are written says the same place afterwards."""
        return frozenset(name for array in self.arrays for name in (array.name, array.parameter))

    def walk(self) -> Iterator[Node]:
        """All nodes, outer before inner, in text order."""
        return walk(self.body)


def walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if isinstance(node, Nest):
            yield from walk(node.body)
        elif isinstance(node, Branch):
            yield from walk(node.then)
            yield from walk(node.otherwise)


BLOCK = tuple(Symbol(f"blockIdx.{axis}", "block") for axis in "xyz")
THREAD = tuple(Symbol(f"threadIdx.{axis}", "thread") for axis in "xyz")


def is_neutral(data: Data) -> bool:
    """Whether a sum or an extremum is begun with it: 0 or an infinity."""
    number = data.detail.value if isinstance(data.detail, Term) else data.detail
    return number == 0 or (isinstance(number, float) and abs(number) == float("inf"))
