"""Contractions: C[m, n] += A[m, k] * B[k, n] in any order of loops, layout, staging and number of batch dimensions.

Sums, or extrema, of another function of the two elements are read alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from evo.analysis.access.comparisons import Combined, Compare, Condition, Unsure, conjuncts
from evo.analysis.access.contraction_roles import (
    computed_from,
    element_names,
    has_window,
    kind_of,
    output_role,
    roles_by_output,
    roles_of,
    told_by,
)
from evo.analysis.access.data_values import is_old, parts_of, plain
from evo.analysis.access.extrema import extremum_by_comparison
from evo.analysis.access.form import Access, Carried, Data, Form
from evo.analysis.access.reductions import Reduction
from evo.analysis.access.staging import Origin, leaf, origin
from evo.analysis.access.terms import Symbol, Term

_EXTREMA = ("max", "min")
_NUMBERS = ("constant", "scalar")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contraction:
    """A sum of products of elements of two tensors, or what else is combined of pairs of them.

    left, right: the factors; left is None if it is computed on the way, as the weights of a softmax are. output: the
    store of the result, None if it goes on in the kernel. summed: the loops of the sum. roles: for each dimension of
    left, right and output one letter: `m` (of left), `n` (of right), `b` (of both), `k` (summed), `w` (a window: an
    output index and a summed one together), `1` (fixed). kind: `matmul`, `matvec`, `dot`, `convolution`, or `pairs` if
    another function of the two elements is summed, or of more. epilogue: what is done to the sum before it is stored,
    by name. combine: `sum`, or `max` or `min` of any function of the two elements, which are `pairs` too. beside: what
    else is summed with the two, each of it of the result's row or column, or of neither.
    """

    kind: str
    left: Origin | None
    right: Origin
    output: Access | None
    summed: tuple[Symbol, ...]
    roles: Mapping[str, str]
    epilogue: tuple[str, ...]
    line: int
    operand: Data | None = None  # what is summed
    combine: str = "sum"
    initial: Data | None = None  # what an extremum begins with
    unrolled: int = 1  # places of the sum that a turn of the innermost loop takes
    beside: tuple[Origin, ...] = ()
    scale: tuple[Data, ...] = ()  # numbers and scalars that each product is multiplied by

    @property
    def store(self) -> Access:
        """The output, of one that is known to have it."""
        assert self.output is not None
        return self.output


def contractions_of(form: Form, reductions: tuple[Reduction, ...]) -> tuple[Contraction, ...]:
    """All contractions of a form; of nested sums over one product the whole."""
    found: list[Contraction] = []
    for reduction in reductions:
        is_sum = reduction.kind in ("sum", "rescaled_sum") and reduction.place in ("register", "local")
        if is_sum or _is_extremum(form, reduction):
            made = _contraction(form, reduction)
            if made is not None and all(known.right.way != made.right.way for known in found):
                found.append(made)
    return tuple(found)


def _contraction(form: Form, reduction: Reduction) -> Contraction | None:
    is_extremum = reduction.kind in _EXTREMA
    if not is_extremum and any(_is_chosen(carried) for carried in reduction.carried):
        return None
    product, unrolled = None if is_extremum else _factors(form, reduction.operand), 1
    if product is None and not is_extremum and (rolled := _rolled(form, reduction)):
        product, unrolled = rolled
    is_copy = product is not None and product[0] is not None
    several: tuple[Origin, ...] = ()
    if not is_extremum and (not is_copy or _is_of_data(form, reduction.operand)):
        several = _several(form, reduction)
    if several or (is_copy and _is_chosen_by_data(reduction.operand)):
        product = None
    factors = (several[0], several[1]) if several else product or _pair(form, reduction.operand)
    if factors is None:
        return None
    left, right = factors
    summed = _loops_within(form, reduction, several) if several else _summed(form, reduction, right)
    if not summed or _is_left_out(form, right, summed, is_extremum=is_extremum):
        return None
    output, names = _output(form, reduction)
    at = output.subscripts if output is not None else ()
    left, right = (_renamed(left, names) if left is not None else None), _renamed(right, names)
    sides = {"left": left.subscripts if left is not None else (), "right": right.subscripts}
    told = form if several else None
    roles = roles_by_output(sides["left"], sides["right"], at, summed, told) if left is not None else None
    if roles is None:
        roles = {
            "left": roles_of(sides["left"], sides["right"], summed, "m"),
            "right": roles_of(sides["right"], sides["left"], summed, "n"),
        }
        if not has_window(sides["left"], sides["right"], summed):  # lanes that share a sum
            roles = {side: letters.replace("w", "k") for side, letters in roles.items()}
        if output is not None:
            roles["output"] = "".join(output_role(term, sides["left"], sides["right"]) for term in at)
    kind = kind_of(roles, left)
    if product is None and kind != "matmul":
        return None
    return Contraction(
        kind=kind if product is not None else "pairs", left=left, right=right, output=output, summed=summed,
        roles=roles,
        epilogue=_epilogue(output) if output is not None else (), line=reduction.line, operand=reduction.operand,
        unrolled=unrolled, scale=_scale(form, reduction.operand) if product is not None and unrolled == 1 else (),
        combine=reduction.kind if is_extremum else "sum",
        initial=reduction.carried[0].initial if is_extremum else None, beside=several[2:],
    )  # fmt: skip


def _is_left_out(form: Form, right: Origin, summed: tuple[Symbol, ...], *, is_extremum: bool) -> bool:
    """Whether a `continue` or a test leaves some pairs out: data's, and for an extremum any."""
    context = form.accesses[right.way[0]].context
    inside = context[context.index(summed[0]) :] if summed[0] in context else ()
    tests = [part for part in inside if not isinstance(part, Symbol)]
    if is_extremum:
        return any(test not in [form.loops[symbol].condition for symbol in summed] for test in tests)
    return any(isinstance(part, Unsure) for test in tests for part in conjuncts(test))


def _is_extremum(form: Form, reduction: Reduction) -> bool:
    """Whether one loop keeps the largest or smallest of all its turns, none of which is left out."""
    if reduction.kind not in _EXTREMA or reduction.place != "register" or len(reduction.carried) != 1:
        return False
    (carried,) = reduction.carried
    update = plain(carried.update)
    if update is None or update.op in _EXTREMA:
        return update is not None
    sides = [plain(side) for side in update.args] if update.op == "select" else []
    old = [place for place, side in enumerate(sides) if is_old(side, carried)]
    return len(old) == 1 and extremum_by_comparison(form, update, carried, 1 - old[0]) is not None


def _is_chosen(carried: Carried) -> bool:
    """Whether data says which products count."""
    update = plain(carried.update)
    while update is not None and update.op == "result" and isinstance(update.detail, Carried):
        update = plain(update.detail.update)
    if update is None or update.op != "select" or not isinstance(update.detail, Compare | Combined | Unsure):
        return False
    return any(isinstance(part, Unsure) for part in conjuncts(update.detail))


def _product(operand: Data | None) -> Data | None:
    """What is summed if it is a product, maybe zero where a guard does not hold."""
    found = plain(operand)
    if found is not None and found.op == "select":
        sides = [side for side in (plain(arg) for arg in found.args) if side is not None and side.op == "mul"]
        found = sides[0] if len(sides) == 1 else found
    return found if found is not None and found.op in ("mul", "index") else None


def _scale(form: Form, operand: Data | None) -> tuple[Data, ...]:
    found = _product(operand)
    return tuple(part for part in _flat(form, found) if part.op in _NUMBERS) if found is not None else ()


def _factors(form: Form, operand: Data | None) -> tuple[Origin | None, Origin] | None:
    """The two elements that are multiplied, or a computed factor and an element."""
    found = _product(operand)
    if found is None:
        return None
    parts = [part for part in _flat(form, found) if part.op not in _NUMBERS]
    known = [made for part in parts if (made := origin(form, part)) is not None]
    if len(parts) != 2 or not known:
        return None
    return (known[0], known[1]) if len(known) == 2 else (None, known[0])


def _rolled(form: Form, reduction: Reduction) -> tuple[tuple[Origin, Origin], int] | None:
    """The first product of a turn that takes neighbouring places of the sum, and how many it takes."""
    loop = form.loops[reduction.loops[-1]]
    products: list[tuple[Origin, Origin]] = []
    for part in _summands(reduction.operand):
        found = _factors(form, part)
        if found is None or found[0] is None or _scale(form, part):
            return None
        products.append((found[0], found[1]))
    if len(products) < 2 or loop.step.value != len(products):
        return None
    places = {_shift(one, products[0], loop.symbol): one for one in products}
    known = sorted(shift for shift in places if shift is not None)
    start = min(known, default=0)
    return (places[start], len(known)) if known == list(range(start, start + len(products))) else None


def _shift(one: tuple[Origin, Origin], other: tuple[Origin, Origin], symbol: Symbol) -> int | None:
    """By how many turns two elements lie behind two others."""
    shifts = {
        (now - then).value
        for late, early in zip(one, other, strict=True)
        for now, then in zip(late.subscripts, early.subscripts, strict=True)
        if symbol in then.symbols()
    }
    shift = shifts.pop() if len(shifts) == 1 else None
    moved = {symbol: Term.of(symbol) + (shift or 0)}
    is_same = all(
        late.array == early.array and late.subscripts == tuple(term.substitute(moved) for term in early.subscripts)
        for late, early in zip(one, other, strict=True)
    )
    return shift if is_same else None


def _summands(data: Data | None) -> Iterator[Data]:
    found = plain(data)
    if found is not None and found.op == "add":
        for arg in found.args:
            yield from _summands(arg)
    elif found is not None and found.op == "index" and isinstance(found.detail, Term):
        yield from (Data("index", (), Term({mono: n})) for mono, n in found.detail.parts.items())
    elif found is not None:
        yield found


def _pair(form: Form, operand: Data | None) -> tuple[Origin, Origin] | None:
    """The two elements that something else than a product is computed from."""
    left, right = found if len(found := _elements(form, operand)) == 2 else (None, None)
    return (left, right) if left is not None and right is not None else None


def _elements(form: Form, operand: Data | None) -> list[Origin]:
    """The elements that a value is computed from, each once; none if anything else is in it."""
    found: dict[tuple[str, tuple[Term, ...]], Origin] = {}
    for part in _computed_from(operand):
        is_of_data = isinstance(part.detail, Term) and part.detail.symbols() & form.values.keys()
        if is_of_data or part.op in ("carried", "result", "unknown", "shuffle", "select"):
            return []
        made = origin(form, part) if part.op == "read" else None
        if made is not None:
            found.setdefault((made.array.name, made.subscripts), made)
    return list(found.values())


def _several(form: Form, reduction: Reduction) -> tuple[Origin, ...]:
    """Of more than two elements that are summed together one of the result's row and one of its column, then the
    others; none if one belongs to both, or if a turn may leave one out.
    """
    output, _ = _output(form, reduction)
    found = _all_elements(form, reduction.operand)
    if output is None or reduction.place != "register" or any(len(each.way) > 1 for each in found):
        return ()
    if len(found) < 3 and not (len(found) == 2 and _is_of_data(form, reduction.operand)):
        return ()
    names, told = element_names(output.subscripts), told_by(form, reduction.operand, output.subscripts)
    within = _loops_within(form, reduction, found)
    summed = frozenset(within)
    if not summed <= told or told - summed - frozenset(names):
        return ()
    used = [told_by(form, Data("read", (), each.way[0]), output.subscripts) for each in found]
    if any(_is_left_out(form, each, within, is_extremum=True) for each in found):
        return ()
    # `k / 32` of an element is no whole walk along the sum, nor is a place that data tells a whole row.
    steps = [sum(1 for t in each.subscripts for _ in t.ops()) + len(_told_places(form, each)) for each in found]
    wide = [at for at, symbols in enumerate(used) if symbols & summed and symbols - summed]
    wide.sort(key=lambda at: steps[at])
    one = wide[0] if wide else 0
    other = next((at for at in wide if used[at] - used[one] and used[one] - used[at]), one)
    if any(not symbols - summed <= side for symbols in used for side in [_side(symbols, used[one], used[other])]):
        return ()
    rest = [each for at, each in enumerate(found) if at not in (one, other)]
    return (found[one], found[other], *rest) if one != other else ()


def _all_elements(form: Form, operand: Data | None) -> list[Origin]:
    """The elements that a value is computed from, those included that tell where others are, or whether they count."""
    found: dict[tuple[str, tuple[Term, ...]], Origin] = {}
    for part in computed_from(form, operand):
        made = origin(form, part) if part.op == "read" else None
        if made is not None:
            found.setdefault((made.array.name, made.subscripts), made)
    return list(found.values())


def _told_places(form: Form, side: Origin) -> frozenset[Symbol]:
    """What data says of where an element is."""
    return frozenset().union(*(term.symbols() for term in side.subscripts)) & frozenset(form.values)


def _is_chosen_by_data(operand: Data | None) -> bool:
    """Whether a value that is read says which of two values counts."""
    choices = [part.detail for part in parts_of(operand) if part.op == "select"]
    return any(isinstance(part, Unsure) for each in choices if isinstance(each, Condition)
               for part in conjuncts(each))  # fmt: skip


def _is_of_data(form: Form, operand: Data | None) -> bool:
    """Whether what is read tells where an element of a sum is, or which of two values counts."""
    reads = [made for part in parts_of(operand) if part.op == "read" and (made := origin(form, part)) is not None]
    return _is_chosen_by_data(operand) or any(_told_places(form, made) for made in reads)


def _side(symbols: frozenset[Symbol], one: frozenset[Symbol], other: frozenset[Symbol]) -> frozenset[Symbol]:
    """The one of two sets of indices that has more of some others."""
    return one if len(symbols & one) >= len(symbols & other) else other


def _flat(form: Form, data: Data) -> Iterator[Data]:
    """The factors of a product; one of whole numbers is a term."""
    found = plain(data)
    if found is not None and found.op == "mul":
        for arg in found.args:
            yield from _flat(form, arg)
    elif found is not None and found.op == "index" and isinstance(found.detail, Term) and len(found.detail.parts) == 1:
        ((atoms, often),) = found.detail.parts.items()
        known = [form.values[atom].data for atom in atoms if isinstance(atom, Symbol) and atom in form.values]
        is_all = often == 1 and len(known) == len(atoms) > 0
        yield from [part for part in known if part is not None] if is_all else [found]
    elif found is not None:
        yield found


def _summed(form: Form, reduction: Reduction, right: Origin) -> tuple[Symbol, ...]:
    """The loops of the sum: from the outermost that it runs over inwards to the product."""
    around = form.accesses[right.way[0]].loops
    used = frozenset().union(*(term.symbols() for term in right.subscripts))
    if reduction.place == "local":
        return tuple(symbol for symbol in around if symbol in reduction.loops and symbol in used)
    start = around.index(reduction.loops[0]) if reduction.loops[0] in around else len(around)
    return tuple(symbol for symbol in around[start:] if symbol in used)


def _loops_within(form: Form, reduction: Reduction, elements: Iterable[Origin]) -> tuple[Symbol, ...]:
    """The loops of a sum from its outermost one inwards to the last of some elements."""
    around = max((form.accesses[each.way[0]].loops for each in elements), key=len, default=())
    return around[around.index(reduction.loops[0]) :] if reduction.loops[0] in around else reduction.loops


def _output(form: Form, reduction: Reduction) -> tuple[Access | None, dict[Symbol, Term]]:
    """The store that the sum goes to, and what the indices of the sums are called there."""
    names = {carried.name for carried in reduction.carried}
    for access in form.accesses:
        if not access.is_write or not access.is_global or not access.subscripts:
            continue
        for part in _computed_from(access.value):
            if reduction.place == "register" and getattr(part.detail, "name", "") in names:
                return access, {}
            if reduction.place == "local" and part.op == "read":
                read = leaf(form, part)
                update = form.accesses[reduction.accesses[-1]]
                if read is not None and read[0].array == update.array:
                    return access, _names_there(read[0], update)
    return None, {}


def _computed_from(data: Data | None) -> Iterator[Data]:
    """A value's operands down to the next reduction."""
    waiting, seen = [data], set[int]()
    while waiting:
        part = plain(waiting.pop())
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if part.op not in ("result", "carried"):
            waiting += part.args


def _names_there(read: Access, update: Access) -> dict[Symbol, Term]:
    """What the loops that sum into accumulators are called where the accumulators are read."""
    found: dict[Symbol, Term] = {}
    for now, then in zip(read.subscripts, update.subscripts, strict=False):
        # `i * 8 + j` of two loops each: what is multiplied by the same is the same.
        here = {n: mono[0] for mono, n in now.parts.items() if len(mono) == 1}
        for mono, n in then.parts.items():
            symbol = mono[0] if len(mono) == 1 else None
            if isinstance(symbol, Symbol) and symbol.kind == "loop" and n in here:
                found[symbol] = now if then.atom == symbol else Term.of(here[n])
    return found


def _renamed(side: Origin, names: Mapping[Symbol, Term]) -> Origin:
    return replace(side, subscripts=tuple(term.substitute(names) for term in side.subscripts))


def _epilogue(output: Access) -> tuple[str, ...]:
    """Operations between the sum and the store, besides conversions."""
    words: dict[str, None] = {}
    for part in _computed_from(output.value):
        if part.op in ("add", "sub", "mul", "div", "max", "min", "call", "neg"):
            words[str(part.detail) if part.op == "call" else part.op] = None
    return tuple(words)
