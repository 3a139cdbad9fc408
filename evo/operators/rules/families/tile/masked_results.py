"""Products of which some elements are another value: the scores of causal attention behind a query, say.

A kernel stores the sum in one branch and the other value in the other; tiles store one or the other by the same test,
and a tile all of whose elements are masked multiplies nothing. Of a symmetric result a kernel may compute one triangle,
and store each element of it at the mirrored place too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from evo.analysis.access import Access, Compare, Condition, Contraction, Data, LaunchAnalysis, Symbol, Term, number_of
from evo.analysis.access.comparisons import compare, conjuncts
from evo.analysis.access.contraction_roles import element_names
from evo.analysis.access.data_values import parts_of, plain
from evo.analysis.access.renaming import in_indices
from evo.operators.rules.lifting import NotPrinted, Printer, stored
from evo.operators.rules.spelling import condition_in_c, is_within_output
from evo.spec.task import Tensor
from evo.spec.variant import Scratch

_TILE = {"$row": ("$row0", "$row0 + BM - 1"), "$col": ("$col0", "$col0 + BN - 1")}  # its first and last
_SAMPLED = 0.02  # how far a count of accesses may be off, which is taken of some blocks
_EDGE_SAMPLED = 0.1  # the same where some of a block's threads have none
_EDGES = frozenset(edge for edges in _TILE.values() for edge in edges)


@dataclass(frozen=True, slots=True)
class Mask:
    """Which elements are not the sum, and what they are: nothing if other threads store them. condition: of the
    element's indices, `names`; kept: what the other elements are; mirrors: where else those are stored.
    """

    condition: Compare
    value: Data | None
    kept: Data
    names: tuple[Symbol, ...]
    at: tuple[Term, ...]  # the indices as the kernel works them out
    mirrors: tuple[tuple[Access, tuple[Compare, ...]], ...] = ()  # stores, and what each is under besides

    def result(self, say: Printer) -> str:
        """What is stored. Raises NotPrinted."""
        value, kept = say.value(self.value), say.expression(self.kept)
        return f"{condition_in_c(self.condition, self._words(say))} ? {value} : {kept}"

    def stores(self, say: Printer, output: Tensor | Scratch, at: Sequence[str]) -> tuple[str, str]:
        """The test of elements that are kept, and the stores of one and of its mirrors. Raises NotPrinted."""
        words, element = self._words(say), self.mirrors[0][0].memory.element
        said = f"{say.element(output, list(at))} = {stored(element, say.expression(self.kept))};"
        for mirror, tests in self.mirrors:
            place = say.element(output, [say.term(term) for term in mirror.subscripts])
            value = f"{place} = {stored(element, say.expression(mirror.value))};"
            under = " && ".join(condition_in_c(test, words) for test in tests)
            said += f" if ({under}) {value}" if under else f" {value}"
        return condition_in_c(self.condition.negated(), words), f"{{ {said} }}"

    def whole_tile(self, say: Printer) -> str:
        """A test for a tile of BM x BN from `$row0` and `$col0` on, all of whose elements are masked; empty if no
        corner tells. Raises NotPrinted.
        """
        corner = self._words(say)
        for symbol, word in tuple(corner.items()):
            number = self.condition.term.coefficient(symbol)
            if word not in _TILE:
                continue
            if number is None or number.value not in (1, -1) or self.condition.relation != ">=":
                return ""
            corner[symbol] = _TILE[word][number.value < 0]
        is_told = all(word in _EDGES or word in say.names.values() for word in corner.values())
        return condition_in_c(self.condition, corner) if is_told else ""

    def _words(self, say: Printer) -> dict[Symbol, str]:
        """What the symbols of the condition are called. Raises NotPrinted."""
        places = dict(zip(self.names, self.at, strict=True))
        return {symbol: say.term(places.get(symbol, Term.of(symbol))) for symbol in self.condition.symbols()}


def mask_of(analysis: LaunchAnalysis, made: Contraction) -> Mask | None:
    """What masks a product's elements; None if nothing does. Raises NotPrinted if some elements are not stored, or in
    a way that is not known.
    """
    form, store = analysis.form, made.store
    under = [part for condition in store.conditions for part in conjuncts(condition)]
    under = [part for part in under if not is_within_output(part, store)]
    others = [other for other in form.of(store.memory) if other.is_write and other is not store]
    others = [other for other in others if not set(other.loops) & set(made.summed)]  # the sum on its way
    if len(under) == 1 and (mirrors := _mirrors(analysis, store, others)):
        return replace(_mask(store, under[0].negated(), None, store.value), mirrors=mirrors)
    if len(others) == 1 and _is_mirrored(analysis, made, others[0], under):
        return None
    if others or (under and not is_once_each(analysis, store.number, store.memory.shape)):
        if store.mode != "write" or len(others) != 1 or len(under) != 1:
            raise NotPrinted("elements that are stored elsewhere, or not at all")
        return _between(store, others[0], under[0])
    chosen = plain(store.value)
    if chosen is None or chosen.op != "select" or not isinstance(chosen.detail, Compare) or len(chosen.args) != 2:
        return None
    is_first = is_from_loop(chosen.args[0])
    if is_first == is_from_loop(chosen.args[1]):
        raise NotPrinted("two sums, or none")
    condition = chosen.detail.negated() if is_first else chosen.detail
    return _mask(store, condition, chosen.args[is_first], chosen.args[not is_first])


def _is_mirrored(analysis: LaunchAnalysis, made: Contraction, other: Access, under: Sequence[Condition]) -> bool:
    """Whether a factor is multiplied with itself, and a second store has each sum on the other side of the diagonal.

    under: what the first store is under, but for the edges of the output.
    """
    store, left, right = made.store, made.left, made.right
    if left is None or left.array != right.array or len(store.subscripts) != 2:
        return False
    row, col = store.subscripts
    turned = {row: col, col: row}
    if other.subscripts != (col, row) or [turned.get(at, at) for at in left.subscripts] != list(right.subscripts):
        return False
    loop = next((each for each in analysis.form.loops.values() if Term.of(each.symbol) == col), None)
    if loop is None:
        is_half = list(under) == [compare(col - row, ">=")]
    else:
        is_each = not under and loop.step.value == 1 and loop.start == row
        is_half = is_each and loop.trip is not None and row + loop.trip == store.memory.shape[1]
    return is_half and {store.mode, other.mode} == {"write"} and _is_same_everywhere(store.value, other.value)


def _is_same_everywhere(value: Data | None, other: Data | None) -> bool:
    """Whether two values are made of a loop's results and of sizes in one way, wherever they are stored."""
    if value is None or other is None or (value.op, value.detail) != (other.op, other.detail) or value.op == "read":
        return False
    if value.op == "index":
        return isinstance(value.detail, Term) and all(symbol.kind == "axis" for symbol in value.detail.symbols())
    if value.op in ("result", "carried"):
        return True
    return len(value.args) == len(other.args) and all(map(_is_same_everywhere, value.args, other.args))


def is_once_each(analysis: LaunchAnalysis, number: int, sizes: Iterable[Term]) -> bool:
    """Whether an access is carried out about as often as there are elements of these sizes together, at the case."""
    traffic = analysis.traffic.accesses.get(number)
    elements = math.prod(number_of(size, analysis.sizes.values) or 0 for size in sizes)
    return traffic is not None and math.isclose(traffic.executions, elements, rel_tol=_SAMPLED)


def _between(store: Access, other: Access, under: Condition) -> Mask:
    """The mask of two stores, one of which is carried out. under: what the sum's alone is under."""
    shared = [part for condition in store.conditions for part in conjuncts(condition) if part != under]
    beside = [part for condition in other.conditions for part in conjuncts(condition)]
    if (
        other.mode != "write"
        or other.subscripts != store.subscripts
        or other.loops != store.loops
        or other.value is None
        or sorted(part.key for part in beside) != sorted(part.key for part in (*shared, under.negated()))
    ):
        raise NotPrinted("two stores that do not exclude each other")
    return _mask(store, under.negated(), other.value, store.value)


def _mirrors(
    analysis: LaunchAnalysis, store: Access, others: list[Access]
) -> tuple[tuple[Access, tuple[Compare, ...]], ...]:
    """Other stores wherever a store is carried out, at its subscripts in another order, each with its own tests; none
    unless they and the store fill the output together.
    """
    known = {part.key for condition in store.conditions for part in conjuncts(condition)}
    found = []
    for other in others:
        under = {part.key: part for condition in other.conditions for part in conjuncts(condition)}
        own = [part for key, part in under.items() if key not in known and not is_within_output(part, store)]
        is_turned = other.subscripts != store.subscripts and set(other.subscripts) == set(store.subscripts)
        if other.mode != "write" or other.loops != store.loops or not is_turned or not known <= set(under):
            return ()
        found.append((other, tuple(_of_indices(part, store) for part in own)))
    traffic, sizes = analysis.traffic.accesses, analysis.sizes.values
    done = sum(traffic[each.number].executions for each in (store, *others) if each.number in traffic)
    elements = math.prod(number_of(size, sizes) or 0 for size in store.memory.shape)
    return tuple(found) if math.isclose(done, elements, rel_tol=_EDGE_SAMPLED) else ()


def _mask(store: Access, condition: Condition, value: Data | None, kept: Data | None) -> Mask:
    if kept is None or is_from_loop(value):
        raise NotPrinted(condition.text)
    said = _of_indices(condition, store)
    return Mask(said, value, kept, tuple(element_names(store.subscripts)), store.subscripts)


def _of_indices(condition: Condition, store: Access) -> Compare:
    """A condition in the indices of the element that is stored. Raises NotPrinted."""
    if isinstance(condition, Compare):
        names = element_names(store.subscripts)
        said = compare(in_indices(condition.term, store.subscripts, names), condition.relation)
        if isinstance(said, Compare) and not any(s.kind in ("block", "thread", "loop") for s in said.symbols()):
            return said
    raise NotPrinted(condition.text)


def is_from_loop(data: Data | None) -> bool:
    """Whether a value is made of what a loop left."""
    return any(part.op in ("result", "carried") for part in parts_of(data))
