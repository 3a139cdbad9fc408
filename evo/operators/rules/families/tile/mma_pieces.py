"""What kernels for tensor cores are written from: cp.async, ldmatrix and mma.sync.m16n8k16, with sums in float.

Layouts of the fragments: PTX ISA 8.x, "Matrix Fragments for mma.m16n8k16" and "ldmatrix". In all texts `$name` is a
name of the new body, `$left` and `$right` are the factors, BM, BN ... the knobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from evo.analysis.access import LaunchAnalysis
from evo.cuda.source import Edit, Function
from evo.operators.rules.directives import new_knob, relaunched, require, shape_knobs, without_bounds
from evo.operators.rules.lifting import named, taken
from evo.operators.rules.rewriting import fresh, merged
from evo.operators.rules.rule import Application
from evo.operators.rules.rule_context import RuleContext

# Tiles of a block (rows, columns, depth), of a warp (rows, columns), and how many tiles are under way.
_SHAPES = (
    (64, 64, 32, 32, 32, 4), (128, 128, 32, 64, 64, 4), (32, 64, 64, 16, 32, 4), (128, 64, 32, 64, 32, 4),
    (64, 128, 64, 32, 64, 3),
)  # fmt: skip
_DOMAINS = {
    "BM": (16, 32, 64, 128, 256), "BN": (16, 32, 64, 128, 256), "BK": (32, 64), "WM": (16, 32, 64),
    "WN": (16, 32, 64), "STAGES": (2, 3, 4),
}  # fmt: skip
_CAPABILITY = 80  # cp.async, and mma of bfloat16 and tf32
_SHAPES_INT8 = (
    (64, 64, 64, 32, 32, 3), (128, 128, 64, 64, 32, 3), (32, 64, 64, 16, 32, 3), (128, 64, 64, 32, 32, 4),
    (64, 128, 128, 32, 64, 2),
)  # fmt: skip
_SHAPES_TF32 = (
    (64, 64, 16, 32, 32, 3), (128, 128, 16, 64, 32, 3), (32, 64, 32, 16, 32, 3), (128, 64, 16, 32, 32, 3),
    (64, 128, 32, 32, 64, 2),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaKind:
    """How elements of a type are multiplied. storage: what tiles hold; bytes: of an element; depth: of one instruction;
    shapes: of tiles, as in _SHAPES; depths: values of the knob BK; name: of the instruction; sums: their type.
    """

    storage: str
    bytes: int
    depth: int
    name: str
    shapes: tuple[tuple[int, ...], ...] = _SHAPES
    depths: tuple[int, ...] = _DOMAINS["BK"]
    sums: str = "float"

    @property
    def chunk(self) -> int:
        """Elements in the 16 bytes that one thread copies."""
        return 16 // self.bytes

    def pad(self, is_inner: bool) -> int:
        """Elements between the rows of a tile, so that its loads meet no bank twice."""
        return self.chunk if is_inner or self.bytes < 4 else 8

    @property
    def is_split(self) -> bool:
        """Whether a product is three, of numbers in two parts."""
        return self.name == "tf32"


KINDS = {
    "half": MmaKind(storage="unsigned short", bytes=2, depth=16, name="f16"),
    "bfloat16": MmaKind(storage="unsigned short", bytes=2, depth=16, name="bf16"),
    "float": MmaKind(storage="float", bytes=4, depth=8, name="tf32", shapes=_SHAPES_TF32, depths=(16, 32)),
    **{
        element: MmaKind(
            storage=element, bytes=1, depth=32, name=name, shapes=_SHAPES_INT8, depths=(64, 128), sums="int"
        )
        for element, name in (("signed char", "s8"), ("unsigned char", "u8"))
    },
}


_HOW = {"tf32": " (tf32, each product of float32 in three parts)"}
MMA_TYPES = {element: kind.name for element, kind in KINDS.items() if kind.bytes == 2}
F16 = KINDS["half"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorCoreBody:
    """A kernel's new body and its launch. body: text with `$names`; rows, columns: how many results there are, in the
    launch line's words; planes: the third dimension of the grid, empty for 1; extra: knobs besides those of the tiles,
    each with its values, the first one first; requires: a condition on them besides the usual one.
    """

    body: str
    rows: str
    columns: str
    planes: str
    left_is_inner: bool
    right_is_inner: bool
    names: Mapping[str, str]
    extra: Mapping[str, tuple[int, ...]]
    kind: MmaKind
    requires: str = ""


def has_tensor_cores(ctx: RuleContext) -> bool:
    return ctx.chip is None or ctx.chip.capability >= _CAPABILITY


def tensor_core_applications(
    ctx: RuleContext, analysis: LaunchAnalysis, function: Function, write: Callable[[], TensorCoreBody]
) -> Iterator[Application]:
    """One for each shape of tiles. Raises NotPrinted if the body cannot be written."""
    if not has_tensor_cores(ctx):
        return
    written, position = write(), analysis.form.position
    for rank, shape in enumerate(written.kind.shapes):
        block, warp = "x".join(map(str, shape[:3])), "x".join(map(str, shape[3:5]))
        yield Application(
            edits=tuple(_edits(ctx, function, position, written, shape)),
            summary=f"{function.name}: tensor cores{_HOW.get(written.kind.name, '')}, a tile of {block} for each block,"
            f" {warp} for each warp",
            arguments={
                "kernel": function.name, "launch": position, "block": block, "warp": warp, "stages": shape[5],
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
    kind = written.kind
    left, right = kind.pad(written.left_is_inner), kind.pad(written.right_is_inner)
    left_size = f"{bm} * ({bk} + {left})" if written.left_is_inner else f"{bk} * ({bm} + {left})"
    right_size = f"{bn} * ({bk} + {right})" if written.right_is_inner else f"{bk} * ({bn} + {right})"
    shared = f"({knobs['STAGES']} * ({left_size} + {right_size}) * {kind.bytes})"
    launch = relaunched(ctx, line, grid=grid, block=f"{bm} // {wm} * ({bn} // {wn}) * 32", shared=shared)
    edits = [launch, Edit(function.body, body)]
    edits += shape_knobs(ctx, knobs, _DOMAINS | {"BK": kind.depths}, shape)
    for word, values in written.extra.items():
        edits += new_knob(ctx, knobs[word], sorted(values), values[0])
    edits += require(
        ctx,
        f"{bm} % {wm} == 0 and {bn} % {wn} == 0 and {bm} // {wm} * ({bn} // {wn}) <= 16"
        " and shared <= chip.shared_per_block_optin"
        + (written.requires and f" and {written.requires.format(**knobs)}"),
    )
    return merged([*edits, *without_bounds(function)])


def _fragments(own: str, is_inner: bool, kind: MmaKind) -> str:
    """The loads of a warp's fragments at depth $k of the tile at $from: four 8 x 8 matrices each, transposed unless k
    is along the row.
    """
    name, tile, warp, size = (
        ("$x", "$from", "$warp_row", "WM") if own == "m" else ("$y", "$from + $left_size", "$warp_col", "WN")
    )
    # The four matrices of A lie rows first, then depth; those of B the other way round.
    if kind.bytes != 2 and not is_inner:
        return _words(name, tile, warp, size, own, kind)
    wide = kind.chunk  # columns of a matrix of 8 rows
    outer, inner = (
        ("$lane / 8 % 2 * 8", f"$lane / 16 * {wide}") if own == "m" else ("$lane / 16 * 8", f"$lane / 8 % 2 * {wide}")
    )
    # What depends on the lane stands alone, so that the rest is an offset of the instruction.
    if is_inner:
        line = f"BK + {kind.pad(True)}"
        mine, place = f"({warp} + {outer} + $lane % 8) * ({line}) + {inner}", f"$i * 16 * ({line}) + $k"
    else:
        line = f"{'BM' if own == 'm' else 'BN'} + 8"
        mine, place = f"({inner} + $lane % 8) * ({line}) + {warp} + {outer}", f"$k * ({line}) + $i * 16"
    trans = "" if is_inner else ".trans"
    return f"""\
        #pragma unroll
        for (int $i = 0; $i < {size} / 16; ++$i)
            asm volatile("ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
                         : "=r"({name}[$i][0]), "=r"({name}[$i][1]), "=r"({name}[$i][2]), "=r"({name}[$i][3])
                         : "r"($ring_at + {kind.bytes} * ({tile} + {mine} + {place})) : "memory");
"""


def _words(name: str, tile: str, warp: str, size: str, own: str, kind: MmaKind) -> str:
    """The same of a tile of other elements whose rows are depths, one by one: ldmatrix turns 16-bit elements alone."""
    per = 4 // kind.bytes  # elements in a register
    across, down = ("$e % 2 * 8", f"$e / 2 * {4 * per}") if own == "m" else ("$e / 2 * 8", f"$e % 2 * {4 * per}")
    edge = f"({'BM' if own == 'm' else 'BN'} + {kind.pad(False)})"
    spot = f"{warp} + $i * 16 + $lane / 4 + {across}"
    if per == 1:
        taken = f"{name}[$i][$e] = __float_as_uint($ring[{tile} + ($k + $lane % 4 + {down}) * {edge} + {spot}]);"
    else:
        taken = f"""{{
                    const {kind.storage}* const $at = $ring + {tile} + ($k + $lane % 4 * 4 + {down}) * {edge} + {spot};
                    {name}[$i][$e] = ($at[0] & 255u) | ($at[{edge}] & 255u) << 8 | ($at[2 * {edge}] & 255u) << 16
                                     | ($at[3 * {edge}] & 255u) << 24;
                }}"""
    return f"""\
        #pragma unroll
        for (int $i = 0; $i < {size} / 16; ++$i) {{
            #pragma unroll
            for (int $e = 0; $e < 4; ++$e) {taken}
        }}
"""


def declared(left_is_inner: bool, right_is_inner: bool, shape: str = "BM x BN results", kind: MmaKind = F16) -> str:
    """Where the tiles lie, and what a block and a warp compute."""
    left, right = kind.pad(left_is_inner), kind.pad(right_is_inner)
    left_size = f"BM * (BK + {left})" if left_is_inner else f"BK * (BM + {left})"
    right_size = f"BN * (BK + {right})" if right_is_inner else f"BK * (BN + {right})"
    how = "16 bytes longer than they need to be, so that ldmatrix meets no bank twice."
    if kind.is_split:
        how = (
            "longer than they need to be, so that no load meets a bank twice.\n"
            "    // A float is the sum of two tf32 numbers, and a product three of theirs: the fourth one is below the"
            " last bit."
        )
    return f"""\
    // A block computes {shape} on tensor cores, a warp WM x WN of them; STAGES tiles of depth BK are under way.
    // Rows of a tile are {how}
    constexpr int $warps_n = BN / WN, $threads = BM / WM * $warps_n * 32;
    constexpr int $left_size = {left_size}, $stage = $left_size + {right_size};
    extern __shared__ __align__(16) {kind.storage} $ring[];
    const unsigned $ring_at = (unsigned)__cvta_generic_to_shared($ring);
"""


def places(k: str, row0: str = "$row0", turns: str = "", skipped: str = "") -> str:
    """Where the results of a block and of a warp begin, and how many tiles its sums take. turns: of k depths each;
    skipped: `test ? 0 : `, of tiles without any.
    """
    per = f"({k} + BK - 1) / BK"
    tiles = f"$per = {per}, $tiles = {skipped}$per * {turns}" if turns else f"$tiles = {skipped}{per}"
    return f"""\
    const int {row0} = blockIdx.y * BM, $col0 = blockIdx.x * BN, $lane = threadIdx.x % 32;
    const int $warp_row = threadIdx.x / 32 / $warps_n * WM, $warp_col = threadIdx.x / 32 % $warps_n * WN;
    const int {tiles};

"""


def multiplied(left_is_inner: bool, right_is_inner: bool, kind: MmaKind) -> str:
    """The loop over the tiles: the sums of a warp in registers."""
    fragments = _fragments("m", left_is_inner, kind) + _fragments("n", right_is_inner, kind)
    instructions, parts = _instruction(kind, "$x[$i]", "$y[$j / 2]", "$sum[$i][$j]"), ""
    if kind.is_split:
        parts = _parts()
        instructions = "".join(
            _instruction(kind, f"${left}[$i]", f"${right}[$j / 2]", "$part")
            for left, right in (("x_low", "y_top"), ("x_top", "y_low"), ("x", "y"))
        )
        instructions = f"""\
                {{
                    // Tensor cores cut off what lies below the last bit of a sum, so long sums are kept outside.
                    float $part[4] = {{}};
{instructions}                    #pragma unroll
                    for (int $e = 0; $e < 4; ++$e) $sum[$i][$j][$e] += $part[$e];
                }}
"""
    last, other = f"BK - {kind.depth}", f"($k / {kind.depth} + 1) % 2"
    return f"""\
    {kind.sums} $sum[WM / 16][WN / 8][4] = {{}};
    unsigned $xs[2][WM / 16][4], $ys[2][WN / 16][4];
    auto $take = [&](int $from, int $k, unsigned (&$x)[WM / 16][4], unsigned (&$y)[WN / 16][4]) {{
{fragments}    }};
    #pragma unroll 1
    for (int $t = 0; $t < STAGES - 1; ++$t) $load($t, $t * $stage);
    asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
    __syncthreads();
    $take(0, 0, $xs[0], $ys[0]);
    int $reading = 0, $filling = (STAGES - 1) * $stage;
    for (int $t = 0; $t < $tiles; ++$t) {{
        #pragma unroll
        for (int $k = 0; $k < BK; $k += {kind.depth}) {{
            if ($k == {last}) {{
                // All have read the last of this tile, and the next one is there.
                asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
                __syncthreads();
                $reading = $reading == (STAGES - 1) * $stage ? 0 : $reading + $stage;
            }}
            // The next fragments are on their way while these are multiplied.
            $take($reading, ($k + {kind.depth}) % BK, $xs[{other}], $ys[{other}]);
            if ($k == 0) {{
                $load($t + STAGES - 1, $filling);
                $filling = $filling == (STAGES - 1) * $stage ? 0 : $filling + $stage;
            }}
            auto& $x = $xs[$k / {kind.depth} % 2];
            auto& $y = $ys[$k / {kind.depth} % 2];
{parts}            #pragma unroll
            for (int $i = 0; $i < WM / 16; ++$i) {{
                #pragma unroll
                for (int $j = 0; $j < WN / 8; ++$j)
{instructions}            }}
        }}
    }}
    asm volatile("cp.async.wait_group 0;" ::: "memory");
"""


def _instruction(kind: MmaKind, x: str, y: str, sums: str) -> str:
    kept, held = ("s32", "+r") if kind.sums == "int" else ("f32", "+f")
    said = f"m16n8k{kind.depth}.row.col.{kept}.{kind.name}.{kind.name}.{kept}"
    return f"""\
                    asm volatile("mma.sync.aligned.{said} {{%0, %1, %2, %3}}, "
                                 "{{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
                                 : "{held}"({sums}[0]), "{held}"({sums}[1]), "{held}"({sums}[2]), "{held}"({sums}[3])
                                 : "r"({x}[0]), "r"({x}[1]), "r"({x}[2]), "r"({x}[3]),
                                   "r"({y}[$j % 2 * 2]), "r"({y}[$j % 2 * 2 + 1]));
"""


def _parts() -> str:
    """A float as a tf32 number, what is left of it, and the number once more for products with what is left: infinities
    count once, since infinity times a rest of 0 is no number.
    """
    said = """\
            auto $split = [](unsigned& $high, unsigned& $low, unsigned& $top) {
                const float $whole = __uint_as_float($high);
                asm("cvt.rna.tf32.f32 %0, %1;" : "=r"($high) : "f"($whole));
                const float $rest = $whole - __uint_as_float($high);
                const bool $is_finite = $rest == $rest;
                asm("cvt.rna.tf32.f32 %0, %1;" : "=r"($low) : "f"($is_finite ? $rest : 0.0f));
                $top = $is_finite ? $high : 0u;
            };
            unsigned $x_low[WM / 16][4], $y_low[WN / 16][4], $x_top[WM / 16][4], $y_top[WN / 16][4];
"""
    for name, size in (("$x", "WM"), ("$y", "WN")):
        said += f"""\
            #pragma unroll
            for (int $i = 0; $i < {size} / 16; ++$i) {{
                #pragma unroll
                for (int $e = 0; $e < 4; ++$e) $split({name}[$i][$e], {name}_low[$i][$e], {name}_top[$i][$e]);
            }}
"""
    return said
