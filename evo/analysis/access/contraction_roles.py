"""What the dimensions of a contraction's tensors are, one letter each: see `Contraction`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from evo.analysis.access.comparisons import Combined, Compare, Unsure
from evo.analysis.access.data_values import parts_of, plain
from evo.analysis.access.form import Data, Form
from evo.analysis.access.renaming import in_indices
from evo.analysis.access.staging import Origin
from evo.analysis.access.terms import Symbol, Term

_OPAQUE = frozenset({"carried", "result", "unknown", "shuffle", "mma", "pack", "part"})
_NOT_KNOWN = Symbol("not known", "value", 0)


def element_names(at: tuple[Term, ...]) -> list[Symbol]:
    """What the indices of the output's elements are called."""
    return [Symbol(f"element{d}", "value", d + 1) for d in range(len(at))]


def computed_from(form: Form, data: Data | None) -> Iterator[Data]:
    """A value and all that it is computed from: by operations, as a condition, an index, or a place that is read."""
    waiting, seen = [plain(data)], set[int]()
    while waiting:
        whole = waiting.pop()
        for part in parts_of(whole):
            if id(part) in seen:
                continue
            seen.add(id(part))
            yield part
            symbols = frozenset[Symbol]().union(*(term.symbols() for term in _terms_in(form, part)))
            waiting += [form.values[each].data for each in symbols if each in form.values]


def told_by(form: Form, data: Data | None, at: tuple[Term, ...]) -> frozenset[Symbol]:
    """What indices a value depends on: those of the output's element, loops, and what is not known. at: the element's
    subscripts.
    """
    names, found = element_names(at), set[Symbol]()
    for part in computed_from(form, data):
        if part.op in _OPAQUE:
            found.add(_NOT_KNOWN)
        for term in _terms_in(form, part):
            said = indices_in(in_indices(term, at, names))
            found |= {s for s in said if s not in form.values or form.values[s].data is None}
    return frozenset(found)


def _terms_in(form: Form, part: Data) -> Iterator[Term]:
    """The indices in one operation."""
    if part.op == "index" and isinstance(part.detail, Term):
        yield part.detail
    elif part.op == "read" and isinstance(part.detail, int):
        access = form.accesses[part.detail] if part.detail >= 0 else None
        if access is None or not access.is_global or access.index is None:
            yield Term.of(_NOT_KNOWN)
        else:
            yield from access.subscripts or (access.index,)
    conditions = [part.detail]
    while conditions:
        condition = conditions.pop()
        if isinstance(condition, Compare):
            yield condition.term
        elif isinstance(condition, Unsure):
            yield Term.of(condition.symbol)
        elif isinstance(condition, Combined):
            conditions += condition.items


def roles_by_output(
    left: tuple[Term, ...],
    right: tuple[Term, ...],
    at: tuple[Term, ...],
    summed: tuple[Symbol, ...],
    form: Form | None = None,
) -> dict[str, str] | None:
    """The letters if both factors are read at places that the output's element and the summed loops tell: of a form,
    if a place that data tells is what the data's own place is.
    """
    names, inside = element_names(at), frozenset(summed)
    known = frozenset(names) | inside
    sides = [
        [
            told_by(form, Data("index", (), term), at) if form is not None else indices_in(in_indices(term, at, names))
            for term in side
        ]
        for side in (left, right)
    ]
    if not at or any(told - known for side in sides for told in side):
        return None
    used = [frozenset(names) & frozenset[Symbol]().union(*side) for side in sides]
    letters = ["b" if n in used[0] & used[1] else "m" if n in used[0] else "n" if n in used[1] else "1" for n in names]
    found = {"output": "".join(letters)}
    for word, own, side in (("left", "m", sides[0]), ("right", "n", sides[1])):
        roles = ""
        for told in side:
            free, over = told & frozenset(names), told & inside
            both = "b" if free <= used[0] & used[1] else own
            # `head * size + k` of both factors is no window, nor is what data says of a place.
            roles += ("k" if both == "b" or form is not None else "w") if over else both if free else "1"
        found[word] = roles
    return found


def roles_of(at: tuple[Term, ...], other: tuple[Term, ...], summed: tuple[Symbol, ...], own: str) -> str:
    free = [term for term in other if not term.symbols() & frozenset(summed)]
    beside = frozenset().union(*(indices_in(term) for term in free if term not in at))
    shared = frozenset().union(*(indices_in(term) for term in free))
    letters = []
    for term in at:
        indices, inside = indices_in(term), term.symbols() & frozenset(summed)
        if inside:
            letters.append("k" if indices <= inside else "w")
        elif not indices:
            letters.append("1")
        else:
            # One index of a thread may stand for several: what both factors have is theirs, whatever it is made of.
            is_both = term in free or (indices <= shared and not indices & beside)
            letters.append("b" if is_both else own)
    return "".join(letters)


def output_role(term: Term, left: tuple[Term, ...], right: tuple[Term, ...]) -> str:
    if term in left and term in right:
        return "b"
    if term in left or term in right:
        return "m" if term in left else "n"
    indices = indices_in(term)
    if not indices:
        return "1"
    near = [max((len(indices & indices_in(t)) for t in side), default=0) for side in (left, right)]
    return "m" if near[0] >= near[1] else "n"


def has_window(left: tuple[Term, ...], right: tuple[Term, ...], summed: tuple[Symbol, ...]) -> bool:
    """Whether one factor stands at output index and summed index together, and the other at the summed one alone."""
    inside = frozenset(summed)
    for wide, narrow in ((left, right), (right, left)):
        for term in wide:
            over = term.symbols() & inside
            is_mixed = over and not indices_in(term) <= inside
            if is_mixed and any(indices_in(other) & over and indices_in(other) <= inside for other in narrow):
                return True
    return False


def kind_of(roles: Mapping[str, str], left: Origin | None) -> str:
    if "w" in roles["left"] + roles["right"]:
        return "convolution"
    has_m, has_n = "m" in roles["left"] or left is None, "n" in roles["right"]
    return "matmul" if has_m and has_n else "matvec" if has_m or has_n else "dot"


def indices_in(term: Term) -> frozenset[Symbol]:
    return frozenset(symbol for symbol in term.symbols() if symbol.kind in ("block", "thread", "loop", "value"))
