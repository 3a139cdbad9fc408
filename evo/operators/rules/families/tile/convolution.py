"""A convolution of 16-bit floats or bytes as a matrix product on tensor cores: a row for each pixel, a column for each
filter.

The matrix of windows is never stored: its elements come from the image, zeros for the border; by cp.async if channels
are its last dimension, else one by one, neighbouring threads those of neighbouring pixels.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from evo.analysis.access import Contraction, LaunchAnalysis, Origin, Symbol, Term
from evo.analysis.access.renaming import in_indices
from evo.cuda.source import Function
from evo.operators.rules.families.tile.mma_copies import copy, fetch, load
from evo.operators.rules.families.tile.mma_pieces import (
    KINDS,
    MmaKind,
    TensorCoreBody,
    declared,
    multiplied,
    places,
    tensor_core_applications,
)
from evo.operators.rules.families.tile.mma_stores import pairs_of, results
from evo.operators.rules.families.tile.product_layout import Shaped, tensors_of
from evo.operators.rules.families.tile.tensor_cores import has_kind
from evo.operators.rules.lifting import NotPrinted, Printer, accumulator, converted, in_c, names_of, stored
from evo.operators.rules.rewriting import bracketed
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.spelling import counts_all, is_border, own_conditions, spelled, stores_all
from evo.spec.python_syntax import expression_of


@dataclass(frozen=True, slots=True)
class _Convolution:
    """out[pixel and filter] = f(sum over taps and channels of image[window, channel] * filters), any layout of image
    and output; the filters come first or last.
    """

    ctx: RuleContext
    analysis: LaunchAnalysis
    function: Function
    made: Contraction
    image: Origin
    filters: Origin
    taps: tuple[Symbol, ...]  # the summed loops, as the filters' dimensions are ordered
    is_inner: bool  # taps and channels are the filters' last dimensions
    pixels: tuple[int, ...]  # dimensions of the output
    column: int
    output: Shaped
    names: dict[str, str]

    @property
    def is_deep(self) -> bool:
        """Whether the elements of a window's last summed loop lie next to each other."""
        return self.image.subscripts[-1] == Term.of(self.taps[-1])

    @property
    def kind(self) -> MmaKind:
        return KINDS[self.image.array.element]


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    found = _convolution(ctx, analysis, function)
    if found is not None:
        yield from tensor_core_applications(ctx, analysis, function, functools.partial(_written, found))


def _convolution(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> _Convolution | None:
    form = analysis.form
    if len(analysis.contractions) != 1 or form.multiplies:
        return None
    (made,) = analysis.contractions
    if (
        made.kind != "convolution"
        or made.left is None
        or made.output is None
        or made.output.array is None
        or made.scale
    ):
        return None
    sides = {"m": (made.left, made.roles["left"]), "n": (made.right, made.roles["right"])}
    window = next((letter for letter, (_, roles) in sides.items() if "w" in roles), "")
    other = "n" if window == "m" else "m"
    (image, image_roles), (filters, filter_roles) = sides[window], sides[other]
    output = tensors_of(ctx).get(made.output.array.name)
    writes = [a for a in form.accesses if a.is_write and a.is_global]
    if (
        output is None
        or len(writes) != 1
        or not stores_all(made.output)
        or accumulator(made.output.array.element) is None
    ):
        return None
    if image.array.element != filters.array.element or not has_kind(ctx, image.array.element):
        return None
    core = made.roles.get("output", "")
    if core.count(other) != 1 or set(core) != {window, other} or set(image_roles) - set(window + "wk"):
        return None
    if filter_roles.strip("k") != other or not (filter_roles.startswith(other) or filter_roles.endswith(other)):
        return None
    taps = _taps(made, analysis, filters, filter_roles)
    if taps is None or not _is_whole(analysis, made, image, filters):
        return None
    pixels = tuple(d for d, letter in enumerate(core) if letter == window)
    return _Convolution(
        ctx, analysis, function, made, image, filters, taps, filter_roles.startswith(other), pixels, core.index(other),
        output, names_of(ctx, function),
    )  # fmt: skip


def _taps(made: Contraction, analysis: LaunchAnalysis, filters: Origin, roles: str) -> tuple[Symbol, ...] | None:
    """The summed loops by the filters' dimensions, if each runs over a whole one."""
    found: list[Symbol] = []
    for letter, at, extent in zip(roles, filters.subscripts, filters.array.shape, strict=True):
        if letter != "k":
            continue
        atom = at.atom
        if not isinstance(atom, Symbol) or not counts_all(analysis.form, atom, extent):
            return None
        found.append(atom)
    return tuple(found) if sorted(s.key for s in found) == sorted(s.key for s in made.summed) else None


def _is_whole(analysis: LaunchAnalysis, made: Contraction, image: Origin, filters: Origin) -> bool:
    """Whether nothing is left out of the sum but what lies outside of the image."""
    form = analysis.form
    if len(image.way) != 1 or len(filters.way) != 1:
        return False
    values, weights = (form.accesses[side.way[0]] for side in (image, filters))
    left_out = (*own_conditions(form, values, made.store), *own_conditions(form, weights, made.store))
    return all(is_border(condition, values) for condition in left_out)


def _written(found: _Convolution) -> TensorCoreBody:
    """Raises NotPrinted."""
    output, kind, is_deep = found.made.store, found.kind, found.is_deep
    sums = {carried.name: "$sum[$i][$j][$e]" for r in found.analysis.reductions for carried in r.carried}
    at = ["$col"] * len(output.subscripts)
    for d, place in enumerate(found.pixels):
        at[place] = bracketed(_part_of_row(d, len(found.pixels)))
    say = Printer(found.analysis, found.names, dict(zip(output.subscripts, at, strict=True)), sums)
    dims = found.output.shape
    n, k = say.extent(dims[found.column]), "$depth"
    value = stored(output.memory.element, say.expression(output.value))
    is_by_rows = found.column == len(dims) - 1
    spot = f"(long long)$row * {n} + $col" if is_by_rows else say.offset(found.output, at)
    pairs = pairs_of(found.ctx, found.function, found.names[found.output.name], n) if is_by_rows else None
    windows = _fetched_windows(_axes_of(found)[-1], kind) if is_deep else _gathered(kind)
    body = (
        "{\n"
        + declared(is_deep, found.is_inner, kind=kind)
        + _sizes(found)
        + places(k)
        + _windows(found)
        + copy(kind)
        + load([fetch("n", found.is_inner, "$col0", n, k, kind)], k, others=windows)
        + multiplied(is_deep, found.is_inner, kind)
        + (_anew_if() if _has_anew(found) else "")
        + results("$pixels", n, f"{found.names[found.output.name]}[{spot}]", value, pairs)
        + (_anew(found, n, f"{found.names[found.output.name]}[{spot}]", value) if _has_anew(found) else "")
        + "}"
    )
    return TensorCoreBody(
        body=body, rows=" * ".join(bracketed(dims[place].text) for place in found.pixels),
        columns=bracketed(dims[found.column].text), planes="", left_is_inner=is_deep, right_is_inner=found.is_inner,
        names=found.names, extra={}, kind=kind, requires="" if is_deep else "{BN} // {WN} * 32 % {WM} == 0",
    )  # fmt: skip


def _has_anew(found: _Convolution) -> bool:
    """Whether infinite filters mean something, which zeros of a border would make NaN."""
    filters = next((t for t in found.analysis.task.tensors if t.name == found.filters.array.name), None)
    is_known = filters is not None and filters.specials is not None and not filters.specials.not_finite
    return found.kind.sums == "float" and not is_known


def _anew_if() -> str:
    return """\
    bool $is_number = true;
    #pragma unroll
    for (int $i = 0; $i < WM / 16; ++$i) {
        #pragma unroll
        for (int $j = 0; $j < WN / 8 * 4; ++$j) $is_number &= $sum[$i][$j / 4][$j % 4] == $sum[$i][$j / 4][$j % 4];
    }
"""


def _anew(found: _Convolution, n: str, target: str, value: str) -> str:
    """The loops that sum a thread's results again, one by one, without the border."""
    left, right = (
        converted(side.array.element, f"{found.names[side.array.name]}[{at}]")
        for side, at in (
            (found.image, "$from"),
            (found.filters, "(long long)$col * $depth + $at" if found.is_inner else f"(long long)$at * {n} + $col"),
        )
    )
    return f"""\
    // An infinite filter times a zero of the border is NaN, so such sums are taken again without it.
    for (int $e = 0; !$is_number && $e < WM * WN / 32; ++$e) {{
        const int $row = $row0 + $warp_row + $e / (WN / 4) * 8 + $lane / 4;
        const int $col = $col0 + $warp_col + $e % (WN / 4) / 2 * 8 + $lane % 4 * 2 + $e % 2;
        if ($row >= $pixels || $col >= {n}) continue;
        float $total = 0.0f;
        $begin(0, $row);
        for (int $at = 0; $at < $depth; ++$at) {{
            const long long $from = $place(0, $at);
            if ($from >= 0) $total += {left} * {right};
        }}
        {target} = {value.replace("$sum[$i][$j][$e]", "$total")};
    }}
"""


def _sizes(found: _Convolution) -> str:
    """Where the factors begin, how many pixels there are, and how long the sum is."""
    dims = [found.output.shape[place] for place in found.pixels]
    extents = [in_c(expression_of(dim.text), found.names) for dim in dims]
    extents = [text[1:-1] if text.startswith("(") else text for text in extents]
    said = "".join(f"    const int $size{d} = {text};\n" for d, text in enumerate(extents) if d > 0)
    pixels = " * ".join([bracketed(extents[0]), *(f"$size{d}" for d in range(1, len(extents)))])
    depth = " * ".join(_axes_of(found))
    left, right = (found.names[side.array.name] for side in (found.image, found.filters))
    kept = found.kind.storage
    return (
        f"    const {kept}* const $left = reinterpret_cast<const {kept}*>({left});\n"
        f"    const {kept}* const $right = reinterpret_cast<const {kept}*>({right});\n"
        f"{said}    const int $pixels = {pixels}, $depth = {depth};\n"
    )


def _axes_of(found: _Convolution) -> list[str]:
    """The sizes of the summed loops in the kernel's names."""
    return [spelled(found.analysis.form.loops[tap].trip or Term({}), _axis_names(found)) for tap in found.taps]


def _axis_names(found: _Convolution) -> dict[Symbol, str]:
    return {Symbol(name, "axis"): said for name, said in found.names.items()}


def _windows(found: _Convolution) -> str:
    """Where the windows of the pixels begin of which a thread copies a part, and where an element of one lies."""
    output = found.made.store
    count, chunk = len(found.pixels), found.kind.chunk
    new = [Symbol(f"$at{d}", "value", d + 1) for d in range(count)]
    old = [output.subscripts[place] for place in found.pixels]
    at = [in_indices(term, old, new) for term in found.image.subscripts]
    taps = frozenset(found.taps)
    names = _axis_names(found) | {symbol: f"$at{d}" for d, symbol in enumerate(new)}
    tap_names = names | {tap: f"$tap{d}" for d, tap in enumerate(found.taps)}
    fixed = [d for d, term in enumerate(at) if term.symbols() & frozenset(new)]
    first = next((d for d in fixed if at[d].symbols() & taps), None)
    if first is None:
        raise NotPrinted("no window")
    arrays = ", ".join(f"$from{d}[$parts]" for d in fixed)
    pixel = [_part_of_row(d, count) for d in range(count)]
    used = [d for d in range(count) if any(new[d] in term.symbols() for term in at)]
    lines = "".join(f"        const int $at{d} = {pixel[d]};\n" for d in used)
    for d in fixed:
        begin = spelled(at[d].without(taps), names)
        lines += f"        $from{d}[$i] = {f'$row < $pixels ? {begin} : -0x40000000' if d == first else begin};\n"
    extents = [spelled(size, _axis_names(found)) for size in found.image.array.shape]
    said, inside, offset = "", ["$at < $depth"], ""
    for d, term in enumerate(at):
        over = term - term.without(taps)
        index = spelled(term, tap_names) if d not in fixed else f"$from{d}[$i]"
        if d in fixed and over.parts:
            index += f" + {spelled(over, tap_names)}"
        if term.symbols() & taps and d in fixed:
            said += f"        const int $index{d} = {index};\n"
            index = f"$index{d}"
            inside.append(f"{index} >= 0 && {index} < {extents[d]}")
        offset = f"(long long){index}" if not offset else f"({offset}) * {extents[d]} + {index}"
    if found.is_deep:
        words = f"""\
    // A thread copies the same {chunk} columns of every row of the matrix of windows that it has a part in.
    constexpr int $parts = (BM * BK / {chunk} + $threads - 1) / $threads;
"""
        row = f"(threadIdx.x + $i * $threads) / (BK / {chunk})"
    else:
        words = """\
    // A thread copies elements of one row of the matrix of windows.
    constexpr int $parts = 1;
"""
        row = "threadIdx.x % BM"
    return f"""\
{words}    int {arrays};
    auto $begin = [&](int $i, int $row) {{
{lines}    }};
    #pragma unroll
    for (int $i = 0; $i < $parts; ++$i) $begin($i, $row0 + {row});
    // The place of an element of a window in the image, -1 for zeros.
    auto $place = [&](int $i, int $at) -> long long {{
        const int {_taps_of(found)};
{said}        const bool $is_inside = {" && ".join(inside)};
        return $is_inside ? {offset} : -1;
    }};
"""


def _part_of_row(d: int, count: int) -> str:
    """A dimension of the output out of the number of the pixel."""
    behind = " * ".join(f"$size{place}" for place in range(d + 1, count))
    said = f"$row / ({behind})" if " " in behind else f"$row / {behind}" if behind else "$row"
    return f"{said} % $size{d}" if d else said


def _taps_of(found: _Convolution) -> str:
    """The summed loops out of the number of an element of the window."""
    sizes, said = _axes_of(found), []
    for d in range(len(sizes)):
        behind = " * ".join(sizes[d + 1 :])
        text = f"$at / ({behind})" if " " in behind else f"$at / {behind}" if behind else "$at"
        said.append(f"$tap{d} = {text}" + (f" % {sizes[d]}" if d else ""))
    return ", ".join(said)


def _fetched_windows(channels: str, kind: MmaKind) -> str:
    """The loop that starts the copies of a tile of windows."""
    chunk, kept = kind.chunk, kind.storage
    return f"""\
        #pragma unroll
        for (int $i = 0; $i < $parts; ++$i) {{
            const int $e = threadIdx.x + $i * $threads, $col = $e % (BK / {chunk}) * {chunk};
            if ($e >= BM * BK / {chunk}) break;
            {kept}* const $part = $ring + $to + $e / (BK / {chunk}) * (BK + {kind.pad(True)}) + $col;
            if ({channels} % {chunk} == 0) {{
                const long long $at = $place($i, $k0 + $col);
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                             :: "r"((unsigned)__cvta_generic_to_shared($part)), "l"($left + max($at, 0LL)),
                                "r"($at >= 0 ? 16 : 0) : "memory");
            }} else {{
                __align__(16) {kept} $held[{chunk}];
                #pragma unroll
                for (int $j = 0; $j < {chunk}; ++$j) {{
                    const long long $at = $place($i, $k0 + $col + $j);
                    $held[$j] = $at >= 0 ? $left[$at] : ({kept})0;
                }}
                *reinterpret_cast<uint4*>($part) = *reinterpret_cast<const uint4*>($held);
            }}
        }}
"""


def _gathered(kind: MmaKind) -> str:
    """The loops that load a tile of windows, an element at a time, and store it by depths."""
    return f"""\
        {kind.storage} $held[BM * BK / $threads];
        #pragma unroll
        for (int $e = 0; $e < BM * BK / $threads; ++$e) {{
            const long long $at = $place(0, $k0 + ($e * $threads + (int)threadIdx.x) / BM);
            $held[$e] = $at >= 0 ? $left[$at] : ({kind.storage})0;
        }}
        #pragma unroll
        for (int $e = 0; $e < BM * BK / $threads; ++$e)
            $ring[$to + ($e * $threads + threadIdx.x) / BM * (BM + {kind.pad(False)}) + threadIdx.x % BM] = $held[$e];
"""


RULES = (
    Rule(
        name="convolution_mma",
        sentence="Computes a convolution of 16-bit floats or bytes in any layout as a matrix product on tensor cores,"
        " whose matrix of windows is gathered, by cp.async if channels come last, and never stored.",
        find=by_launch(_find, once=True),
        reason="two loads and two conversions feed one multiply-add, though filters and windows form a matrix product",
        expected="the product is bound by shared memory or tensor cores instead of by multiply-adds and loads",
        risk="few channels or filters leave a part of each tile empty; sums are added in another order",
        next_if_kept="the knobs of the tiles: shape of block and warp, depth and stages",
        next_if_reverted="another shape of tiles",
    ),
)
