"""What an expression of a kernel is while it is read: a number, a pointer, a record, a function, or a place."""

from __future__ import annotations

from dataclasses import dataclass, field

from evo.analysis.access.c_types import BOOL, INT, CType
from evo.analysis.access.comparisons import Condition
from evo.analysis.access.form import Data
from evo.analysis.access.terms import ONE, ZERO, Term, apply
from evo.cuda.source.parser import Node


@dataclass(frozen=True, slots=True)
class Number:
    """An integer or truth value. condition: of a truth value."""

    term: Term
    type: CType = INT
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Real:
    """A floating-point number, or anything else that is data and no index."""

    data: Data
    type: CType


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address in bytes: a term with the symbol of the array that it points into. of: what it points to."""

    term: Term
    of: CType


@dataclass(eq=False, slots=True)
class StructValue:
    """A struct or vector value: its fields by name. whole: the value it was loaded as."""

    type: CType
    fields: dict[str, Binding] = field(default_factory=dict)
    whole: Data | None = None


@dataclass(eq=False, slots=True)
class Closure:
    """A function, lambda or functor method. scopes: what it sees; this: the object of a method."""

    node: Node
    scopes: list[Scope] | None = None
    this: StructValue | ArrayPlace | None = None
    types: dict[str, CType] = field(default_factory=dict)
    name: str = ""


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function of CUDA or the standard library that was named without a call, such as `fmaxf` as an argument."""

    name: str


@dataclass(frozen=True, slots=True)
class Group:
    """A cooperative group. kind: `block`, `tile`, `grid` or `coalesced`; size: threads of a tile."""

    kind: str
    size: Term


@dataclass(eq=False, slots=True)
class Cell:
    """A variable. frame: the loop that it was last written in (0 outside of all)."""

    name: str
    type: CType
    value: Value | None = None
    frame: int = 0


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """A place in an array: an address in bytes and the type that stands there."""

    term: Term
    type: CType


@dataclass(frozen=True, slots=True)
class Part:
    """An element of data that is held as a whole: `pack.at[i]`."""

    cell: Cell
    index: Term | str
    type: CType


@dataclass(frozen=True, slots=True)
class Chosen:
    """One of two places: `(c ? lo : hi) = x`."""

    condition: Condition
    left: Place
    right: Place


Value = Number | Real | Pointer | StructValue | Closure | Builtin | Group
Place = Cell | ArrayPlace | Part | Chosen
Binding = Cell | ArrayPlace | Part
Scope = dict[str, "Cell | ArrayPlace | Part | CType | Chosen"]


def number(value: int, kind: CType = INT) -> Number:
    return Number(Term.number(value), kind)


def truth(condition: Condition) -> Number:
    """A condition as a value."""
    return Number(apply("select", condition, ONE, ZERO), BOOL, condition)
