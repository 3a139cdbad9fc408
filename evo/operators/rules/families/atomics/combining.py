"""Atomics whose results nobody uses, as what a thread or a block combines on its own."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from evo.analysis.access import BLOCK, THREAD, Access, LaunchAnalysis, Term, number_of
from evo.cuda.source import Edit, Span
from evo.operators.rules.directives import relaunched
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.rewriting import listed
from evo.operators.rules.rule_context import RuleContext

RESIDENT = 1024  # threads of an SM that are kept busy
_ATOMIC = re.compile(r"(?:::\s*)?\w+\s*\(.*\)\s*;", re.DOTALL)
_PLACED = re.compile(r"\b(?:blockIdx|gridDim)\b")
_CAST = r"(?:\(\w[\w ]*\)\s*)?"
_FIRST = rf"{_CAST}(?:blockIdx\.x \* {_CAST}blockDim\.x|blockDim\.x \* {_CAST}blockIdx\.x)"
_THREADS = re.compile(  # a thread's number in the grid, and the number of threads in it
    rf"threadIdx\.x \+ {_FIRST}\b|{_FIRST} \+ {_CAST}threadIdx\.x\b"
    rf"|{_CAST}(?:gridDim\.x \* {_CAST}blockDim\.x|blockDim\.x \* {_CAST}gridDim\.x)\b"
)
_INTEGERS = {
    "int": ("(-2147483647 - 1)", "2147483647"),
    "unsigned": ("0", "0xffffffffu"),
    "unsigned int": ("0", "0xffffffffu"),
}
_INFINITIES = {"max": "-INFINITY", "min": "INFINITY"}
TYPES = ("float", "double", "unsigned long long", *_INTEGERS)


@dataclass(frozen=True, slots=True)
class Combining:
    """How values of one type are combined: the atomic, what it starts from, and a statement with a name and a value."""

    atomic: str
    neutral: str
    statement: str


def combining(ctx: RuleContext, access: Access) -> Combining | None:
    """For an atomic, one of CUDA's or a function of the file; None for those that need their results."""
    element, operation = access.memory.element, access.operation
    called = re.match(r"(?:::\s*)?(\w+)", ctx.source.slice(access.span))
    atomic = called[1].removesuffix("_block") if called is not None else ""
    if operation == "add" and element in TYPES:
        return Combining(atomic, "0", "{0} += {1};")
    if operation in ("max", "min") and element in ("float", "double"):
        return Combining(
            atomic, _INFINITIES[operation], f"{{0}} = f{operation}{'f' * (element == 'float')}({{0}}, {{1}});"
        )
    if operation in ("max", "min") and element in _INTEGERS:
        return Combining(
            atomic,
            _INTEGERS[element][operation == "min"],
            f"{{0}} = {operation}({{0}}, ({element})({{1}}));",
        )
    return None


def statements(ctx: RuleContext, accesses: Collection[Access]) -> Iterator[tuple[Span, str, str]]:
    """Each atomic's statement, its first and its second argument. Raises NotPrinted if its result is used."""
    for span in sorted({ctx.source.enclosing_statement(access.span) for access in accesses}):
        text = ctx.source.slice(span)
        calls = {ctx.source.slice(access.span) for access in accesses if span.holds(access.span)}
        if not _ATOMIC.fullmatch(text) or not text.startswith(tuple(calls)):
            raise NotPrinted("the atomic is part of a larger statement")
        inside = text[text.index("(") + 1 : text.rindex(")")]
        parts = listed(inside)
        if len(parts) != 2:
            raise NotPrinted("an atomic of another form")
        yield span, parts[0], parts[1]


def over_a_warp(name: str, how: Combining, address: str) -> list[str]:
    """Lines by which the lanes of a warp combine `name`, and one of them adds it to what others share."""
    other = f"__shfl_xor_sync(0xffffffffu, {name}, $step)"
    return [
        f"for (int $step = 16; $step > 0; $step /= 2) {how.statement.format(name, other)}",
        f"if (threadIdx.x % 32 == 0) {how.atomic}({address}, {name});",
    ]


def strides(analysis: LaunchAnalysis, body: str) -> bool:
    """Whether all that a thread of a 1-D grid does with its block's number is to walk with the grid's stride."""
    form = analysis.form
    wanted = Term.of(BLOCK[0]) * form.block[0] + Term.of(THREAD[0])
    threads = analysis.sizes.blocks * analysis.sizes.threads
    walks = any(
        loop.start == wanted
        and loop.values is None
        and loop.until is None
        and number_of(loop.step, analysis.sizes.values) == threads
        for loop in form.loops.values()
    )
    known = [access.offset.symbols() for access in form.accesses]
    known += [
        part.symbols()
        for access in form.accesses
        for part in access.conditions
        if not form.loops.keys() & part.symbols()
    ]
    return walks and not any(BLOCK[0] in symbols for symbols in known) and not _PLACED.search(_THREADS.sub("", body))


def fewer_blocks(ctx: RuleContext, analysis: LaunchAnalysis) -> Edit:
    """The launch line with as many blocks as keep the SMs busy, for a kernel that does with any number of them."""
    launch = ctx.variant.launches[analysis.form.position]
    (grid, *rest), busy = [p.text for p in launch.grid], f"{max(1, RESIDENT // analysis.sizes.threads)} * chip.sms"
    return relaunched(ctx, launch, grid=", ".join([busy if grid.isdigit() else f"min({grid}, {busy})", *rest]))
