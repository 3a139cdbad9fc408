"""Terms and conditions as a person writes them: `row * C + c`, `bx * 256 + tx < N`."""

from __future__ import annotations

from collections.abc import Callable

from evo.analysis.access.conditions import ALWAYS, NEVER, Combined, Compare, Condition
from evo.analysis.access.terms import Atom, Monomial, Op, Symbol, Term

_RANK = {"block": 0, "loop": 1, "thread": 2, "value": 3, "axis": 4, "chip": 5, "address": 6}
_INFIX = {"div": "/", "mod": "%", "xor": "^", "and": "&", "or": "|", "shl": "<<", "shr": ">>"}


def _rank(atom: Atom) -> tuple[int, str]:
    if isinstance(atom, Symbol):
        return _RANK[atom.kind], atom.name
    return min((_RANK[symbol.kind] for symbol in atom.symbols()), default=9), atom.key


def spell(term: Term) -> str:
    """The sum, indices first, the constant last."""
    if not term.parts:
        return "0"
    said = ""
    for mono, n in sorted(term.parts.items(), key=_place):
        word = _product(mono, abs(n))
        sign = ("-" if n < 0 else "") if not said else (" - " if n < 0 else " + ")
        said += sign + word
    return said


def _place(part: tuple[Monomial, int]) -> tuple[int, int, list[tuple[int, str]]]:
    mono, n = part
    return (not mono, n < 0, sorted(_rank(atom) for atom in mono))


def _product(mono: Monomial, n: int) -> str:
    if len(mono) == 1 and n == 1 and isinstance(mono[0], Op) and mono[0].name in ("div", "mod"):
        return mono[0].text
    factors = [_factor(atom) for atom in sorted(mono, key=_rank)]
    if n != 1 or not factors:
        factors.append(str(n))
    return " * ".join(factors)


def _factor(atom: Atom) -> str:
    if isinstance(atom, Op) and (atom.name in _INFIX or atom.name == "select"):
        return f"({atom.text})"
    return atom.text


def _operand(term: Term) -> str:
    is_simple = len(term.parts) <= 1 and (term.value is not None or term.atom is not None)
    atom = term.atom
    if isinstance(atom, Op) and (atom.name in _INFIX or atom.name == "select"):
        is_simple = atom.name in ("div", "mod")
    return term.text if is_simple else f"({term.text})"


def spell_op(op: Op) -> str:
    if op.name == "select":
        condition, left, right = op.args
        return f"{spell_condition(condition)} ? {left.text} : {right.text}"  # type: ignore[arg-type]
    left, right = op.terms
    if op.name in _INFIX:
        return f"{_operand(left)} {_INFIX[op.name]} {_atomic(right)}"
    if op.name == "wrap":
        return f"unsigned({left.text})"
    if op.name == "power":
        return f"{_atomic(left)}^{_atomic(right)}"
    return f"{op.name}({left.text}, {right.text})"


def _atomic(term: Term) -> str:
    return term.text if term.value is not None or isinstance(term.atom, Symbol) else f"({term.text})"


def spell_condition(condition: Condition, name: Callable[[Term], str] = spell) -> str:
    """`i < n and j >= 0`; what is subtracted goes to the other side."""
    if condition == ALWAYS:
        return "always"
    if condition == NEVER:
        return "never"
    if isinstance(condition, Compare):
        return _comparison(condition, name)
    if isinstance(condition, Combined):
        word = f" {condition.word} "
        return word.join(
            f"({spell_condition(item, name)})" if isinstance(item, Combined) else spell_condition(item, name)
            for item in condition.items
        )
    return condition.text


def _comparison(condition: Compare, name: Callable[[Term], str]) -> str:
    left = Term({mono: n for mono, n in condition.term.parts.items() if mono and n > 0})
    right = Term({mono: -n for mono, n in condition.term.parts.items() if mono and n < 0})
    constant = condition.term.constant
    if condition.relation != ">=":
        return f"{name(left if left.parts else right)} {condition.relation} " + (
            name(right + -constant) if left.parts else name(Term.number(constant))
        )
    # left + constant >= right. The index stands on the left: `i < n`.
    if _leads(right) < _leads(left):
        return (
            f"{name(right)} < {name(left + (constant + 1))}"
            if constant < 0
            else (f"{name(right)} <= {name(left + constant)}")
        )
    return f"{name(left)} >= {name(right - constant)}"


def _leads(term: Term) -> int:
    return min((_rank(atom)[0] for mono in term.parts for atom in mono), default=9)
