"""Where the factors and the result of a product lie, whatever their layout: rows, columns, depths and planes.

A dimension of the output is the left factor's (a row), the right one's (a column) or both's (a plane). Neighbours that
lie next to each other wherever they occur are one. Of several rows or columns that are left, those of one tile's edge
stay and the others are planes too, for which the grid has a dimension; of several depths the outer ones are turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from evo.analysis.access import Contraction, Data, Form, LaunchAnalysis, Origin, Symbol, Term, number_of
from evo.analysis.access.contraction_roles import element_names, told_by
from evo.analysis.access.data_values import parts_of
from evo.analysis.access.renaming import in_indices
from evo.operators.rules.lifting import NotPrinted, Printer
from evo.operators.rules.rewriting import bracketed
from evo.operators.rules.rule_context import RuleContext
from evo.spec.expr import Expression, parse
from evo.spec.task import Tensor
from evo.spec.variant import Scratch

# Tiles for products of few rows or columns: rows, columns and depth of a block, rows and columns of a thread.
FEW = ((16, 16, 16, 4, 2), (16, 64, 16, 2, 4), (64, 16, 16, 4, 2))
_FEW = 16

Item = int | Term  # a dimension of the output, a summed index, or a number
Shaped = Tensor | Scratch


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor. is_inner: its depths lie next to each other, otherwise its rows or columns. base: where the plane
    begins, empty for the tensor's beginning; stride: from one line to the next; turn: where the depths of `$turn` are.
    """

    tensor: Shaped
    element: str
    is_inner: bool
    base: str
    stride: str
    turn: str


@dataclass(frozen=True, slots=True)
class ProductLayout:
    """A product's sizes in the kernel's names, and in the launch line's (rows, columns, planes).

    declared: what names the planes; turns: how many turns of depths there are, empty for one; at: the subscripts of
    `$row` and `$col` of the output; places: what the text's indices are; is_told: only the values of both sides can
    be said, not where the factors lie.
    """

    left: Factor
    right: Factor
    m: str
    n: str
    k: str
    rows: str
    columns: str
    planes: str
    declared: str
    turns: str
    at: tuple[str, ...]
    places: Mapping[Term, str]
    is_told: bool = False


def suited(layout: ProductLayout, axes: Mapping[str, int], shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The shapes of tiles without those of few rows or columns, which come first where a product has no more."""
    few = [parse(words).value(axes) <= _FEW for words in (layout.rows, layout.columns)]
    known = [shape for shape in shapes if all(side > _FEW or is_few for side, is_few in zip(shape, few, strict=False))]
    return sorted(
        known, key=lambda shape: sum(side > _FEW and is_few for side, is_few in zip(shape, few, strict=False))
    )


def blocks_of(output: Shaped, axes: Mapping[str, int], shape: tuple[int, ...]) -> int:
    """How many blocks there are, edges left aside."""
    return int(math.prod(dim.value(axes) for dim in output.shape)) // (shape[0] * shape[1])


def tensors_of(ctx: RuleContext) -> dict[str, Shaped]:
    """What a product may read or write, by name."""
    found: dict[str, Shaped] = {each.name: each for each in ctx.declared.tensors}
    return found | {each.name: each for each in ctx.variant.scratch}


def items_of(made: Contraction, side: Origin) -> tuple[Item, ...] | None:
    """What a factor's subscripts are; None if one is anything else."""
    at = made.store.subscripts
    names = element_names(at)
    found: list[Item] = []
    for subscript in side.subscripts:
        term = in_indices(subscript, at, names)
        if isinstance(term.atom, Symbol) and term.atom in names:
            found.append(names.index(term.atom))
        elif term.value is not None or (term.symbols() and term.symbols() <= frozenset(made.summed)):
            found.append(term)
        else:
            return None
    return tuple(found)


def told_items(form: Form, made: Contraction, side: Origin) -> tuple[Item, ...]:
    """The same of an element that something is computed from: `k / 64`, `head * size + k` and `place[k]` go with k."""
    at = made.store.subscripts
    names, depth, found = element_names(at), depth_of(made), list[Item]()
    for subscript in side.subscripts:
        told = told_by(form, Data("index", (), subscript), at)
        own = [place for place, name in enumerate(names) if name in told]
        found.append(depth if told & frozenset(made.summed) else own[0] if own else Term.number(0))
    return tuple(found)


def depth_of(made: Contraction) -> Term:
    """What counts the places of the sum, in the loops' variables: the part of a subscript that has all of them."""
    assert made.left is not None
    loops = frozenset(made.summed)
    for subscript in (*made.left.subscripts, *made.right.subscripts):
        part = Term({mono: n for mono, n in subscript.parts.items() if mono and loops.issuperset(mono)})
        if part.symbols() == loops:
            return part
    return Term.of(made.summed[-1])


class _Axes:
    """The runs of dimensions of one product."""

    def __init__(self, ctx: RuleContext, analysis: LaunchAnalysis, made: Contraction, names: Mapping[str, str]) -> None:
        assert made.left is not None
        self.say = Printer(analysis, names, {}, {})
        self.case = analysis.case
        shapes = tensors_of(ctx)
        plain = [items_of(made, side) for side in (made.left, made.right)]
        sides = [each for each in plain if each is not None]
        self.is_told = bool(made.beside) or len(sides) != len(plain)
        if self.is_told:
            sides = [told_items(analysis.form, made, side) for side in (made.left, made.right)]
        arrays = (made.left.array, made.right.array, made.store.memory)
        if any(array.name not in shapes for array in arrays):
            raise NotPrinted("subscripts of another kind")
        self.elements = [array.element for array in arrays]
        self.tensors = [shapes[array.name] for array in arrays]
        self.at: list[Sequence[Item]] = [sides[0], sides[1], range(len(made.store.subscripts))]
        rank, left, right = len(self.at[2]), set(sides[0]), set(sides[1])
        if self.is_told:
            left, right = (set[Item](d for d in range(rank) if made.roles["output"][d] in w) for w in ("mb", "nb"))
        self.m = self._runs([d for d in range(rank) if d in left - right])
        self.n = self._runs([d for d in range(rank) if d in right - left])
        self.both = self._runs([d for d in range(rank) if (d in left) == (d in right)])
        depths = [item for item in sides[0] if isinstance(item, Term) and item.value is None]
        if self.is_told:
            self.k: list[tuple[Item, ...]] = [(depth_of(made),)]
            if not self.m or not self.n:
                raise NotPrinted("no product of matrices")
            return
        self.k = self._runs(depths)
        if set(depths) != {i for i in sides[1] if isinstance(i, Term) and i.value is None}:
            raise NotPrinted("factors at two places of the sum")
        if not self.m or not self.n or not depths or any(len(set(at)) != len(at) for at in self._moving()):
            raise NotPrinted("no product of matrices")

    def _moving(self) -> list[list[Item]]:
        return [[i for i in at if isinstance(i, int) or i.value is None] for at in self.at]

    def _runs(self, items: Sequence[Item]) -> list[tuple[Item, ...]]:
        """Neighbours that can be counted as one."""
        found: list[tuple[Item, ...]] = []
        for item in items:
            last = found[-1][-1] if found else None
            with_both = [at for at in self.at if item in at or last in at]
            if last is not None and all(
                item in at and last in at and list(at).index(item) == list(at).index(last) + 1 for at in with_both
            ):
                found[-1] += (item,)
            else:
                found.append((item,))
        return found

    def extent(self, item: Item) -> Expression:
        for at, tensor in ((self.at[2], self.tensors[2]), (self.at[0], self.tensors[0])):
            if item in at:
                return tensor.shape[list(at).index(item)]
        raise NotPrinted("no size")

    def size(self, run: Sequence[Item]) -> str:
        """In the kernel's names."""
        said = " * ".join(self.say.extent(self.extent(item)) for item in run)
        return f"({said})" if len(run) > 1 else said

    def turns(self, made: Contraction) -> str:
        """How often the loops of a sum turn together, each of which counts from 0. Raises NotPrinted."""
        form, (run,) = self.say.analysis.form, self.k
        loops = [form.loops[symbol] for symbol in made.summed]
        trips = [loop.trip for loop in loops if loop.start.value == 0 and loop.step.value == 1 and loop.until is None]
        told = [trip for trip in trips if trip is not None and all(s.kind == "axis" for s in trip.symbols())]
        tests = [loop.condition for loop in loops]
        for number in {part.detail for part in parts_of(made.operand) if part.op == "read"}:
            context = form.accesses[number].context if isinstance(number, int) else ()
            inside = context[context.index(made.summed[0]) :] if made.summed[0] in context else ()
            tests += [part for part in inside if not isinstance(part, Symbol) and part not in tests]
        if len(told) != len(loops) or len(tests) != len(loops) or made.unrolled != 1 or made.store.mode != "write":
            raise NotPrinted("a sum that leaves some out")
        values = self.say.analysis.sizes.values
        whole = math.prod(number_of(trip, values) or 0 for trip in told)
        for side, tensor in zip(self.at[:2], self.tensors, strict=False):
            if run[0] in side and (size := tensor.shape[list(side).index(run[0])]).value(self.case.axes) == whole:
                return self.say.extent(size)
        return " * ".join(self.say.term(trip) for trip in told)

    def words(self, run: Sequence[Item]) -> str:
        """In the launch line's."""
        return " * ".join(bracketed(self.extent(item).text) for item in run)

    def is_last(self, side: int, run: Sequence[Item]) -> bool:
        return self.at[side][-1] == run[-1]

    def edge(self, runs: list[tuple[Item, ...]], sides: Sequence[int]) -> tuple[Item, ...]:
        """The run that a tile goes along: the one whose elements lie next to each other, else the longest."""
        for side in sides:
            for run in runs:
                if self.is_last(side, run):
                    return run
        return max(runs, key=lambda run: math.prod(self.extent(item).value(self.case.axes) for item in run))

    def stride(self, side: int, run: Sequence[Item]) -> list[str]:
        """The factors of the distance between neighbours of a run."""
        place = list(self.at[side]).index(run[-1])
        return [self.say.extent(dim) for dim in self.tensors[side].shape[place + 1 :]]

    def offset(self, side: int, named: Mapping[tuple[Item, ...], str]) -> str:
        """Where the elements of some places of other runs begin, in elements."""
        parts = []
        for run, word in named.items():
            if run[-1] in self.at[side]:
                parts.append(" * ".join([f"(long long){word}", *self.stride(side, run)]))
        for place, item in enumerate(self.at[side]):
            if isinstance(item, Term) and item.value:
                rest = [self.say.extent(dim) for dim in self.tensors[side].shape[place + 1 :]]
                number = "(long long)" if item.value == 1 and rest else f"{item.value}LL{' * ' * bool(rest)}"
                parts.append(number + " * ".join(rest))
        return " + ".join(parts)


def swapped(made: Contraction) -> Contraction:
    """With the factor of the output's last dimension on the right, so that neighbouring results are stored together."""
    roles = dict(made.roles)
    if made.left is None or not roles.get("output", "").endswith("m"):
        return made
    turned = str.maketrans("mn", "nm")
    roles = {"left": roles["right"], "right": roles["left"], "output": roles["output"]}
    roles = {side: letters.translate(turned) for side, letters in roles.items()}
    return replace(made, left=made.right, right=made.left, roles=roles)


def layout_of(ctx: RuleContext, analysis: LaunchAnalysis, made: Contraction, names: Mapping[str, str]) -> ProductLayout:
    """Raises NotPrinted for a product that has none."""
    axes = _Axes(ctx, analysis, made, names)
    row, col = axes.edge(axes.m, (0, 2)), axes.edge(axes.n, (1, 2))
    depth = axes.k[0] if axes.is_told else axes.edge(axes.k, (0, 1))
    others = [run for run in (*axes.both, *axes.m, *axes.n) if run not in (row, col)]
    turns = [run for run in axes.k if run != depth]
    planes = sorted(others, key=lambda run: list(axes.at[2]).index(run[0]))
    own = {run: f"$batch{at}" if len(planes) > 1 else "$batch" for at, run in enumerate(planes)}
    declared = "".join(
        f"    const int {own[run]} = {_part('blockIdx.z', planes, at, axes.size)};\n" for at, run in enumerate(planes)
    )
    told = {run: _part("$turn", turns, at, axes.size, is_nested=True) for at, run in enumerate(turns)}
    factors = []
    for side, edge in ((0, row), (1, col)):
        is_inner = axes.is_last(side, depth)
        if axes.is_told:
            factors.append(Factor(axes.tensors[side], axes.elements[side], is_inner, "", "1", ""))
            continue
        if not is_inner and not axes.is_last(side, edge):
            raise NotPrinted("neither rows nor depths lie next to each other")
        stride = " * ".join(axes.stride(side, edge if is_inner else depth)) or "1"
        base, turn = axes.offset(side, own), axes.offset(side, told) if told else ""
        if told and (plain := axes.offset(side, {})):
            turn = turn.removesuffix(plain).removesuffix(" + ")  # numbers are in the base
        factors.append(Factor(axes.tensors[side], axes.elements[side], is_inner, base, stride, turn))
    words = {row: "$row", col: "$col", **own}
    at = ["0"] * len(axes.at[2])
    places: dict[Term, str] = {}
    for run, word in words.items():
        for place, item in enumerate(run):
            assert isinstance(item, int)
            at[item] = word if item == run[-1] else "0"
            said = _part(word, [(each,) for each in run], place, axes.size, is_nested=True)
            places[made.store.subscripts[item]] = said
    return ProductLayout(
        left=factors[0], right=factors[1], m=axes.size(row), n=axes.size(col),
        k=axes.turns(made) if axes.is_told else axes.size(depth), is_told=axes.is_told,
        rows=axes.words(row), columns=axes.words(col), planes=" * ".join(axes.words(run) for run in planes),
        declared=declared, turns=" * ".join(axes.size(run) for run in turns), at=tuple(at), places=places,
    )  # fmt: skip


def _part(
    word: str,
    runs: Sequence[tuple[Item, ...]],
    at: int,
    size: Callable[[Sequence[Item]], str],
    *,
    is_nested: bool = False,
) -> str:
    """One of several indices out of the number that counts them all."""
    behind = " * ".join(size(run) for run in runs[at + 1 :])
    said = f"{word} / ({behind})" if " " in behind else f"{word} / {behind}" if behind else word
    said += f" % {size(runs[at])}" if at else ""
    return f"({said})" if is_nested and said != word else said
