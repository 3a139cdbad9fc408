"""What the dimensions of a contraction's tensors are, one letter each: see `Contraction`."""

from __future__ import annotations

from collections.abc import Mapping

from evo.analysis.access.renaming import in_indices
from evo.analysis.access.staging import Origin
from evo.analysis.access.terms import Symbol, Term


def element_names(at: tuple[Term, ...]) -> list[Symbol]:
    """What the indices of the output's elements are called."""
    return [Symbol(f"element{d}", "value", d + 1) for d in range(len(at))]


def roles_by_output(
    left: tuple[Term, ...], right: tuple[Term, ...], at: tuple[Term, ...], summed: tuple[Symbol, ...]
) -> dict[str, str] | None:
    """The letters if both factors are read at places that the output's element and the summed loops tell."""
    names, inside = element_names(at), frozenset(summed)
    known = frozenset(names) | inside
    sides = [[in_indices(term, at, names) for term in side] for side in (left, right)]
    if not at or any(indices_in(term) - known for side in sides for term in side):
        return None
    used = [frozenset(names) & frozenset().union(*(term.symbols() for term in side)) for side in sides]
    letters = ["b" if n in used[0] & used[1] else "m" if n in used[0] else "n" if n in used[1] else "1" for n in names]
    found = {"output": "".join(letters)}
    for word, own, side in (("left", "m", sides[0]), ("right", "n", sides[1])):
        roles = ""
        for term in side:
            free, over = term.symbols() & frozenset(names), term.symbols() & inside
            both = "b" if free <= used[0] & used[1] else own
            roles += ("w" if over else both) if free else "k" if over else "1"
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
