"""A matrix product in any order and layout becomes tiles: staged in shared memory, blocked in registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial

from evo.analysis.access import Access, Contraction, Data, LaunchAnalysis, Loop, number_of
from evo.analysis.access.data_values import is_number, parts_of, plain
from evo.cuda.source import Edit, Function
from evo.operators.rules.directives import relaunched, require, shape_knobs, without_bounds
from evo.operators.rules.families.tile.computed_factors import ComputedFactors, numbered
from evo.operators.rules.families.tile.masked_results import Mask, is_once_each, mask_of
from evo.operators.rules.families.tile.product_layout import (
    FEW,
    Factor,
    ProductLayout,
    Shaped,
    blocks_of,
    layout_of,
    suited,
    swapped,
    tensors_of,
)
from evo.operators.rules.families.tile.side_sums import SideSum, declared_sides, side_steps, sides_of, summed
from evo.operators.rules.lifting import (
    NotPrinted,
    Printer,
    accumulator,
    converted,
    named,
    names_of,
    stored,
    taken,
    with_quotients,
)
from evo.operators.rules.rewriting import bracketed, fresh, merged
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext

# Tiles of a block (rows, columns, depth) and of a thread (rows, columns); the first that fills the chip comes first.
_SHAPES = ((64, 64, 16, 4, 4), (128, 128, 8, 8, 8), (32, 32, 16, 2, 2), (128, 64, 8, 8, 4), (64, 32, 16, 4, 2))
_DOMAINS = {"BM": (32, 64, 128), "BN": (32, 64, 128), "BK": (8, 16, 32), "TM": (2, 4, 8), "TN": (2, 4, 8)}
_ROOM = 48 * 1024  # bytes of shared memory that a kernel has without asking for more


@dataclass(frozen=True, slots=True)
class Product:
    """out[b, m, n] = f(sum over k of left[b, m, k] * right[b, k, n]), in any layout; or the sum or extremum of what
    else is computed of the two.

    sides: other sums over k that f knows. mask: which elements are something else.
    """

    ctx: RuleContext
    analysis: LaunchAnalysis
    function: Function
    made: Contraction
    layout: ProductLayout
    output: Shaped
    names: dict[str, str]
    sides: tuple[SideSum, ...] = ()
    mask: Mask | None = None

    @property
    def position(self) -> int:
        """Of its launch line."""
        return self.analysis.form.position

    @property
    def is_sum(self) -> bool:
        return self.made.combine == "sum"


@dataclass(frozen=True, slots=True)
class Tiling:
    """What a body of tiles is written with. store: of `$sum[$i][$j]` into the output at `$row`, `$col`."""

    say: Printer
    layout: ProductLayout
    store: str

    def stores(self, column: str) -> str:
        """The loops at the end of a body that write a thread's results. column: of its `$j`th, from `$tx` on."""
        return f"""\
    #pragma unroll
    for (int $i = 0; $i < TM; ++$i) {{
        #pragma unroll
        for (int $j = 0; $j < TN; ++$j) {{
            const int $row = $row0 + $ty + $i, $col = $col0 + $tx + {column};
            {self.store}
        }}
    }}
"""


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    found = product_of(ctx, analysis, function, combine=("sum", "max", "min"), of_several=True)
    if found is None:
        return
    case, sms = analysis.case.axes, analysis.chip.sms
    shapes = sorted((*_SHAPES, *FEW), key=lambda each: -min(blocks_of(found.output, case, each), sms))
    for rank, shape in enumerate(suited(found.layout, case, shapes)):
        block, thread = "x".join(map(str, shape[:3])), "x".join(map(str, shape[3:]))
        yield Application(
            edits=tuple(_edits(found, shape)),
            summary=f"{function.name}: a tile of {block} for each block, {thread} results for each thread",
            arguments={"kernel": function.name, "launch": found.position, "block": block, "thread": thread},
            rank=rank,
            is_schedule=True,
        )


def product_of(
    ctx: RuleContext,
    analysis: LaunchAnalysis,
    function: Function,
    *,
    combine: Collection[str] = ("sum",),
    of_several: bool = False,
) -> Product | None:
    """combine: by what pairs may be combined; of_several: whether more than two elements may be summed together.

    Raises NotPrinted for a layout that tiles are not made for.
    """
    form = analysis.form
    products = [made for made in analysis.contractions if made.kind in ("matmul", "pairs")]
    if len(products) != 1 or form.multiplies or products[0].combine not in combine:
        return None
    if products[0].beside and not of_several:
        return None
    made = swapped(products[0])
    if made.left is None or made.output is None or made.output.array is None:
        return None
    if any(a.is_write and a.is_global and a.array != made.output.array
           for a in form.accesses):  # fmt: skip
        return None
    output = tensors_of(ctx).get(made.output.array.name)
    factors = () if made.beside else (made.left.array.element, made.right.array.element)
    if output is None or any(accumulator(element) is None for element in (*factors, made.output.array.element)):
        return None
    names = names_of(ctx, function)
    layout = layout_of(ctx, analysis, made, names)
    if layout.is_told:
        if not of_several or made.combine != "sum":
            return None
        made = replace(made, kind="pairs", scale=())  # the numbers are among what is summed
    if not (layout.is_told or _is_whole(analysis, made)) or not _is_stored(made.store, output):
        return None
    sides = sides_of(analysis, made)
    if sides is None or (sides and made.combine != "sum"):
        return None
    mask = mask_of(analysis, made)
    return Product(ctx, analysis, function, made, layout, output, names, sides, mask)


def _is_stored(store: Access, output: Shaped) -> bool:
    """Whether the sum is stored, or added to an output that begins as zero."""
    return store.mode == "write" or (store.operation == "add" and output.init == "zero")


def _is_whole(analysis: LaunchAnalysis, made: Contraction) -> bool:
    """Whether both factors are read at the same places of the sum, and the sum goes over all places."""
    assert made.left is not None
    (places, *_), (others, *_) = (
        [[term for letter, term in zip(made.roles[name], side.subscripts, strict=True) if letter == "k"]]
        for name, side in (("left", made.left), ("right", made.right))
    )
    if not places or set(places) != set(others):
        return False
    extents = dict(zip(made.left.subscripts, made.left.array.shape, strict=True))
    if made.store.mode == "atomic":
        # Blocks that share a sum multiply every pair once.
        return is_once_each(analysis, made.left.way[0], (*made.store.memory.shape, *(extents[at] for at in places)))
    for term in places:
        inside = [symbol for symbol in made.summed if symbol in term.symbols()]
        turns = [analysis.turns(analysis.form.loops[symbol]) for symbol in inside]
        if any(term.coefficient(s) is None or _ends_by_place(analysis.form.loops[s]) for s in inside):
            return False
        extent, known = number_of(extents[term], analysis.sizes.values), [turn for turn in turns if turn is not None]
        if extent is None or len(known) < len(turns):
            continue  # not known at this case; the gate tells
        taken = math.prod(known) * (made.unrolled if made.summed[-1] in inside else 1)
        if taken != extent and (len(known) == 1 or taken < extent):
            return False
    return True


def _ends_by_place(loop: Loop) -> bool:  # where a thread is decides how long its sum is, without a number
    return loop.trip is None and any(symbol.kind in ("block", "thread") for symbol in loop.condition.symbols())


def printer_of(found: Product, sum_element: str) -> Printer:
    """What spells the values of the epilogue. sum_element: how the new body spells the sum of `$row` and `$col`."""
    own = Printer(found.analysis, found.names, {}, {})
    sum_element = " * ".join([*(own.value(factor) for factor in found.made.scale), sum_element])
    sum_element = f"({sum_element})" if found.made.scale else sum_element
    sums = {carried.name: sum_element for r in found.analysis.reductions for carried in r.carried}
    sums |= {side.name: side.spelled(number) for number, side in enumerate(found.sides)}
    begun = frozenset[str]() if found.is_sum else frozenset(sums)  # an extremum is begun with its first value
    reads = dict.fromkeys(_accumulator_reads(found), sum_element)
    return Printer(found.analysis, found.names, found.layout.places, sums, reads, begun)


def _accumulator_reads(found: Product) -> set[int]:
    """The access that gets the sum from a thread's array of them, all of which begin as zero."""
    form = found.analysis.form
    of_product = [r for r in found.analysis.reductions if r.place == "local" and r.operand is found.made.operand]
    updates = {number for r in of_product for number in r.accesses}
    arrays = {form.accesses[number].memory for number in updates}
    if any(
        access.is_write and access.number not in updates and not is_number(plain(access.value), 0)
        for array in arrays
        for access in form.of(array)
    ):
        return set()
    reads = {part.detail for part in parts_of(found.made.store.value) if part.op == "read"}
    ours = {number for number in reads if isinstance(number, int) and form.accesses[number].memory in arrays}
    return ours if len(ours) == 1 else set()


def result_of(found: Product, say: Printer) -> str:
    """What an element of the output is. Raises NotPrinted."""
    store = found.made.store
    return stored(
        store.memory.element, found.mask.result(say) if found.mask is not None else say.expression(store.value)
    )


def store_of(found: Product, say: Printer) -> str:
    """The statement that stores the result of `$row` and `$col`, if there is one. Raises NotPrinted."""
    layout, mask = found.layout, found.mask
    test = f"$row < {layout.m} && $col < {layout.n}"
    if mask is not None and mask.mirrors:
        kept, stores = mask.stores(say, found.output, layout.at)
        return f"if ({test} && {kept}) {stores}"
    return f"if ({test}) {say.element(found.output, list(layout.at))} = {result_of(found, say)};"


def skipped_tile(found: Product, say: Printer) -> str:
    """`test ? 0 : ` in front of how many steps a tile takes, if some have no product to store. Raises NotPrinted."""
    test = found.mask.whole_tile(say) if found.mask is not None else ""
    return f"{test} ? 0 : " if test else ""


def _edits(found: Product, shape: tuple[int, ...]) -> list[Edit]:
    kinds = {accumulator(each.element) for each in (found.layout.left, found.layout.right)}
    kinds |= {accumulator(each.array.element) for each in found.made.beside}
    kinds -= {None} if found.layout.is_told else set()  # words of bits are no numbers
    kinds -= {"int"} if "float" in kinds else set()  # bytes times floats are floats
    kind = kinds.pop() or ""
    if kinds or not kind or (kind == "double" and not found.is_sum):
        raise NotPrinted("factors of two kinds, or extrema of doubles")
    width = 8 if kind == "double" else 4
    operand = plain(found.made.operand)
    is_of_factors = found.is_sum and found.made.kind == "pairs" and operand is not None and operand.op == "mul"
    computed = ComputedFactors.of(found.analysis, found.made) if found.layout.is_told or is_of_factors else None
    counts = (1, 1) if computed is None else (len(computed.rows), len(computed.columns))
    if sum((size + 4) * count for size, count in zip(shape, counts, strict=False)) * shape[2] * width > _ROOM:
        raise NotPrinted("too large a tile")
    body = partial(_body, found, kind=kind, computed=computed)
    return tiled_edits(found, shape, body, requires="BM % TM == 0 and BN % TN == 0")


def tiled_edits(found: Product, shape: tuple[int, ...], body: Callable[[Tiling], str], *, requires: str) -> list[Edit]:
    """A launch of BM x BN results for each block, TM x TN of them in a thread's registers `$sum`, with knobs for both.

    shape: values of BM, BN, BK, TM and TN. requires: a condition on them. Raises NotPrinted.
    """
    ctx, layout = found.ctx, found.layout
    say = printer_of(found, "$sum[$i][$j]")
    knobs = {word: fresh(ctx, word) for word in _DOMAINS}
    domains = {word: tuple(sorted({size, *known})) for (word, known), size in zip(_DOMAINS.items(), shape, strict=True)}
    text = named(body(Tiling(say, layout, store_of(found, say))), taken(ctx, found.names), knobs)
    text = with_quotients(text, found.names)
    line = ctx.variant.launches[found.position]
    grid = f"ceil_div({layout.columns}, {knobs['BN']}), ceil_div({layout.rows}, {knobs['BM']})"
    if layout.planes:
        grid += f", {layout.planes}"
    threads = f"{knobs['BM']} // {knobs['TM']} * ({knobs['BN']} // {knobs['TN']})"
    edits = [relaunched(ctx, line, grid=grid, block=threads, shared="0"), Edit(found.function.body, text)]
    edits += shape_knobs(ctx, knobs, domains, shape)
    edits += require(ctx, named(requires, (), knobs))
    return merged([*edits, *without_bounds(found.function)])


def factors_of(found: Product, kind: str = "") -> str:
    """The declarations of `$left` and `$right`, where a plane's factors begin. kind: what elements are taken for."""
    said = found.layout.declared
    for word, side in (("$left", found.layout.left), ("$right", found.layout.right)):
        name = found.names[side.tensor.name]
        held = f"const {kind}* const" if kind else "const auto* const"
        value = f"reinterpret_cast<const {kind}*>({name})" if kind else name
        said += f"    {held} {word} = {value}{f' + {side.base}' if side.base else ''};\n"
    return said


def _fill(side: Factor, own: str, size: str, first: str, extent: str, k: str, *, is_sum: bool) -> str:
    """The loop that copies a tile of a factor, lanes along its contiguous dimension, zero outside of the matrix.

    An extremum may meet a pair again: there the last place of k stands for those behind it.
    """
    word, source = ("$a_tile", "$left") if own == "$m" else ("$b_tile", "$right")
    depth = "$k0 + $k" if is_sum else f"min($k0 + $k, {k} - 1)"
    if side.is_inner:
        inner, outer, split = "$k", own, "BK"
        at = f"({first} + {own}) * {bracketed(side.stride)} + {depth}"
    else:
        inner, outer, split = own, "$k", size
        at = f"({depth}) * {bracketed(side.stride)} + {first} + {own}"
    value = converted(side.element, f"{source}[{f'{side.turn} + ' if side.turn else ''}{at}]")
    return f"""\
        for (int $e = threadIdx.x; $e < {size} * BK; $e += $threads) {{
            const int {inner} = $e % {split}, {outer} = $e / {split};
            {word}[$k][{own}] = {first} + {own} < {extent}{f" && $k0 + $k < {k}" if is_sum else ""} ? {value} : 0;
        }}
"""


def term_of(found: Product, say: Printer) -> str:
    """What is summed, of a row's element `$x[$i]` and a column's `$y[$j]`. Raises NotPrinted."""
    if found.made.kind == "matmul":
        return "$x[$i] * $y[$j]"
    return summed(found.analysis, found.made, say, found.made.operand, is_padded=found.is_sum)


def _step(found: Product, say: Printer, kind: str) -> str:
    """How a result takes the next pair in. Raises NotPrinted."""
    if found.is_sum:
        return f"$sum[$i][$j] += {term_of(found, say)}"
    call = f"f{found.made.combine}f" if kind == "float" else found.made.combine
    return f"$sum[$i][$j] = {call}($sum[$i][$j], {term_of(found, say)})"


def _begun(found: Product, say: Printer, kind: str) -> str:
    """The results before the first pair. Raises NotPrinted."""
    if found.is_sum:
        return f"    {kind} $sum[TM][TN] = {{}};\n"
    return f"""\
    {kind} $sum[TM][TN];
    #pragma unroll
    for (int $i = 0; $i < TM * TN; ++$i) $sum[$i / TN][$i % TN] = {_first(found.made.initial, say)};
"""


def _first(initial: Data | None, say: Printer) -> str:
    """A number as the text spells it. Raises NotPrinted."""
    found = plain(initial)
    if found is None or found.op not in ("constant", "index"):
        raise NotPrinted("an extremum that begins with what was computed")
    return say.value(found)


def _body(found: Product, tiling: Tiling, *, kind: str, computed: ComputedFactors | None) -> str:
    layout = tiling.layout
    if computed is None:
        fills = _fill(layout.left, "$m", "BM", "$row0", layout.m, layout.k, is_sum=found.is_sum)
        fills += _fill(layout.right, "$n", "BN", "$col0", layout.n, layout.k, is_sum=found.is_sum)
        begun, step = factors_of(found), _step(found, tiling.say, kind)
    else:
        fills, begun = computed.fills(layout, tiling.say), layout.declared
        step = f"$sum[$i][$j] += {computed.summed(tiling.say)}"
    counts = (1, 1) if computed is None else (len(computed.rows), len(computed.columns))
    rows, columns = (
        list(zip(numbered(tile, n), numbered(word, n), strict=True))
        for tile, word, n in (("$a_tile", "$x", counts[0]), ("$b_tile", "$y", counts[1]))
    )
    own = ", ".join([*(f"{x}[TM]" for _, x in rows), *(f"{y}[TN]" for _, y in columns)])
    loads = [f"for (int $i = 0; $i < TM; ++$i) {x}[$i] = {tile}[$k][$ty + $i];" for tile, x in rows]
    loads += [f"for (int $j = 0; $j < TN; ++$j) {y}[$j] = {tile}[$k][$tx + $j];" for tile, y in columns]
    tiles = [f"{tile}[BK][BM + 4]" for tile, _ in rows] + [f"{tile}[BK][BN + 4]" for tile, _ in columns]
    sums = _begun(found, tiling.say, kind) + declared_sides(found.sides, kind)
    turns = f"    for (int $turn = 0; $turn < {layout.turns}; ++$turn)\n" if layout.turns else ""
    skipped, depth = skipped_tile(found, tiling.say), layout.k
    if skipped:
        sums += f"    const int $depth = {skipped}{depth};  // a tile of masked results needs no products\n"
        depth = "$depth"
    return f"""{{
    // A block computes BM x BN results from tiles of BK columns and rows; a thread TM x TN of them in registers.
    constexpr int $threads = BM / TM * (BN / TN);
{"".join(f"    __shared__ __align__(16) {kind} {tile};" + chr(10) for tile in tiles)}\
    const int $row0 = blockIdx.y * BM, $col0 = blockIdx.x * BN;
{begun}    const int $ty = threadIdx.x / (BN / TN) * TM, $tx = threadIdx.x % (BN / TN) * TN;
{sums}{turns}    for (int $k0 = 0; $k0 < {depth}; $k0 += BK) {{
{fills}        __syncthreads();
        #pragma unroll
        for (int $k = 0; $k < BK; ++$k) {{
            {kind} {own};
{"".join(f"            #pragma unroll{chr(10)}            {load}{chr(10)}" for load in loads)}\
            #pragma unroll
            for (int $i = 0; $i < TM; ++$i) {{
                #pragma unroll
                for (int $j = 0; $j < TN; ++$j) {step};
            }}
{side_steps(found.analysis, found.made, found.sides, tiling.say)}        }}
        __syncthreads();
    }}
{tiling.stores("$j")}}}"""


RULES = (
    Rule(
        name="tile_product",
        sentence="Computes a matrix product by tiles: each block stages a tile of both factors in shared memory,"
        " and each thread keeps several results in registers.",
        find=by_launch(_find),
        reason="two loads feed one multiply-add where each thread computes one result",
        expected="each loaded element is used as often as a thread has rows or columns: the multiply-adds bind",
        risk="small matrices leave blocks idle; sums are added in another order",
        next_if_kept="the knobs of the tiles, then loads ahead of the loop",
        next_if_reverted="another shape of tiles",
    ),
)
