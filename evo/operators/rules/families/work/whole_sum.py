"""A sum over a whole array: each thread adds up many elements by wide loads, warps by shuffles, blocks in one step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evo.analysis.access import LaunchAnalysis, axis_values, sizes_of
from evo.analysis.access.data_values import accesses_in, plain
from evo.analysis.access.totals import Total, reads_all_once, total_of
from evo.cuda.source import Edit, Function
from evo.operators.rules.directives import new_knob, relaunched, without_bounds
from evo.operators.rules.families.atomics.combining import combining
from evo.operators.rules.lifting import NotPrinted, Printer, accumulator, converted, in_c, named, names_of, taken
from evo.operators.rules.rewriting import fresh, merged
from evo.operators.rules.rule import Application, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.spec.expr import Expression, Number
from evo.spec.variant import LaunchLine

_THREADS = (128, 256, 512, 1024)
_PER_SM = (1, 2, 4, 8)
_WORTH = 4096  # elements from which on a sum is worth its barriers
_MANY = 8  # blocks of an SM from which on fewer of them walk the array
_PACKS = {"float": "float4", "int": "int4", "unsigned": "uint4", "unsigned int": "uint4"}
_STARTS = {"add": "0", "max": "-INFINITY", "min": "INFINITY"}


@dataclass(frozen=True, slots=True)
class _Sum:
    """One launch that combines all elements of arrays of one length."""

    analysis: LaunchAnalysis
    total: Total
    line: LaunchLine
    arrays: dict[str, str]  # name -> what the kernel calls it
    length: Expression


def _find(ctx: RuleContext) -> Iterator[Application]:
    sums = {analysis.form.position: made for analysis in ctx.launches if (made := _sum(ctx, analysis)) is not None}
    for function in ctx.source.functions:
        lines = [place for place, line in enumerate(ctx.variant.launches) if line.kernel == function.name]
        mine = [sums[place] for place in lines if place in sums]
        if (
            not lines
            or len(mine) < len(lines)
            or max(map(_elements, mine)) < _WORTH
            or not all(_may_differ(ctx, each, sums) for each in mine)
        ):
            continue
        for rank, threads in enumerate((512, 256, 1024)):
            try:
                edits = _edits(ctx, function, mine, threads)
            except NotPrinted:
                break
            array = next(iter(mine[0].arrays))
            yield Application(
                edits=tuple(edits),
                summary=f"{function.name}: {threads} threads a block, each sums up elements of `{array}` in wide loads",
                arguments={"kernel": function.name, "to": threads},
                rank=rank,
                is_schedule=True,
            )


def _sum(ctx: RuleContext, analysis: LaunchAnalysis) -> _Sum | None:
    """What a launch sums up, if it is everything, at every case that can be counted out."""
    form = analysis.form
    if analysis.sizes.grid[1:] != (1, 1) or analysis.sizes.block[1:] != (1, 1):
        return None
    total = total_of(form)
    if total is None:
        return None
    read = {access.number: access.memory for part in total.parts for access in accesses_in(form, part)}
    arrays = {array.name: array.parameter or array.name for array in read.values()}
    outside = [a for a in form.accesses if a.is_read and a.mode == "read" and a.array is not None]
    if any(a.is_global and a.number not in read for a in outside):
        return None
    shapes = {t.name: t.shape for t in analysis.task.tensors} | {s.name: s.shape for s in ctx.variant.scratch}
    if not arrays or any(len(shapes.get(name, ())) != 1 for name in arrays):
        return None
    lengths = [shapes[name][0] for name in arrays]
    if len({length.text for length in lengths}) > 1 or not _is_everything(ctx, analysis, total, lengths[0]):
        return None
    return _Sum(analysis, total, ctx.variant.launches[form.position], arrays, lengths[0])


def _is_everything(ctx: RuleContext, analysis: LaunchAnalysis, total: Total, length: Expression) -> bool:
    task = analysis.task
    chip = {symbol: number for symbol, number in analysis.sizes.values.items() if symbol.kind == "chip"}
    fixed = {macro: analysis.case.axes.get(macro) for macro in ctx.variant.macros}
    counted = 0
    for case in (*task.check, *task.bench):
        if any(case.axes.get(macro) != number for macro, number in fixed.items()):
            continue
        sizes = sizes_of(analysis.form, chip | axis_values(task, case))
        numbers: dict[str, Number] = {**case.axes, **analysis.chip.names(), **ctx.variant.integer_knobs}
        found = reads_all_once(analysis.form, sizes, total, int(length.value(numbers))) if sizes is not None else False
        if found is False:
            return False
        counted += found is True
    return counted > 0


def _elements(one: _Sum) -> int:
    arrays = {array.name: array for array in one.analysis.form.arrays}
    traffic = one.analysis.traffic.arrays
    return max((traffic[name].compulsory or 0) // arrays[name].element_bytes for name in one.arrays)


def _may_differ(ctx: RuleContext, one: _Sum, sums: dict[int, _Sum]) -> bool:
    """Whether blocks may sum up other elements than they do: the parts are only ever summed up themselves."""
    write = one.total.write
    if not one.total.per_block or one.analysis.sizes.blocks == 1 or write.mode == "atomic":
        return write.mode == "atomic" or one.analysis.sizes.blocks == 1
    if write.memory.role != "scratch" or not _is_plain(one):
        return False
    later = [a for a in ctx.launches if a.form.position != one.analysis.form.position]
    readers = [a for a in later if any(x.array == write.memory or _is(x, write) for x in a.form.accesses)]
    return bool(readers) and all(
        a.form.position in sums and sums[a.form.position].total.operation == one.total.operation
        and set(sums[a.form.position].arrays) == {write.memory.name}
        and all(part.op == "read" for part in sums[a.form.position].total.parts)
        for a in readers
    )  # fmt: skip


def _is(access: object, write: object) -> bool:
    one, other = getattr(access, "array", None), getattr(write, "array", None)
    return one is not None and other is not None and one.name == other.name and one.space == "global"


def _is_plain(one: _Sum) -> bool:
    """Whether what is written is the sum itself."""
    value = plain(one.total.write.value)
    return one.total.write.mode == "atomic" or value is None or value.op in ("read", "result", "carried", "add")


def _edits(ctx: RuleContext, function: Function, sums: Sequence[_Sum], threads: int) -> list[Edit]:
    bodies = {_body(ctx, function, each, sums) for each in sums}
    if len(bodies) != 1:
        raise NotPrinted("two launches that need two bodies")
    (body,) = bodies
    size, per = fresh(ctx, "THREADS"), fresh(ctx, "BLOCKS_PER_SM")
    reserved = {n for each in sums for n in (*each.arrays.values(), *names_of(ctx, function).values())}
    edits = [Edit(function.body, named(body, {*taken(ctx, {}), *reserved, *(p.name for p in function.params)}))]
    edits += new_knob(ctx, size, _THREADS, threads)
    is_many = False
    for each in sums:
        grid = each.line.grid[0].text
        if _has_many(each):
            is_many = True
            grid = f"min({grid}, {per} * chip.sms)"
        edits.append(relaunched(ctx, each.line, grid=grid, block=size, shared="0"))
    if is_many:
        edits += new_knob(ctx, per, _PER_SM, max(1, 1024 // threads))
    return merged([*edits, *without_bounds(function)])


def _has_many(one: _Sum) -> bool:
    return one.analysis.sizes.blocks > _MANY * one.analysis.chip.sms


def _length(ctx: RuleContext, function: Function, sums: Sequence[_Sum]) -> str:
    """The number of elements in the kernel's names: the same parameter in every launch, or an expression."""
    for place, param in enumerate(function.params):
        given = [each.line.args[place].text if each.line.args and place < len(each.line.args) else "" for each in sums]
        if all(text == each.length.text for text, each in zip(given, sums, strict=True)):
            return param.name
    if len(sums) > 1:
        raise NotPrinted("a length that is no parameter")
    return in_c(sums[0].length.tree, names_of(ctx, function))


def _body(ctx: RuleContext, function: Function, one: _Sum, sums: Sequence[_Sum]) -> str:
    form, total = one.analysis.form, one.total
    elements = {access.memory.element for part in total.parts for access in accesses_in(form, part)}
    kinds = {accumulator(element) or element for element in elements}
    if len(kinds) != 1 or (kind := kinds.pop()) not in ("float", "double", "int", "unsigned", "unsigned int"):
        raise NotPrinted("elements of several types")
    if total.operation != "add" and kind not in ("float", "double"):
        raise NotPrinted("an extremum of integers")
    if kind == "float" and re.search(r"\bdouble\b", ctx.source.slice(function.span)):
        kind = "double"
    names = names_of(ctx, function)
    say = Printer(one.analysis, names, {}, {})
    packed = all(element in _PACKS for element in elements)
    single = _value(one, say, "{pointer}[$i]")
    body = _head(kind, total.operation, _length(ctx, function, sums))
    body += _wide(one, say, total.operation) if packed else ""
    body += f"""\
    for (int $i = {"$packs * 4 + " if packed else ""}$first; $i < $count; $i += $all) {{
        {_combined(total.operation, "$sum", single)};
    }}
"""
    how = combining(ctx, total.write) if total.write.mode == "atomic" else None
    return "{\n" + body + _tail(one, say, kind, names, sums, how.atomic if how is not None else "") + "}"


def _value(one: _Sum, say: Printer, spelled: str) -> str:
    """A part, its elements spelled so. Raises NotPrinted, also if the parts differ by more than the place."""
    form, texts = one.analysis.form, set()
    for part in one.total.parts:
        reads = {}
        for access in accesses_in(form, part):
            text = spelled.format(pointer=one.arrays[access.memory.name])
            reads[access.number] = converted(access.memory.element, text)
        texts.add(replace(say, reads=reads).expression(part))
    if len(texts) != 1:
        raise NotPrinted("parts of several kinds")
    return texts.pop()


def _combined(operation: str, left: str, right: str) -> str:
    return f"{left} += {right}" if operation == "add" else f"{left} = f{operation}({left}, {right})"


def _head(kind: str, operation: str, length: str) -> str:
    return f"""\
    // Each thread combines many elements, then each warp by shuffles, then the first warp what the others found.
    {kind} $sum = {_STARTS[operation]};
    const int $count = {length};
    const int $first = blockIdx.x * blockDim.x + threadIdx.x, $all = gridDim.x * blockDim.x;
"""


def _wide(one: _Sum, say: Printer, operation: str) -> str:
    pointers = list(one.arrays.values())
    address = " | ".join(f"reinterpret_cast<unsigned long long>({pointer})" for pointer in pointers)
    test = f"({address})" if len(pointers) > 1 else address
    kinds = {a.name: a.element for a in one.analysis.form.arrays}
    loads = "".join(
        f"        const {(pack := _PACKS[kinds[name]])} $four_{pointer} ="
        f" reinterpret_cast<const {pack}*>({pointer})[$i];\n"
        for name, pointer in one.arrays.items()
    )
    x, y, z, w = (_value(one, say, "$four_{pointer}." + lane) for lane in "xyzw")
    pairs = f"({x} + {y}) + ({z} + {w})"
    if operation != "add":
        pairs = f"f{operation}(f{operation}({x}, {y}), f{operation}({z}, {w}))"
    steps = f"        {_combined(operation, '$sum', pairs)};\n"
    return f"""\
    const int $packs = {test} % 16 == 0 ? $count / 4 : 0;
    #pragma unroll 4
    for (int $i = $first; $i < $packs; $i += $all) {{
{loads}{steps}    }}
"""


def _tail(one: _Sum, say: Printer, kind: str, names: dict[str, str], sums: Sequence[_Sum], atomic: str) -> str:
    operation, write = one.total.operation, one.total.write
    shuffled = _combined(operation, "$sum", "__shfl_xor_sync(0xffffffffu, $sum, $step)")
    warps = f"    for (int $step = 16; $step > 0; $step /= 2) {shuffled};\n"
    target = write.memory.parameter or names.get(write.memory.name, write.memory.name)
    rest = ""
    if write.mode == "atomic":
        end = f"{atomic}(&{target}[0], $sum)"
    else:
        at = "blockIdx.x" if any(each.analysis.sizes.blocks > 1 for each in sums) else "0"
        said = replace(say, reads=dict.fromkeys(one.total.results, "$sum"))
        value = said.expression(write.value) if one.total.results and write.value is not None else "$sum"
        end = f"{target}[{at}] = {value}"
        if _has_many(one):
            grid = in_c(one.line.grid[0].tree, names)
            rest = (
                "    if (threadIdx.x == 0)  // there are fewer blocks than places\n"
                f"        for (int $i = blockIdx.x + gridDim.x; $i < {grid}; $i += gridDim.x)"
                f" {target}[$i] = {_STARTS[operation]};\n"
            )
    return f"""\
{warps}    __shared__ {kind} $warps[32];
    if (threadIdx.x % 32 == 0) $warps[threadIdx.x / 32] = $sum;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    $sum = threadIdx.x < blockDim.x / 32 ? $warps[threadIdx.x] : {_STARTS[operation]};
{warps}    if (threadIdx.x == 0) {end};
{rest}"""


RULES = (
    Rule(
        name="whole_sum",
        sentence="Combines a whole array by a loop over the grid with wide loads, shuffles within warps and one step"
        " between them, in place of trees of a block over a few elements.",
        find=_find,
        reason="a block that sums up a few hundred elements waits at barriers for most of its time",
        expected="many loads in flight for each thread, one barrier for each block: the memory binds",
        risk="floats are added in another order; small arrays leave blocks idle",
        next_if_kept="the knobs of threads and blocks",
        next_if_reverted="another number of threads",
    ),
)
