"""Terms said in other indices: those of a tensor's element instead of blocks and threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evo.analysis.access.form import THREAD
from evo.analysis.access.terms import Atom, Op, Symbol, Term, fold


def in_indices(term: Term, old: Sequence[Term], new: Sequence[Symbol]) -> Term:
    """A term of blocks and threads in what the old terms are called now. What it cannot say stays as it was.

    An old term may be one symbol, one operation (`pixel / width`), which is replaced wherever it stands, or a sum,
    which is solved for a thread index or an operation that stands in it once, or else for a loop's variable.
    """
    ops: dict[Op, Term] = {}
    values: dict[Symbol, Term] = {}
    for place, name in zip(old, new, strict=True):
        atom = place.atom
        if isinstance(atom, Symbol):
            values[atom] = Term.of(name)
        elif isinstance(atom, Op):
            ops[atom] = Term.of(name)
        else:
            free = _free(place, values)
            if isinstance(free, Symbol):
                values[free] = Term.of(name) - (place - Term.of(free))
            elif free is not None:
                ops[free] = Term.of(name) - (place - Term.of(free))
    for op in sorted(ops, key=lambda each: -len(each.key)):
        term = replaced(term, op, ops[op])
    return term.substitute(values)


def _free(place: Term, values: Mapping[Symbol, Term]) -> Symbol | Op | None:
    """What a sum is solved for."""
    loop: Symbol | None = None
    for mono, n in place.parts.items():
        atom = mono[0] if len(mono) == 1 and n == 1 else None
        if atom is None or sum(atom in other for other in place.parts) != 1:
            continue
        if isinstance(atom, Op):
            return atom
        if atom in THREAD and atom not in values and not any(atom in op.symbols() for op in place.ops()):
            return atom
        if isinstance(atom, Symbol) and atom.kind == "loop" and atom not in values and loop is None:
            loop = atom if not any(atom in op.symbols() for op in place.ops()) else None
    return loop


def replaced(term: Term, op: Op, by: Term) -> Term:
    """The term with an operation replaced, inside of others too."""
    if not any(inner == op for inner in term.ops()):
        return term

    def made(atom: Atom) -> Term:
        if atom == op:
            return by
        if isinstance(atom, Op) and all(isinstance(arg, Term) for arg in atom.args):
            return fold(Op(atom.name, tuple(replaced(arg, op, by) for arg in atom.terms)))
        return Term.of(atom)

    return term.mapped(made)
