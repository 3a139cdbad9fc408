"""A matrix product becomes tiles for tensor cores: cp.async, ldmatrix and mma.sync.m16n8k16; of float32 numbers in two
tf32 parts each, by mma.sync.m16n8k8.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

from evo.analysis.access import LaunchAnalysis
from evo.cuda.source import Function
from evo.operators.rules.families.tile.mma_pieces import (
    KINDS,
    MmaKind,
    TensorCoreBody,
    copy,
    declared,
    fetch,
    load,
    multiplied,
    places,
    results,
    tensor_core_applications,
)
from evo.operators.rules.families.tile.product import Product, extents_of, printer_of, product_of
from evo.operators.rules.lifting import NotPrinted, stored
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    found = product_of(ctx, analysis, function)
    if found is None or found.sides or found.made.kind != "matmul" or found.left.element not in KINDS:
        return
    if found.right.element == found.left.element and (found.left.element != "float" or _has_room(ctx)):
        yield from tensor_core_applications(ctx, analysis, function, functools.partial(_written, found))


def _has_room(ctx: RuleContext) -> bool:
    """Whether three products of tf32 numbers, at half the rate of 16-bit ones, are faster than one of float32."""
    rates = ctx.chip.rates if ctx.chip is not None else {}
    return rates.get("mma_f16_fma", 0.0) / 2 > 3 * rates.get("fp32_lanes", math.inf)


def _written(found: Product) -> TensorCoreBody:
    """Raises NotPrinted."""
    say, at = printer_of(found, "$sum[$i][$j][$e]")
    sizes = extents_of(found, say)
    if len(sizes["b"][0]) > 1:
        raise NotPrinted("several batches")
    m, n, k = (" * ".join(sizes[letter][0]) for letter in "mnk")
    m = f"({m})" if len(sizes["m"][0]) > 1 else m
    output = found.made.store
    left, right = found.left.is_inner, found.right.is_inner
    target, value = say.element(found.output, at), stored(output.memory.element, say.value(output.value))
    kind = KINDS[found.left.element]
    body = (
        "{\n"
        + declared(left, right, kind=kind)
        + _factors(found, m, n, k, kind)
        + places(k)
        + copy(kind)
        + load(fetch("m", left, "$row0", m, k, kind) + fetch("n", right, "$col0", n, k, kind), kind)
        + multiplied(left, right, kind)
        + results(m, n, target, value)
        + "}"
    )
    return TensorCoreBody(
        body=body, rows=" * ".join(sizes["m"][1]), columns=" * ".join(sizes["n"][1]),
        planes=" * ".join(sizes["b"][1]), left_is_inner=left, right_is_inner=right, names=found.names, extra={},
        kind=kind,
    )  # fmt: skip


def _factors(found: Product, m: str, n: str, k: str, kind: MmaKind) -> str:
    names = [found.names[side.tensor.name] for side in (found.left, found.right)]
    if kind.storage != "float":
        names = [f"reinterpret_cast<const {kind.storage}*>({name})" for name in names]
    left, right = (
        name + (f" + (long long)$batch * {extent} * {k}" if side.batch else "")
        for name, side, extent in zip(names, (found.left, found.right), (m, n), strict=True)
    )
    batch = "    const int $batch = blockIdx.z;\n" if found.left.batch else ""
    return (
        f"{batch}    const {kind.storage}* const $left = {left};\n    const {kind.storage}* const $right = {right};\n"
    )


RULES = (
    Rule(
        name="tile_mma",
        sentence="Computes a matrix product of 16-bit floats on tensor cores: tiles come by cp.async, fragments by"
        " ldmatrix, products by mma.sync with float sums. Of float32 too, each number as two of tf32 and each"
        " product as three, if that is faster than the scalar pipe of the chip.",
        find=by_launch(_find, once=True),
        reason="multiply-adds run on the scalar pipe, at a fraction of the rate of tensor cores",
        expected="the product is bound by shared memory or tensor cores instead of by multiply-adds and loads",
        risk="small matrices leave blocks idle; sums are added in another order",
        next_if_kept="the knobs of the tiles: shape of block and warp, depth and stages",
        next_if_reverted="another shape of tiles",
    ),
)
