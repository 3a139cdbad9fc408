"""What kernels for tensor cores are written from: cp.async, ldmatrix and mma.sync.m16n8k16, with sums in float.

Layouts of the fragments: PTX ISA 8.x, "Matrix Fragments for mma.m16n8k16" and "ldmatrix". In all texts `$name` is a
name of the new body, `$left` and `$right` are the factors, BM, BN ... the knobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from evo.cuda.source import Edit, Function
from evo.operators.rules.directives import line_span, new_knob, require
from evo.operators.rules.lifting import NotPrinted, named, taken
from evo.operators.rules.rewriting import fresh, merged
from evo.operators.rules.rule import Application
from evo.operators.rules.rule_context import RuleContext

# Tiles of a block (rows, columns, depth), of a warp (rows, columns), and how many tiles are under way.
_SHAPES = (
    (64, 64, 32, 32, 32, 3), (128, 128, 32, 64, 32, 3), (32, 64, 64, 16, 32, 3), (128, 64, 32, 32, 32, 4),
    (64, 128, 64, 32, 64, 2),
)  # fmt: skip
_DOMAINS = {
    "BM": (16, 32, 64, 128, 256), "BN": (16, 32, 64, 128, 256), "BK": (16, 32, 64), "WM": (16, 32, 64),
    "WN": (16, 32, 64), "STAGES": (2, 3, 4),
}  # fmt: skip
MMA_TYPES = {"half": "f16", "bfloat16": "bf16"}
_CAPABILITY = 80  # cp.async, and mma of bfloat16


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorCoreBody:
    """A kernel's new body and its launch. body: text with `$names`; rows, columns: how many results there are, in the
    launch line's words; planes: the third dimension of the grid, empty for 1; extra: knobs besides those of the tiles,
    each with its values, the first one first.
    """

    body: str
    rows: str
    columns: str
    planes: str
    left_is_inner: bool
    right_is_inner: bool
    names: Mapping[str, str]
    extra: Mapping[str, tuple[int, ...]]


def has_tensor_cores(ctx: RuleContext) -> bool:
    return ctx.chip is None or ctx.chip.capability >= _CAPABILITY


def tensor_core_applications(
    ctx: RuleContext, function: Function, place: int, write: Callable[[], TensorCoreBody]
) -> Iterator[Application]:
    """One for each shape of tiles, none if the body cannot be written."""
    position = ctx.launches[place].form.position
    if sum(line.kernel == function.name for line in ctx.variant.launches) != 1:
        return
    try:
        written = write()
    except NotPrinted:
        return
    for rank, shape in enumerate(_SHAPES):
        block, warp = "x".join(map(str, shape[:3])), "x".join(map(str, shape[3:5]))
        yield Application(
            edits=tuple(_edits(ctx, function, position, written, shape)),
            summary=f"{function.name}: tensor cores, a tile of {block} for each block, {warp} for each warp",
            arguments={
                "kernel": function.name, "launch": place, "block": block, "warp": warp, "stages": shape[5],
            },
            rank=rank,
            is_schedule=True,
        )  # fmt: skip


def _edits(
    ctx: RuleContext, function: Function, position: int, written: TensorCoreBody, shape: tuple[int, ...]
) -> list[Edit]:
    knobs = {word: fresh(ctx, word) for word in (*_DOMAINS, *written.extra)}
    body = named(written.body, taken(ctx, written.names), knobs)
    line = ctx.variant.launches[position]
    bm, bn, bk, wm, wn = (knobs[word] for word in ("BM", "BN", "BK", "WM", "WN"))
    grid = f"ceil_div({written.columns}, {bn}), ceil_div({written.rows}, {bm})"
    if written.planes:
        grid += f", {knobs.get(written.planes, written.planes)}"
    left = f"{bm} * ({bk} + 8)" if written.left_is_inner else f"{bk} * ({bm} + 8)"
    right = f"{bn} * ({bk} + 8)" if written.right_is_inner else f"{bk} * ({bn} + 8)"
    text = (
        f"// evo: launch {line.kernel} grid ({grid}) block ({bm} // {wm} * ({bn} // {wn}) * 32)"
        f" shared ({knobs['STAGES']} * ({left} + {right}) * 2){line.args_text}"
    )
    edits = [Edit(line_span(ctx, line.line), text), Edit(function.body, body)]
    for word, value in zip(_DOMAINS, shape, strict=True):
        edits += new_knob(ctx, knobs[word], _DOMAINS[word], value)
    for word, values in written.extra.items():
        edits += new_knob(ctx, knobs[word], sorted(values), values[0])
    edits += require(
        ctx,
        f"{bm} % {wm} == 0 and {bn} % {wn} == 0 and {bm} // {wm} * ({bn} // {wn}) <= 16"
        " and shared <= chip.shared_per_block_optin",
    )
    if function.bounds is not None:
        edits.append(Edit(function.bounds, ""))
    return merged(edits)


def fetch(own: str, is_inner: bool, first: str, extent: str, k: str) -> str:
    """The loop that starts the copies of a factor's tile, eight elements of a row at a time.

    own: `m` for the left factor, `n` for the right one; is_inner: k runs along its rows.
    """
    source, to, size = ("$left", "$to", "BM") if own == "m" else ("$right", "$to + $left_size", "BN")
    rows, columns, at = (
        (size, "BK", f"{first} + $row, $t * BK + $col, {extent}, {k}")
        if is_inner
        else ("BK", size, f"$t * BK + $row, {first} + $col, {k}, {extent}")
    )
    return f"""\
            for (int $e = threadIdx.x; $e < {rows} * {columns} / 8; $e += $threads) {{
                const int $row = $e / ({columns} / 8), $col = $e % ({columns} / 8) * 8;
                $copy({to} + $row * ({columns} + 8) + $col, {source}, {at});
            }}
"""


def _fragments(own: str, is_inner: bool) -> str:
    """The loads of a warp's fragments at depth $k: four 8 x 8 matrices each, transposed unless k is along the row."""
    name, tile, warp, size = (
        ("$x", "$left_tile", "$warp_row", "WM") if own == "m" else ("$y", "$right_tile", "$warp_col", "WN")
    )
    # The four matrices of A lie rows first, then depth; those of B the other way round.
    outer, inner = ("$lane / 8 % 2 * 8", "$lane / 16 * 8") if own == "m" else ("$lane / 16 * 8", "$lane / 8 % 2 * 8")
    where = f"{warp} + $i * 16 + {outer}"
    depth = f"$k + {inner}"
    address = (
        f"({where} + $lane % 8) * (BK + 8) + {depth}"
        if is_inner
        else f"({depth} + $lane % 8) * ({'BM' if own == 'm' else 'BN'} + 8) + {where}"
    )
    trans = "" if is_inner else ".trans"
    return f"""\
            #pragma unroll
            for (int $i = 0; $i < {size} / 16; ++$i)
                asm volatile("ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
                             : "=r"({name}[$i][0]), "=r"({name}[$i][1]), "=r"({name}[$i][2]), "=r"({name}[$i][3])
                             : "r"((unsigned)__cvta_generic_to_shared({tile} + {address})) : "memory");
"""


def declared(left_is_inner: bool, right_is_inner: bool, shape: str = "BM x BN results") -> str:
    """Where the tiles lie, and what a block and a warp compute."""
    left_size = "BM * (BK + 8)" if left_is_inner else "BK * (BM + 8)"
    right_size = "BN * (BK + 8)" if right_is_inner else "BK * (BN + 8)"
    return f"""\
    // A block computes {shape} on tensor cores, a warp WM x WN of them; STAGES tiles of depth BK are under way.
    // Rows of a tile are 16 bytes longer than they need to be, so that ldmatrix meets no bank twice.
    constexpr int $warps_n = BN / WN, $threads = BM / WM * $warps_n * 32;
    constexpr int $left_size = {left_size}, $stage = $left_size + {right_size};
    extern __shared__ __align__(16) unsigned short $ring[];
"""


def places(k: str, row0: str = "$row0") -> str:
    """Where the results of a block and of a warp begin."""
    return f"""\
    const int {row0} = blockIdx.y * BM, $col0 = blockIdx.x * BN, $lane = threadIdx.x % 32;
    const int $warp_row = threadIdx.x / 32 / $warps_n * WM, $warp_col = threadIdx.x / 32 % $warps_n * WN;
    const int $tiles = ({k} + BK - 1) / BK;

"""


def copy() -> str:
    """What copies eight elements."""
    return """\
    // Eight elements of a row, zeros outside of the matrix; one by one if rows are not aligned to 16 bytes.
    auto $copy = [](unsigned short* $to, const unsigned short* $from, int $row, int $col, int $rows, int $cols) {
        const int $count = $row < $rows ? $cols - $col : 0;
        const long long $at = $count > 0 ? (long long)$row * $cols + $col : 0;
        if ($cols % 8 == 0) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                         :: "r"((unsigned)__cvta_generic_to_shared($to)), "l"($from + $at), "r"($count > 0 ? 16 : 0)
                         : "memory");
        } else {
            for (int $i = 0; $i < 8; ++$i) $to[$i] = $i < $count ? $from[$at + $i] : (unsigned short)0;
        }
    };
"""


def load(fills: str) -> str:
    """What starts the copies of a tile."""
    return f"""\
    auto $load = [&](int $t) {{
        if ($t < $tiles) {{
            unsigned short* const $to = $ring + $t % STAGES * $stage;
{fills}        }}
        asm volatile("cp.async.commit_group;" ::: "memory");  // empty past the end, so that the count is right
    }};

"""


def multiplied(left_is_inner: bool, right_is_inner: bool, element: str) -> str:
    """The loop over the tiles: the sums of a warp in registers."""
    fragments = _fragments("m", left_is_inner) + _fragments("n", right_is_inner)
    kind = MMA_TYPES[element]
    return f"""\
    float $sum[WM / 16][WN / 8][4] = {{}};
    for (int $t = 0; $t < STAGES - 1; ++$t) $load($t);
    for (int $t = 0; $t < $tiles; ++$t) {{
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
        __syncthreads();
        $load($t + STAGES - 1);
        const unsigned short* const $left_tile = $ring + $t % STAGES * $stage;
        const unsigned short* const $right_tile = $left_tile + $left_size;
        #pragma unroll
        for (int $k = 0; $k < BK; $k += 16) {{
            unsigned $x[WM / 16][4], $y[WN / 16][4];
{fragments}            #pragma unroll
            for (int $i = 0; $i < WM / 16; ++$i) {{
                #pragma unroll
                for (int $j = 0; $j < WN / 8; ++$j)
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {{%0, %1, %2, %3}}, "
                                 "{{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
                                 : "+f"($sum[$i][$j][0]), "+f"($sum[$i][$j][1]), "+f"($sum[$i][$j][2]),
                                   "+f"($sum[$i][$j][3])
                                 : "r"($x[$i][0]), "r"($x[$i][1]), "r"($x[$i][2]), "r"($x[$i][3]),
                                   "r"($y[$j / 2][$j % 2 * 2]), "r"($y[$j / 2][$j % 2 * 2 + 1]));
            }}
        }}
    }}
"""


def results(m: str, n: str, target: str, value: str) -> str:
    """The loop over a warp's sums that stores them."""
    return f"""\
    #pragma unroll
    for (int $i = 0; $i < WM / 16; ++$i) {{
        #pragma unroll
        for (int $j = 0; $j < WN / 8; ++$j) {{
            #pragma unroll
            for (int $e = 0; $e < 4; ++$e) {{
                const int $row = $row0 + $warp_row + $i * 16 + $e / 2 * 8 + $lane / 4;
                const int $col = $col0 + $warp_col + $j * 8 + $lane % 4 * 2 + $e % 2;
                if ($row < {m} && $col < {n}) {target} = {value};
            }}
        }}
    }}
"""
