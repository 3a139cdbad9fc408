"""Facts and spans from the syntax tree, as plain data free of tree-sitter.

Spans are byte offsets into the UTF-8 text.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Bytes [start, end) of a text."""

    start: int
    end: int

    def holds(self, other: Span) -> bool:
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace a span (empty: insert) with new text."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxProblem:
    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One kernel parameter. type is normalised (`const half*`), without restrict."""

    type: str
    name: str
    span: Span = field(compare=False, default=Span(0, 0))
    is_pointer: bool = field(compare=False, default=False)
    is_const: bool = field(compare=False, default=False)
    is_restrict: bool = field(compare=False, default=False)
    name_span: Span = field(compare=False, default=Span(0, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """bounds: the whole `__launch_bounds__(...)`; name_span: where the name stands.

    outermost: where the function begins, or the struct whose method it is.
    """

    name: str
    is_kernel: bool  # extern "C" __global__
    span: Span
    body: Span
    name_span: Span
    return_type: str
    params: tuple[Param, ...]
    bounds: Span | None
    outermost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedLoop:
    """A counted `for`: `for (int i = start; i < limit; i += step)`. trips only if all three are known integers."""

    span: Span
    function: str
    variable: str
    trips: int | None
    pragma: Span | None  # the `#pragma unroll` line above, with its newline
    factor: str | None  # what follows `unroll`; empty for a full unroll
    indent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    name: str
    span: Span
    name_span: Span
    arguments: tuple[Span, ...]
    types: tuple[str | None, ...]
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryExpression:
    """`left + right`, with + - * or /; is_assignment for `left += right`. The types as far as the text tells."""

    operator: str
    span: Span
    left: Span
    right: Span
    left_type: str | None
    right_type: str | None
    is_assignment: bool
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscript:
    """`name[index]...`; is_read if it is only read."""

    name: str
    span: Span
    indices: tuple[Span, ...]
    is_read: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedArray:
    name: str
    element: str
    dims: tuple[Span, ...]
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Define:
    name: str
    value: str
    line: int
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One smallest run of differing tokens. scope: the function it is in, empty at file level; parent_line: from 1.

    part: `evo KIND`, define, include, pragma, bounds, signature, body or file.
    """

    scope: str
    part: str
    parent_line: int
    before: str
    after: str
    statement: Span  # in the parent; regions of one statement are one edit to a reader
    span: Span  # what is replaced, in the parent
    lead: str = ""  # the blank space before and behind it in the child
    trail: str = ""
