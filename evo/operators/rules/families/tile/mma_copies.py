"""How tiles of factors come into shared memory: by cp.async, 16 bytes of a line at a time, zeros past its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evo.operators.rules.families.tile.mma_pieces import F16, MmaKind
from evo.operators.rules.rewriting import bracketed


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Copies of a factor's tile. begins: where the factor is, and whether its lines are aligned; is_whole: whether 16
    bytes are at each place of all of a tile's lines; fill: the loop.
    """

    begins: str
    is_whole: str
    fill: str


def fetch(
    own: str, is_inner: bool, first: str, extent: str, k: str, kind: MmaKind = F16, *, stride: str = "", turn: str = ""
) -> Fetch:
    """How a factor's tile is copied, 16 bytes of a line at a time.

    own: `m` for the left factor, `n` for the right one; is_inner: k runs along its lines; stride: from one line to the
    next, if it is not a line's length; turn: where the depths of `$turn` begin.
    """
    source, to, size = ("$left", "$to", "BM") if own == "m" else ("$right", "$to + $left_size", "BN")
    begin, is_wide, stride = f"${own}_from", f"${own}_wide", bracketed(stride or (k if is_inner else extent))
    rows, columns, line, at = (size, "BK", first, "$k0") if is_inner else ("BK", size, "$k0", first)
    over, left_over = f"{bracketed(extent)} - {first}", "$rest"
    lines, elements = (over, left_over) if is_inner else (left_over, over)
    pad = kind.pad(is_inner)
    return Fetch(
        begins=f"""\
        const {kind.storage}* const {begin} = {source}{f" + {turn}" if turn else ""};
        const bool {is_wide} = {stride} % {kind.chunk} == 0 && reinterpret_cast<unsigned long long>({begin}) % 16 == 0;
""",
        is_whole=f"{is_wide} && {first} + {size} <= {extent}",
        fill=f"""\
            {{
                constexpr int $many = $threads / ({columns} / {kind.chunk});  // lines that all threads copy at once
                const int $row = threadIdx.x / ({columns} / {kind.chunk});
                const int $col = threadIdx.x % ({columns} / {kind.chunk}) * {kind.chunk};
                const long long $at = (long long)({line} + $row) * {stride} + {at} + $col;
                const int $lines = {lines} - $row, $elements = min({elements} - $col, {kind.chunk});
                #pragma unroll
                for (int $i = 0; $i < {rows}; $i += $many) {{
                    if ({rows} % $many != 0 && $row + $i >= {rows}) break;
                    $copy({to} + ($row + $i) * ({columns} + {pad}) + $col, {begin}, $at + (long long)$i * {stride},
                          $is_whole ? {kind.chunk} : $i < $lines ? $elements : 0, $is_whole || {is_wide});
                }}
            }}
""",
    )


def copy(kind: MmaKind = F16) -> str:
    """What copies 16 bytes."""
    many, kept = {16: "Sixteen", 8: "Eight", 4: "Four"}[kind.chunk], kind.storage
    zero = "0.0f" if kept == "float" else f"({kept})0"
    return f"""\
    // {many} elements of a line, zeros behind the first $count; one by one if lines are not aligned to 16 bytes.
    auto $copy = [&](int $to, const {kept}* $begin, long long $at, int $count, bool $is_wide) {{
        const {kept}* const $from = $begin + ($count > 0 ? $at : 0);
        if ($is_wide) {{
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                         :: "r"($ring_at + {kind.bytes} * $to), "l"($from), "r"({kind.bytes} * max($count, 0))
                         : "memory");
        }} else {{
            __align__(16) {kept} $held[{kind.chunk}];
            #pragma unroll
            for (int $i = 0; $i < {kind.chunk}; ++$i) $held[$i] = $i < $count ? $from[$i] : {zero};
            *reinterpret_cast<uint4*>($ring + $to) = *reinterpret_cast<const uint4*>($held);
        }}
    }};
"""


def load(fetches: Sequence[Fetch], k: str, *, is_turning: bool = False, others: str = "") -> str:
    """What starts the copies of a tile. others: loops that copy the rest of it."""
    turn, depth = ("        const int $turn = $t / $per;\n", "$t % $per * BK") if is_turning else ("", "$t * BK")
    whole = "\n            && ".join(["$rest >= BK", *(each.is_whole for each in fetches)])
    return f"""\
    // Tile $t to a place in the ring, zeros past the last one; what lies inside of the matrices is copied unasked.
    auto $load = [&](int $t, int $to) {{
{turn}        const int $k0 = {depth}, $rest = $t < $tiles ? {k} - $k0 : 0;
{"".join(each.begins for each in fetches)}{others}        auto $fill = [&](bool $is_whole) {{
{"".join(each.fill for each in fetches)}        }};
        if ({whole})
            $fill(true);
        else
            $fill(false);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }};

"""
