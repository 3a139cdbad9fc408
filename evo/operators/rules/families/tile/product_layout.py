"""Where the factors and the result of a product lie, whatever their layout: rows, columns, depths and planes.

A dimension of the output is the left factor's (a row), the right one's (a column) or both's (a plane). Neighbours that
lie next to each other wherever they occur are one. Of several rows or columns that are left, those of one tile's edge
stay and the others are planes too, for which the grid has a dimension; of several depths the outer ones are turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from evo.analysis.access import Contraction, Data, Form, LaunchAnalysis, Origin, Symbol, Term
from evo.analysis.access.contraction_roles import element_names, told_by
from evo.analysis.access.renaming import in_indices
from evo.operators.rules.lifting import NotPrinted, Printer
from evo.operators.rules.rewriting import bracketed
from evo.operators.rules.rule_context import RuleContext
from evo.spec.expr import Expression
from evo.spec.task import Tensor
from evo.spec.variant import Scratch

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
    `$row` and `$col` of the output; places: what the text's indices are.
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


def told_items(form: Form, made: Contraction, side: Origin) -> tuple[Item, ...] | None:
    """The same of an element that something is computed from: `k / 64` and `place[k]` go along with k."""
    at, found = made.store.subscripts, list[Item]()
    _, depths = depths_of(made)
    items: dict[Symbol, Item] = {name: place for place, name in enumerate(element_names(at))}
    items |= {symbol: depths[0] for symbol in made.summed if len(depths) == 1}
    for subscript in side.subscripts:
        told = {items.get(symbol) for symbol in told_by(form, Data("index", (), subscript), at)}
        if len(told) > 1 or None in told:
            return None
        found += [item for item in told if item is not None] or [subscript]
    return tuple(found)


def depths_of(made: Contraction) -> tuple[Origin, list[Term]]:
    """The factor that counts the places of the sum without more, and its subscripts that do."""
    assert made.left is not None
    sides = {
        name: [term for term, letter in zip(side.subscripts, made.roles[name], strict=True) if letter == "k"]
        for name, side in (("left", made.left), ("right", made.right))
    }
    known = [name for name, terms in sides.items() if terms] or ["left"]
    said = {name: frozenset[Symbol]().union(*(term.symbols() for term in sides[name])) for name in known}
    name = min(known, key=lambda name: (-len(said[name]), sum(1 for term in sides[name] for _ in term.ops())))
    return (made.left if name == "left" else made.right), sides[name]


class _Axes:
    """The runs of dimensions of one product."""

    def __init__(self, ctx: RuleContext, analysis: LaunchAnalysis, made: Contraction, names: Mapping[str, str]) -> None:
        assert made.left is not None
        self.say = Printer(analysis, names, {}, {})
        self.case = analysis.case
        shapes = tensors_of(ctx)
        sides = [items_of(made, side) for side in (made.left, made.right)]
        if made.beside:
            sides = [told_items(analysis.form, made, side) for side in (made.left, made.right)]
        self.counts = int(depths_of(made)[0] is made.right)  # the side whose sizes are those of the depths
        arrays = (made.left.array, made.right.array, made.store.memory)
        if sides[0] is None or sides[1] is None or any(array.name not in shapes for array in arrays):
            raise NotPrinted("subscripts of another kind")
        self.elements = [array.element for array in arrays]
        self.tensors = [shapes[array.name] for array in arrays]
        self.at: list[Sequence[Item]] = [sides[0], sides[1], range(len(made.store.subscripts))]
        rank, left, right = len(self.at[2]), set(sides[0]), set(sides[1])
        self.m = self._runs([d for d in range(rank) if d in left - right])
        self.n = self._runs([d for d in range(rank) if d in right - left])
        self.both = self._runs([d for d in range(rank) if (d in left) == (d in right)])
        depths = [item for item in sides[0] if isinstance(item, Term) and item.value is None]
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
        for at, tensor in ((self.at[2], self.tensors[2]), (self.at[self.counts], self.tensors[self.counts])):
            if item in at:
                return tensor.shape[list(at).index(item)]
        raise NotPrinted("no size")

    def size(self, run: Sequence[Item]) -> str:
        """In the kernel's names."""
        said = " * ".join(self.say.extent(self.extent(item)) for item in run)
        return f"({said})" if len(run) > 1 else said

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
    depth = axes.edge(axes.k, (0, 1))
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
        left=factors[0], right=factors[1], m=axes.size(row), n=axes.size(col), k=axes.size(depth),
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
