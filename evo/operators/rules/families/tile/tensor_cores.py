"""A matrix product becomes tiles for tensor cores: cp.async, ldmatrix and mma.sync.m16n8k16; of float32 numbers in two
tf32 parts each, by mma.sync.m16n8k8.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

from evo.analysis.access import LaunchAnalysis
from evo.cuda.source import Function
from evo.operators.rules.families.tile.mma_copies import copy, fetch, load
from evo.operators.rules.families.tile.mma_pieces import (
    KINDS,
    TensorCoreBody,
    declared,
    multiplied,
    places,
    tensor_core_applications,
)
from evo.operators.rules.families.tile.mma_stores import pairs_of, results
from evo.operators.rules.families.tile.product import (
    Product,
    factors_of,
    printer_of,
    product_of,
    result_of,
    skipped_tile,
    store_of,
)
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    found = product_of(ctx, analysis, function)
    if found is None or found.sides or found.made.kind != "matmul":
        return
    left, right = found.layout.left.element, found.layout.right.element
    if left == right and has_kind(ctx, left):
        yield from tensor_core_applications(ctx, analysis, function, functools.partial(_written, found))


def has_kind(ctx: RuleContext, element: str) -> bool:
    """Whether tensor cores multiply elements of a type, and gain by it: three products of tf32 numbers, at half the
    rate of 16-bit ones, may be slower than one of float32.
    """
    if element != "float":
        return element in KINDS
    rates = ctx.chip.rates if ctx.chip is not None else {}
    return rates.get("mma_f16_fma", 0.0) / 2 > 3 * rates.get("fp32_lanes", math.inf)


def _written(found: Product) -> TensorCoreBody:
    """Raises NotPrinted."""
    layout = found.layout
    say = printer_of(found, "$sum[$i][$j][$e]")
    m, n, k = layout.m, layout.n, layout.k
    left, right = layout.left, layout.right
    target = say.element(found.output, list(layout.at))
    kind = KINDS[left.element]
    pairs = None
    if layout.at[-1] == "$col":
        width = say.extent(found.output.shape[-1])
        pairs = pairs_of(found.ctx, found.function, found.names[found.output.name], width)
    is_mirrored = found.mask is not None and found.mask.mirrors
    stores = ("", None, store_of(found, say)) if is_mirrored else (result_of(found, say), pairs, "")
    fetches = [
        fetch("m", left.is_inner, "$row0", m, k, kind, stride=left.stride, turn=left.turn),
        fetch("n", right.is_inner, "$col0", n, k, kind, stride=right.stride, turn=right.turn),
    ]
    body = (
        "{\n"
        + declared(left.is_inner, right.is_inner, kind=kind)
        + factors_of(found, kind.storage if kind.storage != left.element else "")
        + places(k, turns=layout.turns, skipped=skipped_tile(found, say))
        + copy(kind)
        + load(fetches, k, is_turning=bool(layout.turns))
        + multiplied(left.is_inner, right.is_inner, kind)
        + results(m, n, target, *stores)
        + "}"
    )
    return TensorCoreBody(
        body=body, rows=layout.rows, columns=layout.columns, planes=layout.planes, left_is_inner=left.is_inner,
        right_is_inner=right.is_inner, names=found.names, extra={}, kind=kind,
    )  # fmt: skip


RULES = (
    Rule(
        name="tile_mma",
        sentence="Computes a matrix product of 16-bit floats or bytes on tensor cores: tiles come by cp.async,"
        " fragments by ldmatrix, products by mma.sync with float or int sums. Of float32 too, each number as two of"
        " tf32 and each product as three, if that is faster than the scalar pipe of the chip.",
        find=by_launch(_find, once=True),
        reason="multiply-adds run on the scalar pipe, at a fraction of the rate of tensor cores",
        expected="the product is bound by shared memory or tensor cores instead of by multiply-adds and loads",
        risk="small matrices leave blocks idle; sums are added in another order",
        next_if_kept="the knobs of the tiles: shape of block and warp, depth and stages",
        next_if_reverted="another shape of tiles",
    ),
)
