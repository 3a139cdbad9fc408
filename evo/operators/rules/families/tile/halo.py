"""What the threads of a block read around their places is staged in shared memory, with its border."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evo.analysis.access import THREAD, Access, Array, Branch, Data, LaunchAnalysis, Op, Symbol, Term
from evo.analysis.access.comparisons import conjuncts
from evo.analysis.access.data_values import plain
from evo.cuda.source import Edit, Function, Span
from evo.operators.rules.idle_declarations import without_unused
from evo.operators.rules.lifting import NotPrinted, Printer, names_of, type_of_elements
from evo.operators.rules.rewriting import closed, fresh, merged
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.spelling import is_border
from evo.spec.element_types import is_float

_ROOM = 24 * 1024  # bytes of a tile, so that an SM holds several blocks
_SUBSCRIPT = re.compile(r"\w+\s*\[[^\[\]]*\]")  # of the tensor, or of a pointer into it
_WORDS = re.compile(r"\b[A-Za-z_]\w*\b")
_REUSED = 3.0  # reads of an element by a block, from which on staging it can pay
PLACE = Symbol("$at", "value")
_AS_IT_IS = Term.of(PLACE)
_BORDERS = ("min", "max", "mod", "select")


@dataclass(frozen=True, slots=True)
class _Dim:
    """One dimension of what a block reads: from base + low on, `size` elements, as the kernel spells it.

    border: where a place outside of the tensor, `PLACE`, is read instead:
    at the nearest end, or from the other one.
    """

    base: Term
    low: int
    count: int
    size: str
    border: Term = _AS_IT_IS


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    if any(array.space == "shared" for array in analysis.form.arrays):
        return
    for array in analysis.form.tensors:
        dims = _box_of(ctx, analysis, array) if array.role == "in" else None
        if dims is None:
            continue
        try:
            edits = _edits(ctx, analysis, function, array, dims)
        except NotPrinted:
            continue
        size = "x".join(str(dim.count) for dim in dims)
        yield Application(
            edits=tuple(edits),
            summary=f"{function.name}: a block stages {size} elements of `{array.name}` with their border",
            arguments={"kernel": function.name, "array": array.name},
            is_schedule=True,
        )


def _box_of(ctx: RuleContext, analysis: LaunchAnalysis, array: Array) -> list[_Dim] | None:
    """The box that a block reads, if it is one: places of blocks, threads and short loops, added up."""
    reads = analysis.form.of(array)
    if len(array.shape) < 2 or not reads:
        return None
    if any(a.mode != "read" or a.calls or a.blocked or len(a.subscripts) != len(array.shape) for a in reads):
        return None
    found = []
    asked = sum(analysis.form.turns(read.loops) for read in reads) * analysis.sizes.threads
    for place in range(len(array.shape)):
        dim = _dim(ctx, analysis, [read.subscripts[place] for read in reads], array.shape[place])
        if dim is None:
            return None
        found.append(dim)
    elements = math.prod(dim.count for dim in found)
    if elements * array.element_bytes > _ROOM or asked < _REUSED * elements or found[-1].count < 2:
        return None
    return found


def _place(subscript: Term) -> tuple[Term, Term]:
    """The sum that a subscript is made from, and the subscript as a formula over it, `PLACE`."""
    whole = [subscript, *(term for op in subscript.ops() for term in op.terms)]
    for inner in whole if any(subscript.ops()) else ():
        plain = Term({mono: n for mono, n in inner.parts.items() if not mono or _is_placed(mono)})
        for symbol in plain.symbols() & set(THREAD):
            if plain.coefficient(symbol) == Term.number(1):
                rest = _AS_IT_IS - (plain - Term.of(symbol))
                border = subscript.substitute({symbol: rest})
                if all(each.kind == "axis" or each == PLACE for each in border.symbols()):
                    return plain, border
    return subscript, _AS_IT_IS


def _is_placed(mono: tuple[Symbol | Op, ...]) -> bool:
    """Whether a product is of indices; sizes alone belong to what is made of the place."""
    symbols = [atom for atom in mono if isinstance(atom, Symbol)]
    return len(symbols) == len(mono) and any(symbol.kind != "axis" for symbol in symbols)


def _keeps(analysis: LaunchAnalysis, border: Term, size: Term) -> bool:
    """Whether a place within the tensor stays what it is."""
    atom = border.atom
    if border == _AS_IT_IS or not isinstance(atom, Op) or atom.name not in ("min", "max", "mod"):
        return border == _AS_IT_IS
    left, right = atom.terms
    if atom.name == "mod":
        return right == size and left - _AS_IT_IS in (Term({}), size)
    inner, end = (left, right) if PLACE in left.symbols() else (right, left)
    beyond = end - (size - 1) if atom.name == "min" else -end
    return PLACE not in end.symbols() and analysis.form.bounds.nonnegative(beyond) and _keeps(analysis, inner, size)


def _dim(ctx: RuleContext, analysis: LaunchAnalysis, subscripts: list[Term], extent: Term) -> _Dim | None:
    bases, lows, highs = set[Term](), [], []
    walked, borders = set[Symbol](), set[Term]()
    for subscript in subscripts:
        term, border = _place(subscript)
        borders.add(border)
        base, low, high = term, 0, 0
        for symbol in term.symbols():
            taken = _range(analysis, symbol)
            if symbol.kind not in ("thread", "loop"):
                continue
            apart = term.coefficient(symbol)
            if taken is None or apart is None or apart.value is None:
                return None
            base = base - Term.of(symbol) * apart.value
            ends = sorted(apart.value * end for end in taken)
            low, high = low + ends[0], high + ends[1]
            if symbol.kind == "thread":
                walked.add(symbol)
        shift = base.constant
        bases.add(base - shift)
        lows.append(low + shift)
        highs.append(high + shift)
    (base, *others) = bases
    if others or any(symbol.kind not in ("block", "axis") for symbol in base.symbols()):
        return None
    low, count = min(lows), max(highs) - min(lows) + 1
    if len(walked) > 1:
        return None
    if len(borders) > 1:  # the plain places are within the tensor
        borders.discard(_AS_IT_IS)
        if len(borders) > 1 or not _keeps(analysis, next(iter(borders)), extent):
            return None
    (border,) = borders
    if any(op.name not in _BORDERS for op in border.ops()):
        return None
    size = str(count)
    for symbol in walked:
        axis = THREAD.index(symbol)
        block = ctx.variant.launches[analysis.form.position].block
        if not block[axis].text.isdigit():
            size = f"({block[axis].text} + {count - analysis.sizes.block[axis]})"
    return _Dim(base, low, count, size, border)


def _range(analysis: LaunchAnalysis, symbol: Symbol) -> tuple[int, int] | None:
    if symbol in THREAD:
        return 0, analysis.sizes.block[THREAD.index(symbol)] - 1
    loop = analysis.form.loops.get(symbol)
    values = loop.counted if loop is not None else None
    return (values[0], values[-1]) if values else None


def _edits(
    ctx: RuleContext, analysis: LaunchAnalysis, function: Function, array: Array, dims: list[_Dim]
) -> list[Edit]:
    start = function.body.start + 1
    edits = [Edit(Span(start, start), _staged(ctx, analysis, function, array, dims))]
    edits = merged([*edits, *_replaced_reads(ctx, analysis, function, array, dims)])
    return without_unused(ctx, function, function.body, edits)


def _tile(ctx: RuleContext, function: Function, array: Array) -> str:
    return fresh(ctx, f"{names_of(ctx, function)[array.name]}_tile")


def _staged(ctx: RuleContext, analysis: LaunchAnalysis, function: Function, array: Array, dims: list[_Dim]) -> str:
    """The tile, and the loop that fills it. Raises NotPrinted."""
    names = names_of(ctx, function)
    say = Printer(analysis, names, {}, {})
    tensor = next(t for t in analysis.task.tensors if t.name == array.name)
    tile, each = _tile(ctx, function, array), fresh(ctx, "e")
    places = [fresh(ctx, f"at{number}") for number in range(len(dims))]
    whole = " * ".join(dim.size for dim in dims if dim.count > 1)
    lines: list[str] = []
    inside: list[str] = []
    left = each
    for number in reversed(range(len(dims))):
        dim, size = dims[number], dims[number].size
        first = _WORDS.sub(lambda word: _said(ctx, names, word[0]), (dim.base + dim.low).text)
        if dim.count == 1:
            inside.insert(0, "0")
            lines.insert(0, f"        const int {places[number]} = {first};")
            continue
        part = f"{left} % {size}" if any(outer.count > 1 for outer in dims[:number]) else left
        inside.insert(0, part)
        left = f"{left} / {size}"
        if dim.border == _AS_IT_IS:
            lines.insert(0, f"        const int {places[number]} = {first} + {part};")
            continue
        plain = fresh(ctx, f"place{number}")
        said = _WORDS.sub(lambda word: _said(ctx, names, word[0]), dim.border.text).replace(PLACE.name, plain)
        lines[:0] = [f"        const int {plain} = {first} + {part};", f"        const int {places[number]} = {said};"]
    tests = " && ".join(
        f"{place} >= 0 && {place} < {say.extent(length)}"
        for place, length, dim, size in zip(places, tensor.shape, dims, array.shape, strict=True)
        if not _is_inside(analysis, dim.border, size)
    )
    kind = type_of_elements(ctx, function, names[array.name])
    element = say.element(tensor, places)
    element = f"{tests} ? {element} : {kind if kind.isidentifier() else f'({kind})'}(0)" if tests else element
    outside = "zero outside" if tests else "as it is read"
    return f"""
    __shared__ {kind} {tile}{"".join(f"[{dim.size}]" for dim in dims)};  // with a border, {outside}
    for (int {each} = {_thread(analysis)}; {each} < {whole}; {each} += {_threads(analysis)}) {{
{chr(10).join(lines)}
        {tile}{"".join(f"[{part}]" for part in inside)} = {element};
    }}
    __syncthreads();"""


def _is_inside(analysis: LaunchAnalysis, border: Term, size: Term) -> bool:
    """Whether every place is read within the tensor."""
    bounds = analysis.form.bounds
    return border != _AS_IT_IS and bounds.nonnegative(border) and bounds.nonnegative(size - 1 - border)


def _said(ctx: RuleContext, names: Mapping[str, str], word: str) -> str:
    """What the kernel calls an axis that the grid's size holds. Raises NotPrinted if it has no name for it."""
    if ctx.task is None or word not in ctx.task.axes:
        return word
    if word not in names:
        raise NotPrinted(word)
    return names[word]


def _replaced_reads(
    ctx: RuleContext, analysis: LaunchAnalysis, function: Function, array: Array, dims: list[_Dim]
) -> Iterator[Edit]:
    """Reads of the tensor as reads of the tile, and sums without tests for its edge. Raises NotPrinted."""
    name, tile = names_of(ctx, function)[array.name], _tile(ctx, function, array)
    for read in analysis.form.of(array):
        places = zip(map(_place, read.subscripts), dims, strict=True)
        local = [(place - dim.base - dim.low).text for (place, _), dim in places]
        if any(re.search(r"\?|blockIdx|min\(|max\(", text) for text in local):
            raise NotPrinted("a place that is no sum")
        text = ctx.source.slice(read.span)
        if not text.startswith(name) and not _SUBSCRIPT.fullmatch(text):
            raise NotPrinted("no element by its subscript")
        yield Edit(read.span, f"{tile}{''.join(f'[{text}]' for text in local)}")
        yield from _without_test(ctx, analysis, read)


def _thread(analysis: LaunchAnalysis) -> str:
    """The number of a thread in its block."""
    _, y, z = analysis.sizes.block
    text = "threadIdx.y * blockDim.x + threadIdx.x" if y > 1 or z > 1 else "threadIdx.x"
    return "(threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x" if z > 1 else text


def _threads(analysis: LaunchAnalysis) -> str:
    used = sum(1 << place for place, count in enumerate(analysis.sizes.block) if count > 1)
    return " * ".join(f"blockDim.{axis}" for place, axis in enumerate("xyz") if used >> place & 1) or "1"


def _without_test(ctx: RuleContext, analysis: LaunchAnalysis, read: Access) -> list[Edit]:
    """A test for the tensor's edge in front of a sum: what is staged is zero there, and adds nothing."""
    for node in analysis.form.walk():
        if not isinstance(node, Branch) or node.otherwise or read not in node.then:
            continue
        if not all(is_border(part, read) for part in conjuncts(node.condition)) or not _adds(ctx, analysis, read):
            return []
        writes = [other for other in node.then if isinstance(other, Access) and other.is_write]
        text = ctx.source.slice(node.span)
        end = closed(text, text.find("("))
        if writes or end < 0 or "else" in text or text.count(";") != 1:
            return []
        end += len(text[end:]) - len(text[end:].lstrip())
        return [Edit(Span(node.span.start, node.span.start + len(text[:end].encode())), "")]
    return []


def _adds(ctx: RuleContext, analysis: LaunchAnalysis, read: Access) -> bool:
    """Whether the element is summed, by itself or times what is always finite: zero times an infinity is no zero."""
    for reduction in analysis.reductions:
        operand = plain(reduction.operand)
        if reduction.kind != "sum" or reduction.place != "register" or operand is None:
            continue
        factors = [plain(arg) for arg in operand.args] if operand.op == "mul" else [operand]
        others = [f for f in factors if f is None or f.op != "read" or f.detail != read.number]
        if len(others) < len(factors) and all(_is_finite(ctx, analysis, other) for other in others):
            return True
    return False


def _is_finite(ctx: RuleContext, analysis: LaunchAnalysis, value: Data | None) -> bool:
    """Whether a value is no infinity and no NaN, or the task says that results with those may be anything."""
    if value is None or value.op in ("constant", "index", "scalar"):
        return value is not None
    if value.op != "read" or not isinstance(value.detail, int) or ctx.task is None:
        return False
    array = analysis.form.accesses[value.detail].array
    tensor = next((t for t in ctx.task.tensors if array is not None and t.name == array.name), None)
    if tensor is None or not is_float(tensor.dtype):
        return tensor is not None
    return tensor.specials is not None and not tensor.specials.not_finite


RULES = (
    Rule(
        name="tile_halo",
        sentence="Stages what the threads of a block read around their places, with its border and what is read in"
        " place of elements outside of the tensor, in shared memory; tests for the edge in front of sums are gone.",
        find=by_launch(_find),
        reason="neighbouring threads read the same elements again and again, each with tests and an address of its own",
        expected="one load for each element and block; reads of the tile have fixed offsets",
        risk="small windows gain little over what the cache does",
        next_if_kept="several results for each thread",
        next_if_reverted="several results for each thread without a tile",
    ),
)
