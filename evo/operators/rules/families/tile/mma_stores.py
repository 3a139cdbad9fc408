"""How a warp's sums are stored: one by one, or two neighbouring columns at once."""

from __future__ import annotations

from evo.cuda.source import Function
from evo.operators.rules.element import BYTES
from evo.operators.rules.lifting import type_of_elements
from evo.operators.rules.rewriting import bracketed
from evo.operators.rules.rule_context import RuleContext

_PAIRS = {1: "unsigned short", 2: "unsigned", 4: "uint2", 8: "uint4"}  # of two elements, by the bytes of one


def pairs_of(ctx: RuleContext, function: Function, pointer: str, width: str) -> tuple[str, int, str] | None:
    """Type and bytes of what a parameter points to, if two can be moved as one. width: the length of its lines."""
    kind = type_of_elements(ctx, function, pointer)
    return (kind, BYTES[kind], width) if BYTES.get(kind) in _PAIRS else None


def results(m: str, n: str, target: str, value: str, pairs: tuple[str, int, str] | None = None, store: str = "") -> str:
    """The loop over a warp's sums that stores them. pairs: type and bytes of the output's elements and the
    length of its lines, if neighbouring columns lie next to each other; store: a statement, if it is no plain one.
    """
    if pairs is not None and not store:
        return _paired(m, n, target, value, *pairs)
    return f"""\
    #pragma unroll
    for (int $i = 0; $i < WM / 16; ++$i) {{
        #pragma unroll
        for (int $j = 0; $j < WN / 8; ++$j) {{
            #pragma unroll
            for (int $e = 0; $e < 4; ++$e) {{
                const int $row = $row0 + $warp_row + $i * 16 + $e / 2 * 8 + $lane / 4;
                const int $col = $col0 + $warp_col + $j * 8 + $lane % 4 * 2 + $e % 2;
                {store or f"if ($row < {m} && $col < {n}) {target} = {value};"}
            }}
        }}
    }}
"""


def _paired(m: str, n: str, target: str, value: str, kind: str, size: int, width: str) -> str:
    return f"""\
    #pragma unroll
    for (int $i = 0; $i < WM / 16; ++$i) {{
        #pragma unroll
        for (int $j = 0; $j < WN / 8 * 2; ++$j) {{
            const int $row = $row0 + $warp_row + $i * 16 + $j % 2 * 8 + $lane / 4;
            const int $first = $col0 + $warp_col + $j / 2 * 8 + $lane % 4 * 2;
            if ($row >= {m} || $first >= {n}) continue;
            __align__({2 * size}) {kind} $held[2];
            #pragma unroll
            for (int $e = 0; $e < 2; ++$e) {{
                const int $col = $first + $e;
                if ($col < {n}) $held[$e] = {value.replace("[$j][$e]", "[$j / 2][$j % 2 * 2 + $e]")};
            }}
            {kind}* const $spot = &{target.replace("$col", "$first")};
            if ({bracketed(width)} % 2 == 0) {{
                *reinterpret_cast<{_PAIRS[size]}*>($spot) = *reinterpret_cast<const {_PAIRS[size]}*>($held);
            }} else {{
                $spot[0] = $held[0];
                if ($first + 1 < {n}) $spot[1] = $held[1];
            }}
        }}
    }}
"""
