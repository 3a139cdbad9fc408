"""A matrix product of floats whose tiles come by cp.async while the ones before them are multiplied."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from evo.analysis.access import LaunchAnalysis
from evo.cuda.source import Function
from evo.operators.rules.families.tile.product import (
    Product,
    Tiling,
    factors_of,
    product_of,
    skipped_tile,
    term_of,
    tiled_edits,
)
from evo.operators.rules.families.tile.product_layout import FEW, Factor, blocks_of, suited
from evo.operators.rules.families.tile.side_sums import declared_sides, side_steps
from evo.operators.rules.rewriting import bracketed, indented
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext

# Tiles of a block (rows, columns, depth) and of a thread (rows, columns); the first that fills the chip comes first.
_SHAPES = ((128, 64, 16, 8, 8), (64, 64, 16, 8, 4), (32, 64, 16, 4, 4), (32, 32, 16, 4, 2), *FEW)
_ROOM = 48 * 1024  # bytes of shared memory that a kernel has without asking for more
_CAPABILITY = 80  # of cp.async


# A copy of four elements of a matrix into shared memory, zeros outside of it.
_COPY = """\
    auto $copy = [](float* $to, const float* $from, int $row, int $rows, int $col, int $cols, int $stride) {
        const int $count = $row < $rows ? max(min($cols - $col, 4), 0) : 0;
        const float* $at = $count > 0 ? $from + (long long)$row * $stride + $col : $from;
        if ($stride % 4 == 0 && reinterpret_cast<unsigned long long>($from) % 16 == 0) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                         :: "r"((unsigned)__cvta_generic_to_shared($to)), "l"($at), "r"($count * 4) : "memory");
        } else {
            for (int $i = 0; $i < 4; ++$i) $to[$i] = $i < $count ? $at[$i] : 0;
        }
    };
"""


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    found = product_of(ctx, analysis, function)
    if found is None or analysis.chip.capability < _CAPABILITY or not _are_floats(found):
        return
    requires = f"8 * (BM + BN + 8) * (BK + 4) <= {_ROOM} and BM // TM * (BN // TN) <= 1024"
    case, sms = analysis.case.axes, analysis.chip.sms
    shapes = sorted(_SHAPES, key=lambda each: blocks_of(found.output, case, each) < sms)
    for rank, shape in enumerate(suited(found.layout, case, shapes)):
        block, thread = "x".join(map(str, shape[:3])), "x".join(map(str, shape[3:]))
        yield Application(
            edits=tuple(tiled_edits(found, shape, partial(_body, found), requires=requires)),
            summary=f"{function.name}: two tiles of {block} by cp.async, {thread} results for each thread",
            arguments={"kernel": function.name, "block": block, "thread": thread},
            rank=rank,
            is_schedule=True,
        )


def _are_floats(found: Product) -> bool:
    output = found.made.output
    layout = found.layout
    elements = {layout.left.element, layout.right.element, output.array.element if output and output.array else ""}
    return elements == {"float"}


def _fill(side: Factor, own: str, first: str, extent: str, k: str) -> str:
    """The loop that starts copies of a tile, four elements each along its contiguous dimension."""
    word, size, source = ("$a_tile", "BM", "$left") if own == "$m" else ("$b_tile", "BN", "$right")
    if side.is_inner:
        inner, outer, split = "$k", own, "BK"
        place = f"{first} + {own}, {extent}, $k0 + $k, {k}"
    else:
        inner, outer, split = own, "$k", size
        place = f"$k0 + $k, {k}, {first} + {own}, {extent}"
    base = f"{source} + {side.turn}" if side.turn else source
    return f"""\
            for (int $e = threadIdx.x; $e < {size} * BK / 4; $e += $threads) {{
                const int {inner} = $e % ({split} / 4) * 4, {outer} = $e / ({split} / 4);
                $copy(&{word}[$t % 2][{outer}][{inner}], {base}, {place}, {side.stride});
            }}
"""


def _tile(side: Factor, size: str) -> str:
    """A padded tile's shape: rows along the contiguous dimension, a multiple of 16 bytes long."""
    return f"[2][{size}][BK + 4]" if side.is_inner else f"[2][BK][{size} + 4]"


def _fragment(side: Factor, word: str, register: str, counter: str, most: str, place: str) -> str:
    at = f"[{place}][$k + $q]" if side.is_inner else f"[$k + $q][{place}]"
    return f"""\
            #pragma unroll
            for (int {counter} = 0; {counter} < {most}; ++{counter}) {{
                #pragma unroll
                for (int $q = 0; $q < 4; ++$q) {register}[{counter}][$q] = {word}[($t - 1) % 2]{at};
            }}
"""


def _multiplied(fragments: str, step: str, beside: str) -> str:
    """A tile's products and sums beside them, four places of the sum at a time."""
    return f"""\
        #pragma unroll
        for (int $k = 0; $k < BK; $k += 4) {{
            float $x[TM][4], $y[TN][4];
{fragments}            #pragma unroll
            for (int $q = 0; $q < 4; ++$q) {{
                #pragma unroll
                for (int $i = 0; $i < TM; ++$i) {{
                    #pragma unroll
                    for (int $j = 0; $j < TN; ++$j) $sum[$i][$j] += {step};
                }}
{beside}            }}
        }}
"""


def _body(found: Product, tiling: Tiling) -> str:
    layout = tiling.layout
    m, n, k, left, right = layout.m, layout.n, layout.k, layout.left, layout.right
    # Lanes side by side: rows of a tile that is read along k, groups of four columns of one that is read across.
    apart, column = (
        ("", "$j * (BN / TN)") if right.is_inner else (" * $group", "$j / $group * (BN / TN * $group) + $j % $group")
    )
    group = "" if right.is_inner else ", $group = TN < 4 ? TN : 4"
    fills = _fill(left, "$m", "$row0", m, k) + _fill(right, "$n", "$col0", n, k)
    fragments = _fragment(left, "$a_tile", "$x", "$i", "TM", "$ty + $i")
    fragments += _fragment(right, "$b_tile", "$y", "$j", "TN", f"$tx + {column}")
    per = f"({k} + BK - 1) / BK"
    skipped = skipped_tile(found, tiling.say)
    all_turns = f"$per = {per}, $tiles = {skipped}$per * {bracketed(layout.turns)}"
    tiles = all_turns if layout.turns else f"$tiles = {skipped}{per}"
    depth = "$t % $per * BK, $turn = $t / $per" if layout.turns else "$t * BK"
    step, beside = (
        text.replace("$x[$i]", "$x[$i][$q]").replace("$y[$j]", "$y[$j][$q]")
        for text in (
            term_of(found, tiling.say),
            indented(side_steps(found.analysis, found.made, found.sides, tiling.say)),
        )
    )
    return f"""{{
    // A block computes BM x BN results from tiles of BK columns and rows, two in turns: one comes while the other is
    // multiplied. A thread has TM x TN results in registers.
    constexpr int $threads = BM / TM * (BN / TN){group};
    __shared__ __align__(16) float $a_tile{_tile(left, "BM")};
    __shared__ __align__(16) float $b_tile{_tile(right, "BN")};
    const int $row0 = blockIdx.y * BM, $col0 = blockIdx.x * BN, {tiles};
{factors_of(found)}    const int $ty = threadIdx.x / (BN / TN) * TM, $tx = threadIdx.x % (BN / TN){apart};
{_COPY}    float $sum[TM][TN] = {{}};
{declared_sides(found.sides, "float")}    for (int $t = 0; $t <= $tiles; ++$t) {{
        if ($t < $tiles) {{
            const int $k0 = {depth};
{fills}        }}
        asm volatile("cp.async.commit_group;" ::: "memory");  // empty past the end, so that the count is right
        if ($t == 0) continue;
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
{_multiplied(fragments, step, beside)}        __syncthreads();
    }}
{tiling.stores(column)}}}"""


RULES = (
    Rule(
        name="tile_stream",
        sentence="Computes a matrix product of floats by tiles that come by cp.async, one while another is multiplied;"
        " each thread keeps several results in registers.",
        find=by_launch(_find),
        reason="a block that loads a tile, waits and multiplies leaves the multiply-adds idle while it waits",
        expected="copies cost one instruction for four elements, and their wait is hidden behind a tile's products",
        risk="twice the shared memory; many registers; sums are added in another order",
        next_if_kept="the knobs of the tiles",
        next_if_reverted="plain tiles",
    ),
)
