"""Reads along one dimension and writes along another meet in a padded tile of shared memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from evo.analysis.access import (
    COUNTED,
    Access,
    LaunchAnalysis,
    Moved,
    Permutation,
    Symbol,
    Term,
    axis_values,
    moved_by,
    permutation_of,
    sizes_of,
)
from evo.cuda.source import Edit, Function
from evo.operators.rules.directives import new_knob, relaunched, without_bounds
from evo.operators.rules.lifting import Printer, named, stored, taken, type_of_elements, with_axes
from evo.operators.rules.rewriting import bracketed, fresh, merged
from evo.operators.rules.rule import Application, Example, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext
from evo.spec.task import Tensor

_TILE = 32
_SHORT = 16  # a dimension that would leave half of a square tile empty
_ELEMENTS, _THREADS = 1024, 256  # of a tile that is no square
_ROWS = (8, 4, 16)
_FAR = 2.0  # times the sectors that would do


@dataclass(frozen=True, slots=True)
class _Transposed:
    """out[t] = f(in[s]): s and t are the same indices in another order, their last ones differ.

    turned: places of the target's dimensions that run backwards.
    """

    ctx: RuleContext
    analysis: LaunchAnalysis
    function: Function
    read: Access
    write: Access
    source: Tensor
    output: Tensor
    turned: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Shape:
    """Elements of a tile along the source's inner dimension and along the target's. threads: along x of a block; rows:
    the value of the knob that says how many along y, 0 if they are all along x.
    """

    inner: int
    outer: int
    threads: int
    rows: int = 0


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    found = _transposed(ctx, analysis, function)
    if found is None:
        return
    for rank, shape in enumerate(_shapes(found)):
        yield Application(
            edits=tuple(_edits(found, shape)),
            summary=f"{function.name}: `{found.source.name}` turned over in a tile of {shape.outer}x{shape.inner}",
            arguments={"kernel": function.name, "array": found.source.name, "to": shape.rows or shape.inner},
            rank=rank,
            is_schedule=True,
        )


def _shapes(found: _Transposed) -> list[_Shape]:
    """Square tiles, or where a dimension is short, tiles that are as long along the other one as they may be."""
    inner, outer = (dict(zip(found.write.subscripts, found.output.dims(found.analysis.case), strict=True))[term]
                    for term in (found.read.subscripts[-1], found.write.subscripts[-1]))  # fmt: skip
    if min(inner, outer) > _SHORT:
        return [_Shape(_TILE, _TILE, _TILE, rows) for rows in _ROWS]
    short, long = (1 << (number - 1).bit_length() for number in sorted((inner, outer)))
    long = min(long, _ELEMENTS // short)
    return [_Shape(*((short, long) if inner < outer else (long, short)), min(_THREADS, short * long))]


def _transposed(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> _Transposed | None:
    form = analysis.form
    moved = [a for a in form.accesses if a.array is None or a.array.space != "local"]
    if form.shared or form.barriers or any(a.array is None for a in moved):
        return None
    writes = [access for access in moved if access.is_write]
    if len(writes) != 1 or writes[0].mode != "write":
        return None
    (write,) = writes
    tensors = {tensor.name: tensor for tensor in analysis.task.tensors}
    for read in moved:
        source, output = tensors.get(read.memory.name), tensors.get(write.memory.name)
        stays = read is write or (read.index is not None and read.index == write.index)  # not to be counted out
        if stays or source is None or output is None or not _is_scattered(analysis, (read, write)):
            continue
        found = _Transposed(ctx, analysis, function, read, write, source, output)
        cases = _counted(found)
        if cases:
            order = permutation_of([each for each in cases if each], (*source.shape, *output.shape))
            known = _as_counted(found, order) if order is not None and None not in cases else None
        else:
            known = found if _is_as_written(read, write) else None
        if known is not None and known.read.subscripts[-1] != known.write.subscripts[-1]:
            return known
    return None


def _is_as_written(read: Access, write: Access) -> bool:
    """Whether the subscripts of the two are the same in another order."""
    at = read.subscripts
    return len(at) > 1 and len(set(at)) == len(at) and set(at) == set(write.subscripts)


def _as_counted(found: _Transposed, order: Permutation) -> _Transposed:
    """The two with one name for each dimension, and the tensors with those dimensions."""
    names = [Term.of(Symbol(f"$dim{place}", "loop")) for place in range(len(order.order))]
    return replace(
        found,
        read=replace(found.read, subscripts=tuple(names)),
        write=replace(found.write, subscripts=tuple(names[place] for place in order.order)),
        source=replace(found.source, shape=order.lengths),
        output=replace(found.output, shape=tuple(order.lengths[place] for place in order.order)),
        turned=order.turned,
    )


def _counted(found: _Transposed) -> list[Moved | None]:
    """What goes where at all cases that can be counted out; None for a case that shows no order."""
    ctx, analysis, task = found.ctx, found.analysis, found.analysis.task
    fixed = {macro: analysis.case.axes.get(macro) for macro in ctx.variant.macros}
    chip = {symbol: number for symbol, number in analysis.sizes.values.items() if symbol.kind == "chip"}
    made: list[Moved | None] = []
    for case in (*task.check, *task.bench):
        sizes = sizes_of(analysis.form, chip | axis_values(task, case))
        if sizes is None or any(case.axes.get(macro) != number for macro, number in fixed.items()):
            continue
        total = math.prod(found.source.dims(case))
        if total <= COUNTED:
            made.append(moved_by(analysis.form, sizes, found.read, found.write, total, case.axes))
    return made


def _is_scattered(analysis: LaunchAnalysis, accesses: tuple[Access, ...]) -> bool:
    for access in accesses:
        traffic = analysis.traffic.accesses.get(access.number)
        known = traffic is not None and traffic.sectors is not None
        if traffic is not None and known and (traffic.sectors or 0) > _FAR * max(traffic.ideal or 1, 1):
            return True
    return False


def _edits(found: _Transposed, shape: _Shape) -> list[Edit]:
    ctx = found.ctx
    line = ctx.variant.launches[found.analysis.form.position]
    names, given, arguments = with_axes(ctx, found.function, line, {w for dim in found.output.shape for w in dim.names})
    inner, outer = found.read.subscripts[-1], found.write.subscripts[-1]
    rest = [term for term in found.write.subscripts if term not in (inner, outer)]
    places: dict[Term, str] = {term: f"$at{number}" for number, term in enumerate(rest)}
    places |= {inner: "$in", outer: "$out"}
    kept = "$tile[threadIdx.x][$i]" if shape.rows else f"$tile[$i % {shape.outer}][$i / {shape.outer}]"
    value = f"__half2float({kept})" if found.read.memory.element == "half" else kept
    say = Printer(found.analysis, names, places, {}, {found.read.number: value})
    sizes = dict(zip(found.write.subscripts, found.output.shape, strict=True))
    extents = {term: say.extent(dim) for term, dim in sizes.items()}
    knob = fresh(ctx, "TILE_ROWS")
    kind = type_of_elements(ctx, found.function, names[found.source.name])
    body = named(_body(found, say, extents, rest, (kind, kept), shape, knob), taken(ctx, names))
    grid = f"ceil_div({sizes[inner].text}, {shape.inner}), ceil_div({sizes[outer].text}, {shape.outer})"
    if rest:
        grid += f", {' * '.join(bracketed(sizes[term].text) for term in rest)}"
    block = f"{shape.threads}, {knob}" if shape.rows else f"{shape.threads}"
    launch = relaunched(ctx, line, grid=grid, block=block, shared="0", arguments=arguments)
    edits = [launch, Edit(found.function.body, body), *given]
    edits += new_knob(ctx, knob, sorted(_ROWS), shape.rows) if shape.rows else []
    return merged([*edits, *without_bounds(found.function)])


def _body(
    found: _Transposed,
    say: Printer,
    extents: dict[Term, str],
    rest: list[Term],
    tile: tuple[str, str],
    shape: _Shape,
    knob: str,
) -> str:
    """tile: its type, and the element of it that a thread stores."""
    inner, outer = found.read.subscripts[-1], found.write.subscripts[-1]
    batch, left = "", "blockIdx.z"
    for number, term in reversed(list(enumerate(rest))):
        part = f"{left} % {extents[term]}" if number else left
        batch += f"    const int $at{number} = {part};\n"
        left = f"{left} / {extents[term]}"
    source = say.element(found.source, [say.term(term) for term in found.read.subscripts])
    to = [say.term(term) for term in found.write.subscripts]
    for place in found.turned:
        to[place] = f"({extents[found.write.subscripts[place]]} - 1 - {to[place]})"
    target = say.element(found.output, to)
    (kind, kept), value = tile, stored(found.write.memory.element, say.expression(found.write.value))
    if found.write.memory.element == "half" and value == f"__float2half(__half2float({kept}))":
        value = kept
    step = f"for (int $i = threadIdx.y; $i < {_TILE}; $i += {knob})"
    read, write = ("threadIdx.x", "$i"), ("$i", "threadIdx.x")
    if not shape.rows:
        step = f"for (int $i = threadIdx.x; $i < {shape.inner * shape.outer}; $i += {shape.threads})"
        read = (f"$i % {shape.inner}", f"$i / {shape.inner}")
        write = (f"$i / {shape.outer}", f"$i % {shape.outer}")
    test = f"if ($in < {extents[inner]} && $out < {extents[outer]})"
    begin, across = f"blockIdx.x * {shape.inner}", f"blockIdx.y * {shape.outer}"
    return f"""{{
    // Reads and writes both go along rows; the tile is read by columns, a word of padding apart.
    __shared__ {kind} $tile[{shape.outer}][{shape.inner} + 1];
{batch}    {step} {{
        const int $in = {begin} + {read[0]}, $out = {across} + {read[1]};
        {test} $tile[{read[1]}][{read[0]}] = {source};
    }}
    __syncthreads();
    {step} {{
        const int $in = {begin} + {write[0]}, $out = {across} + {write[1]};
        {test} {target} = {value};
    }}
}}"""


RULES = (
    Rule(
        name="tile_transposed",
        sentence="Takes a transposition or another permutation of dimensions, some maybe backwards, through a padded"
        " tile of shared memory, so that reads and writes both go along rows.",
        find=by_launch(_find),
        examples=(Example.of_files("tile_transposed"), Example.of_files("tile_transposed_2")),
        reason="lanes that write a row apart take a sector for each element",
        expected="reads and writes each use whole sectors: the memory binds",
        risk="an edge of the matrix that is no multiple of the tile leaves lanes idle",
        next_if_kept="the knob of the rows, then wide loads",
        next_if_reverted="swapped thread axes",
    ),
)
