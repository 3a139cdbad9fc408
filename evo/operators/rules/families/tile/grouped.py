"""Matrix products of 16-bit floats by groups, on tensor cores: each row is multiplied with the matrix of its group."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from evo.analysis.access import Contraction, LaunchAnalysis, Origin, Symbol, Term
from evo.cuda.source import Function
from evo.operators.rules.families.tile.mma_copies import copy, fetch, load
from evo.operators.rules.families.tile.mma_pieces import (
    KINDS,
    MMA_TYPES,
    TensorCoreBody,
    declared,
    multiplied,
    places,
    tensor_core_applications,
)
from evo.operators.rules.families.tile.mma_stores import pairs_of, results
from evo.operators.rules.lifting import NotPrinted, Printer, accumulator, names_of, stored
from evo.operators.rules.rewriting import bracketed, indented
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.slices import Slice, slice_of
from evo.operators.rules.spelling import counts_all, own_conditions, stores_all
from evo.spec.task import Tensor

_SHARES = (4, 1, 2, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class _Grouped:
    """out[row, column] = f(sum over k of rows[row, k] * matrices[group of row, k, column]), k last or first in both."""

    ctx: RuleContext
    analysis: LaunchAnalysis
    function: Function
    made: Contraction
    rows: Tensor
    rows_inner: bool  # k is the last dimension
    matrices: Tensor
    matrices_inner: bool
    element: str
    group: Slice
    row: str  # what the text calls a row
    output: Tensor
    names: dict[str, str]


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    found = _grouped(ctx, analysis, function)
    if found is not None:
        yield from tensor_core_applications(ctx, analysis, function, functools.partial(_written, found))


def _grouped(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> _Grouped | None:
    """Raises NotPrinted."""
    form = analysis.form
    if len(analysis.contractions) != 1 or form.multiplies:
        return None
    (made,) = analysis.contractions
    output = made.output
    if made.kind != "matmul" or made.left is None or output is None or output.array is None or made.scale:
        return None
    grouped = [side for side in (made.left, made.right) if _group_at(side) is not None]
    if len(grouped) != 1 or len(made.summed) != 1 or len(output.subscripts) != 2:
        return None
    matrices = grouped[0]
    rows = made.right if matrices is made.left else made.left
    row, column, k = *output.subscripts, Term.of(made.summed[0])
    if _group_at(matrices) != 0 or len(matrices.subscripts) != 3 or rows.array.element != matrices.array.element:
        return None
    orders = {(row, k): True, (k, row): False}, {(k, column): False, (column, k): True}
    if rows.subscripts not in orders[0] or matrices.subscripts[1:] not in orders[1]:
        return None
    if rows.array.element not in MMA_TYPES or accumulator(output.array.element) is None:
        return None
    if not _is_whole(analysis, made, rows, matrices):
        return None
    tensors = {tensor.name: tensor for tensor in analysis.task.tensors}
    sides = [tensors.get(array.name) for array in (rows.array, matrices.array, output.array)]
    name = form.names.get(row, "")
    if any(side is None for side in sides) or not name:
        return None
    given, many, made_here = (side for side in sides if side is not None)
    symbol = matrices.subscripts[0].atom
    assert isinstance(symbol, Symbol)
    apart = [form.accesses[number].span for side in (rows, matrices) for number in side.way] + [output.span]
    group = slice_of(ctx, function, symbol.name, name, apart)
    return _Grouped(
        ctx, analysis, function, made, given, orders[0][rows.subscripts], many, orders[1][matrices.subscripts[1:]],
        rows.array.element, group, name, made_here, names_of(ctx, function),
    )  # fmt: skip


def _group_at(side: Origin) -> int | None:
    """The dimension whose index is data."""
    found = [d for d, at in enumerate(side.subscripts) if isinstance(at.atom, Symbol) and at.atom.kind == "value"]
    return found[0] if len(found) == 1 else None


def _is_whole(analysis: LaunchAnalysis, made: Contraction, rows: Origin, matrices: Origin) -> bool:
    """Whether the sum runs over all of k, for every element of the output."""
    form, output = analysis.form, made.store
    extent = next(size for at, size in zip(rows.subscripts, rows.array.shape, strict=True)
                  if at == Term.of(made.summed[0]))  # fmt: skip
    writes = [a for a in form.accesses if a.is_write and a.is_global]
    if len(writes) != 1 or len(rows.way) != 1 or len(matrices.way) != 1 or not stores_all(output):
        return False
    reads = [form.accesses[side.way[0]] for side in (rows, matrices)]
    return counts_all(form, made.summed[0], extent) and not any(own_conditions(form, read, output) for read in reads)


def _written(found: _Grouped) -> TensorCoreBody:
    """Raises NotPrinted."""
    output = found.made.store
    sums = {carried.name: "$sum[$i][$j][$e]" for r in found.analysis.reductions for carried in r.carried}
    spots = {output.subscripts[0]: "$row", output.subscripts[1]: "$col"}
    say = Printer(found.analysis, found.names, spots, sums)
    m, n = (say.extent(dim) for dim in found.output.shape)
    k = say.extent(found.rows.shape[-1 if found.rows_inner else 0])
    value = stored(output.memory.element, say.expression(output.value))
    target = f"{found.names[found.output.name]}[(long long)$row * {n} + $col]"
    left, right = found.rows_inner, found.matrices_inner
    left_name, right_name = (found.names[tensor.name] for tensor in (found.rows, found.matrices))
    if not left:
        raise NotPrinted("the rows of a group would not begin at a multiple of eight elements")
    product = (
        f"    const unsigned short* const $right =\n"
        f"        reinterpret_cast<const unsigned short*>({right_name}) + (long long)$group * {n} * {k};\n"
        + load([fetch("m", left, "$row0", "$rows", k), fetch("n", right, "$col0", n, k)], k)
        + multiplied(left, right, KINDS[found.element])
        + results("$rows", n, target, value, pairs_of(found.ctx, found.function, found.names[found.output.name], n))
        + "    __syncthreads();  // before the next group's tiles replace these\n"
    )
    body = (
        "{\n"
        + declared(left, right)
        + "    __shared__ int $groups[BM];\n"
        + f"    const unsigned short* const $left = reinterpret_cast<const unsigned short*>({left_name});\n"
        + places(k, "$tile0")
        + copy()
        + _group_of(found)
        + _turns(m, indented(indented(product)))
        + "}"
    )
    return TensorCoreBody(
        body=body, rows=bracketed(found.output.shape[0].text), columns=bracketed(found.output.shape[1].text),
        planes="SHARES", left_is_inner=left, right_is_inner=right, names=found.names, extra={"SHARES": _SHARES},
        kind=KINDS[found.element],
    )  # fmt: skip


def _group_of(found: _Grouped) -> str:
    """The text's own way to a row's group, as a function of the row."""
    lines = "".join(f"{textwrap.indent(text, '        ')}\n" for text in found.group.statements)
    return f"""\
    auto $group_of = [&](int {found.row}) {{
{lines}        return {found.group.value};
    }};
"""


def _turns(m: str, product: str) -> str:
    """The loop over the groups of a tile's rows."""
    return f"""\
    const int $here = min(BM, {m} - $tile0);
    for (int $e = threadIdx.x; $e < $here; $e += $threads) $groups[$e] = $group_of($tile0 + $e);
    __syncthreads();

    // The rows of a tile by runs of one group; SHARES blocks take turns with the runs.
    for (int $first = 0, $turn = 0; $first < $here; ++$turn) {{
        const int $group = $groups[$first], $row0 = $tile0 + $first;
        int $end = $first;
        for (unsigned $same = ~0u; $same == ~0u && $end < $here;) {{
            $same = __ballot_sync(~0u, $end + $lane < $here && $groups[$end + $lane] == $group);
            $end += $same == ~0u ? 32 : __ffs(~$same) - 1;
        }}
        if ($turn % SHARES == blockIdx.z) {{
            const int $rows = $tile0 + $end;
{product}        }}
        $first = $end;
    }}
"""


RULES = (
    Rule(
        name="grouped_mma",
        sentence="Computes products of 16-bit floats with a matrix for each group of rows on tensor cores: a tile's"
        " rows are taken by runs of one group, in whatever order the groups come.",
        find=by_launch(_find, once=True),
        reason="two loads feed one multiply-add, though the rows of a group form a matrix product",
        expected="the product is bound by memory or tensor cores instead of by multiply-adds and loads",
        risk="groups of few rows leave a part of each tile empty; sums are added in another order",
        next_if_kept="the knobs of the tiles, and how many blocks share the runs of a tile",
        next_if_reverted="another shape of tiles",
    ),
)
