"""A matrix product in any order and layout becomes tiles: staged in shared memory, blocked in registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from evo.analysis.access import Contraction, LaunchAnalysis, Term
from evo.cuda.source import Edit, Function
from evo.operators.rules.directives import relaunched, require, shape_knobs, without_bounds
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
)
from evo.operators.rules.rewriting import fresh, merged
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext
from evo.spec.task import Tensor

# Tiles of a block (rows, columns, depth) and of a thread (rows, columns); the first ones are proposed first.
_SHAPES = ((64, 64, 16, 4, 4), (128, 128, 8, 8, 8), (32, 32, 16, 2, 2), (128, 64, 8, 8, 4), (64, 32, 16, 4, 2))
_DOMAINS = {"BM": (32, 64, 128), "BN": (32, 64, 128), "BK": (8, 16, 32), "TM": (2, 4, 8), "TN": (2, 4, 8)}
_ROOM = 48 * 1024  # bytes of shared memory that a kernel has without asking for more


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor: its tensor and whether the summed index is its last one."""

    tensor: Tensor
    element: str
    is_inner: bool
    batch: int  # leading dimensions that are of both


@dataclass(frozen=True, slots=True)
class Product:
    """out[b, m, n] = f(sum over k of left[b, m, k] * right[b, k, n]), in any order of the last two of each.

    sides: other sums over k that f knows.
    """

    ctx: RuleContext
    analysis: LaunchAnalysis
    function: Function
    made: Contraction
    left: Factor
    right: Factor
    output: Tensor
    names: dict[str, str]
    sides: tuple[SideSum, ...] = ()

    @property
    def position(self) -> int:
        """Of its launch line."""
        return self.analysis.form.position


@dataclass(frozen=True, slots=True)
class Tiling:
    """What a body of tiles is written with: M, N and K in the kernel's names, and the store of a result.

    batch: the declaration of `$batch`, if there are batches. result: `$sum[$i][$j]` into the output at `$row`, `$col`.
    """

    say: Printer
    m: str
    n: str
    k: str
    batch: str
    result: str

    def stores(self, column: str) -> str:
        """The loops at the end of a body that write a thread's results. column: of its `$j`th, from `$tx` on."""
        return f"""\
    #pragma unroll
    for (int $i = 0; $i < TM; ++$i) {{
        #pragma unroll
        for (int $j = 0; $j < TN; ++$j) {{
            const int $row = $row0 + $ty + $i, $col = $col0 + $tx + {column};
            if ($row < {self.m} && $col < {self.n}) {self.result}
        }}
    }}
"""


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    found = product_of(ctx, analysis, function)
    if found is None:
        return
    for rank, shape in enumerate(_SHAPES):
        block, thread = "x".join(map(str, shape[:3])), "x".join(map(str, shape[3:]))
        yield Application(
            edits=tuple(_edits(found, shape)),
            summary=f"{function.name}: a tile of {block} for each block, {thread} results for each thread",
            arguments={"kernel": function.name, "launch": found.position, "block": block, "thread": thread},
            rank=rank,
            is_schedule=True,
        )


def product_of(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Product | None:
    form = analysis.form
    products = [made for made in analysis.contractions if made.kind in ("matmul", "pairs")]
    if len(products) != 1 or form.multiplies:
        return None
    (made,) = products
    if made.left is None or made.output is None or made.output.array is None:
        return None
    if any(a.is_write and a.is_global and a.array != made.output.array
           for a in form.accesses):  # fmt: skip
        return None
    tensors = {tensor.name: tensor for tensor in analysis.task.tensors}
    output = tensors.get(made.output.array.name)
    left, right = (
        _side(made.left.array.element, tensors.get(made.left.array.name), made.roles["left"], "m"),
        _side(made.right.array.element, tensors.get(made.right.array.name), made.roles["right"], "n"),
    )
    roles = made.roles.get("output", "")
    batch = roles.count("b")
    if output is None or left is None or right is None or accumulator(made.output.array.element) is None:
        return None
    core = roles[batch:]
    if not roles.startswith("b" * batch) or left.batch != batch or right.batch != batch or "m" not in core:
        return None
    if not _is_whole(analysis, made, left):
        return None
    if core != "m" * core.count("m") + "n" and core != "n" + "m" * core.count("m"):
        return None
    sides = sides_of(analysis, made)
    if (core.startswith("n") and core != "nm") or sides is None:
        return None
    return Product(ctx, analysis, function, made, left, right, output, names_of(ctx, function), sides)


def _is_whole(analysis: LaunchAnalysis, made: Contraction, left: Factor) -> bool:
    """Whether both factors are read at the same place of the sum, and the sum goes over all places."""
    assert made.left is not None
    (first, *more), (second, *others) = (
        [term for letter, term in zip(made.roles[name], side.subscripts, strict=True) if letter == "k"]
        for name, side in (("left", made.left), ("right", made.right))
    )
    if more or others or first != second or any(first.coefficient(symbol) is None for symbol in made.summed):
        return False
    turns = 1
    for symbol in made.summed:
        number = analysis.turns(analysis.form.loops[symbol])
        if number is None:
            return True  # not known at this case; the gate tells
        turns *= number
    extent = left.tensor.shape[-1 if left.is_inner else left.batch].value(analysis.case.axes)
    return turns == extent if len(made.summed) == 1 else turns >= extent


def _side(element: str, tensor: Tensor | None, roles: str, own: str) -> Factor | None:
    batch = roles.count("b")
    core = roles[batch:]
    if tensor is None or accumulator(element) is None or not roles.startswith("b" * batch):
        return None
    many = own * core.count(own)
    if core == many + "k" and many:
        return Factor(tensor, element, True, batch)
    return Factor(tensor, element, False, batch) if core == "k" + own else None


def printer_of(found: Product, sum_element: str) -> tuple[Printer, list[str]]:
    """What spells the values of the epilogue, and the subscripts of the output in the new indices.

    sum_element: how the new body spells the sum of `$row` and `$col`.
    """
    roles, at = found.made.roles["output"], found.made.store.subscripts
    many = roles.count("m")
    places: dict[Term, str] = {}
    spelled: list[str] = []
    for place, (letter, term) in enumerate(zip(roles, at, strict=True)):
        word = {"n": "$col", "b": "$batch", "m": "$row"}[letter]
        if letter == "m" and many > 1:
            # Several rows of the text are one here: the offset is the same, and nothing else may use one of them.
            word = "$row" if place == roles.rindex("m") else "0"
            spelled.append(word)
            continue
        if letter == "b" and roles.count("b") > 1:
            word = "$batch" if place == roles.rindex("b") else "0"
            spelled.append(word)
            continue
        places[term] = word
        spelled.append(word)
    sums = {carried.name: sum_element for r in found.analysis.reductions for carried in r.carried}
    sums |= {side.name: side.spelled(number) for number, side in enumerate(found.sides)}
    return Printer(found.analysis, found.names, places, sums), spelled


def extents_of(found: Product, say: Printer) -> dict[str, tuple[list[str], list[str]]]:
    """M, N, K and the batches as factors: in the kernel's names, and in the task's.

    How many batches there are is what the grid alone needs to know, so the kernel may have no name for it.
    """
    parts: dict[str, tuple[list[str], list[str]]] = {letter: ([], []) for letter in "mnkb"}
    for letter, dim in zip(found.made.roles["output"], found.output.shape, strict=True):
        parts[letter][0].append(say.extent(dim) if letter != "b" else "")
        parts[letter][1].append(f"({dim.text})" if not dim.text.isidentifier() else dim.text)
    summed = found.left.tensor.shape[-1 if found.left.is_inner else found.left.batch]
    parts["k"] = ([say.extent(summed)], [summed.text])
    return parts


def _edits(found: Product, shape: tuple[int, ...]) -> list[Edit]:
    left_type, right_type = accumulator(found.left.element), accumulator(found.right.element)
    if left_type != right_type or left_type is None:
        raise NotPrinted("factors of two kinds")
    width = 8 if left_type == "double" else 4
    if (shape[0] + 4 + shape[1] + 4) * shape[2] * width > _ROOM:
        raise NotPrinted("too large a tile")
    body = partial(_body, found, kind=left_type)
    return tiled_edits(found, shape, body, requires="BM % TM == 0 and BN % TN == 0")


def tiled_edits(found: Product, shape: tuple[int, ...], body: Callable[[Tiling], str], *, requires: str) -> list[Edit]:
    """A launch of BM x BN results for each block, TM x TN of them in a thread's registers `$sum`, with knobs for both.

    shape: values of BM, BN, BK, TM and TN. requires: a condition on them. Raises NotPrinted.
    """
    ctx = found.ctx
    say, at = printer_of(found, "$sum[$i][$j]")
    sizes = extents_of(found, say)
    if len(sizes["b"][0]) > 1:
        raise NotPrinted("several batches")
    output, knobs = found.made.store, {word: fresh(ctx, word) for word in _DOMAINS}
    m, n, k = (" * ".join(sizes[letter][0]) for letter in "mnk")
    m = f"({m})" if len(sizes["m"][0]) > 1 else m
    result = f"{say.element(found.output, at)} = {stored(output.memory.element, say.value(output.value))};"
    batch = "    const int $batch = blockIdx.z;\n" if sizes["b"][0] else ""
    text = named(body(Tiling(say, m, n, k, batch, result)), taken(ctx, found.names), knobs)
    line = ctx.variant.launches[found.position]
    m, n = (" * ".join(sizes[letter][1]) for letter in "mn")
    grid = f"ceil_div({n}, {knobs['BN']}), ceil_div({m}, {knobs['BM']})"
    if sizes["b"][1]:
        grid += f", {' * '.join(sizes['b'][1])}"
    threads = f"{knobs['BM']} // {knobs['TM']} * ({knobs['BN']} // {knobs['TN']})"
    edits = [relaunched(ctx, line, grid=grid, block=threads, shared="0"), Edit(found.function.body, text)]
    edits += shape_knobs(ctx, knobs, _DOMAINS, shape)
    edits += require(ctx, named(requires, (), knobs))
    return merged([*edits, *without_bounds(found.function)])


def _fill(side: Factor, own: str, size: str, first: str, extent: str, found: Product, k: str) -> str:
    """The loop that copies a tile of a factor, lanes along its contiguous dimension, zero outside of the matrix."""
    word = "$a_tile" if own == "$m" else "$b_tile"
    if side.is_inner:
        inner, outer, split = "$k", own, "BK"
        at = f"({first} + {own}) * {k} + $k0 + $k"
    else:
        inner, outer, split = own, "$k", size
        at = f"($k0 + $k) * {extent} + {first} + {own}"
    base = f"$batch * ({extent}) * {k} + " if side.batch else ""
    value = converted(side.element, f"{found.names[side.tensor.name]}[{base}{at}]")
    return f"""\
        for (int $e = threadIdx.x; $e < {size} * BK; $e += $threads) {{
            const int {inner} = $e % {split}, {outer} = $e / {split};
            {word}[$k][{own}] = {first} + {own} < {extent} && $k0 + $k < {k} ? {value} : 0;
        }}
"""


def term_of(found: Product, say: Printer) -> str:
    """What is summed, of a row's element `$x[$i]` and a column's `$y[$j]`. Raises NotPrinted."""
    if found.made.kind == "matmul":
        return "$x[$i] * $y[$j]"
    return summed(found.analysis, found.made, say, found.made.operand)


def _body(found: Product, tiling: Tiling, *, kind: str) -> str:
    m, n, k = tiling.m, tiling.n, tiling.k
    fills = _fill(found.left, "$m", "BM", "$row0", m, found, k) + _fill(found.right, "$n", "BN", "$col0", n, found, k)
    return f"""{{
    // A block computes BM x BN results from tiles of BK columns and rows; a thread TM x TN of them in registers.
    constexpr int $threads = BM / TM * (BN / TN);
    __shared__ __align__(16) {kind} $a_tile[BK][BM + 4];
    __shared__ __align__(16) {kind} $b_tile[BK][BN + 4];
    const int $row0 = blockIdx.y * BM, $col0 = blockIdx.x * BN;
{tiling.batch}    const int $ty = threadIdx.x / (BN / TN) * TM, $tx = threadIdx.x % (BN / TN) * TN;
    {kind} $sum[TM][TN] = {{}};
{declared_sides(found.sides, kind)}    for (int $k0 = 0; $k0 < {k}; $k0 += BK) {{
{fills}        __syncthreads();
        #pragma unroll
        for (int $k = 0; $k < BK; ++$k) {{
            {kind} $x[TM], $y[TN];
            #pragma unroll
            for (int $i = 0; $i < TM; ++$i) $x[$i] = $a_tile[$k][$ty + $i];
            #pragma unroll
            for (int $j = 0; $j < TN; ++$j) $y[$j] = $b_tile[$k][$tx + $j];
            #pragma unroll
            for (int $i = 0; $i < TM; ++$i) {{
                #pragma unroll
                for (int $j = 0; $j < TN; ++$j) $sum[$i][$j] += {term_of(found, tiling.say)};
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
