"""Integer expressions of a kernel: polynomials over thread, block and loop indices, axes, and quasi-affine parts.

A `Term` is a sum of integer multiples of products of atoms. An atom is a `Symbol` or an `Op` (division, remainder,
minimum, bit operation ...) over terms, with the meaning that C++ gives it: division truncates towards zero. A
condition is a comparison of a term with 0, or a combination of such. All are immutable and compare by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from evo.analysis.access.folding import FOLDED


class Predicate(Protocol):
    """What chooses between two terms: a condition, which is defined on top of terms."""

    @property
    def key(self) -> str: ...

    @property
    def text(self) -> str: ...

    def symbols(self) -> frozenset[Symbol]: ...

    def ops(self) -> Iterator[Op]: ...

    def substitute(self, values: Mapping[Symbol, Term], rebuild: Callable[[Op], Term] | None = None) -> Predicate: ...


class Symbol:
    """An index or a quantity that has no formula.

    kind: `block` (blockIdx), `thread` (threadIdx), `loop` (the variable of a loop), `axis` (of the task), `chip` (of
    the chip), `address` (where an array begins, in bytes), `value` (known only from data). number tells apart those of
    one name.
    """

    __slots__ = ("_alone", "_hash", "key", "kind", "name", "number")

    def __init__(self, name: str, kind: str, number: int = 0) -> None:
        self.name, self.kind, self.number = name, kind, number
        self.key = f"{name}#{number}" if number else name
        self._hash = hash((name, kind, number))
        self._alone = frozenset((self,))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Symbol)
            and self.number == other.number
            and self.name == other.name
            and self.kind == other.kind
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Symbol({self.key}, {self.kind})"

    @property
    def text(self) -> str:
        return self.name

    def symbols(self) -> frozenset[Symbol]:
        return self._alone


class Op:
    """An operation that is no polynomial.

    name: `div` and `mod` (truncating), `min`, `max`, `xor`, `and`, `or`, `shl`, `shr`, `select` (condition, two
    terms), `wrap` (term, bits: as unsigned), `power` (base, exponent).
    """

    __slots__ = ("_hash", "_symbols", "args", "chooses", "key", "name", "terms")

    def __init__(self, name: str, args: tuple[Term | Predicate, ...]) -> None:
        self.name, self.args = name, args
        self.key = f"{name}({','.join(arg.key for arg in args)})"
        self._hash = hash(self.key)
        self._symbols: frozenset[Symbol] | None = None
        self.terms = tuple(arg for arg in args if isinstance(arg, Term))  # the operands that are terms
        # Whether it is a choice, or has one in its operands.
        self.chooses: bool = name in ("select", "min", "max") or any(
            isinstance(atom, Op) and atom.chooses for term in self.terms for mono in term.parts for atom in mono
        )

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Op) and self._hash == other._hash and self.key == other.key)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Op({self.text})"

    @property
    def text(self) -> str:
        return spell_op(self)

    def symbols(self) -> frozenset[Symbol]:
        if self._symbols is None:
            self._symbols = frozenset().union(*(arg.symbols() for arg in self.args))
        return self._symbols


Atom = Symbol | Op
Monomial = tuple[Atom, ...]


def _order(atom: Atom) -> str:
    return atom.key


class Term:
    """A polynomial: {product of atoms: coefficient}; the empty product holds the constant."""

    __slots__ = ("_has_mod", "_hash", "_key", "_symbols", "parts")

    def __init__(self, parts: Mapping[Monomial, int]) -> None:
        self.parts = parts
        self._has_mod: bool | None = None
        self._hash: int | None = None
        self._key: str | None = None
        self._symbols: frozenset[Symbol] | None = None

    @staticmethod
    def number(value: int) -> Term:
        return Term({(): value} if value else {})

    @staticmethod
    def of(atom: Atom) -> Term:
        return Term({(atom,): 1})

    @property
    def key(self) -> str:
        if self._key is None:
            spelled = ("*".join([str(n), *(atom.key for atom in mono)]) for mono, n in self.parts.items())
            self._key = "+".join(sorted(spelled))
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Term) and self.parts == other.parts

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.parts.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"Term({self.text})"

    @property
    def text(self) -> str:
        return spell(self)

    @property
    def value(self) -> int | None:
        """The number that it is, or None."""
        if not self.parts:
            return 0
        return self.parts.get(()) if len(self.parts) == 1 else None

    @property
    def atom(self) -> Atom | None:
        """The one atom that it is, or None."""
        if len(self.parts) == 1:
            ((mono, n),) = self.parts.items()
            if n == 1 and len(mono) == 1:
                return mono[0]
        return None

    @property
    def has_mod(self) -> bool:
        """Whether a remainder is a factor in it."""
        if self._has_mod is None:
            self._has_mod = any(isinstance(a, Op) and a.name == "mod" for mono in self.parts for a in mono)
        return self._has_mod

    @property
    def constant(self) -> int:
        return self.parts.get((), 0)

    def symbols(self) -> frozenset[Symbol]:
        """All symbols in it, those inside operations too."""
        if self._symbols is None:
            self._symbols = frozenset().union(*(atom.symbols() for mono in self.parts for atom in mono))
        return self._symbols

    def ops(self) -> Iterator[Op]:
        """All operations in it, the inner ones too."""
        for mono in self.parts:
            for atom in mono:
                if isinstance(atom, Op):
                    yield from ops_of(atom)

    def __add__(self, other: Term | int) -> Term:
        if isinstance(other, int):
            other = Term.number(other)
        if not other.parts:
            return self
        parts = dict(self.parts)
        for mono, n in other.parts.items():
            total = parts.get(mono, 0) + n
            if total:
                parts[mono] = total
            else:
                parts.pop(mono, None)
        return _rejoin(parts) if self.has_mod or other.has_mod else Term(parts)

    __radd__ = __add__

    def __neg__(self) -> Term:
        return Term({mono: -n for mono, n in self.parts.items()})

    def __sub__(self, other: Term | int) -> Term:
        return self + -other

    def __rsub__(self, other: int) -> Term:
        return -self + other

    def __mul__(self, other: Term | int) -> Term:
        if isinstance(other, int):
            return Term({mono: n * other for mono, n in self.parts.items()} if other else {})
        if len(other.parts) == 1 and () in other.parts:
            return self * other.parts[()]
        parts: dict[Monomial, int] = {}
        for mono, n in self.parts.items():
            for beside, m in other.parts.items():
                both = tuple(sorted(mono + beside, key=_order)) if mono and beside else mono + beside
                total = parts.get(both, 0) + n * m
                if total:
                    parts[both] = total
                else:
                    del parts[both]
        return _rejoin(parts) if self.has_mod or other.has_mod else Term(parts)

    __rmul__ = __mul__

    def coefficient(self, symbol: Symbol) -> Term | None:
        """What the symbol is multiplied with, if the term is linear in it; else None."""
        parts: dict[Monomial, int] = {}
        if symbol not in self.symbols():
            return Term(parts)
        for mono, n in self.parts.items():
            count = 0
            for atom in mono:
                if atom == symbol:
                    count += 1
                elif isinstance(atom, Op) and symbol in atom.symbols():
                    return None
            if count > 1:
                return None
            if count:
                parts[tuple(atom for atom in mono if atom != symbol)] = n
        return Term(parts)

    def without(self, symbols: Iterable[Symbol]) -> Term:
        """The monomials in which none of the symbols occurs."""
        gone = frozenset(symbols)
        return Term({mono: n for mono, n in self.parts.items() if not any(gone & atom.symbols() for atom in mono)})

    def substitute(self, values: Mapping[Symbol, Term], rebuild: Callable[[Op], Term] | None = None) -> Term:
        """The term with symbols replaced, in operations too. rebuild: how an operation is made anew."""
        if not any(symbol in values for symbol in self.symbols()):
            return self
        return self.mapped(lambda atom: _substituted(atom, values, rebuild))

    def mapped(self, made: Callable[[Atom], Term]) -> Term:
        """The term with each of its factors made anew."""
        total = Term({})
        for mono, n in self.parts.items():
            product = Term.number(n)
            for atom in mono:
                product = product * made(atom)
            total = total + product
        return total


def _substituted(atom: Atom, values: Mapping[Symbol, Term], rebuild: Callable[[Op], Term] | None) -> Term:
    if isinstance(atom, Symbol):
        return values.get(atom, Term.of(atom))
    if not any(symbol in values for symbol in atom.symbols()):
        return Term.of(atom)
    made = Op(atom.name, tuple(arg.substitute(values, rebuild) for arg in atom.args))
    return (rebuild or fold)(made)


def ops_of(op: Op) -> Iterator[Op]:
    """An operation and all inside it."""
    yield op
    for arg in op.args:
        yield from arg.ops()


def _rejoin(parts: dict[Monomial, int]) -> Term:
    """The sum, with d * (x / d) + x % d written as x."""
    while True:
        for mono, n in parts.items():
            joined = _joined(parts, mono, n) if mono else None
            if joined is not None:
                parts = joined
                break
        else:
            return Term(parts)


def _joined(parts: dict[Monomial, int], mono: Monomial, n: int) -> dict[Monomial, int] | None:
    for at, atom in enumerate(mono):
        if not isinstance(atom, Op) or atom.name != "mod":
            continue
        rest = Term({mono[:at] + mono[at + 1 :]: n})
        whole, divisor = atom.terms
        quotient = Term.of(Op("div", atom.args))
        wanted = (rest * divisor) * quotient
        if wanted.parts and all(parts.get(found) == m for found, m in wanted.parts.items()):
            kept = {key: m for key, m in parts.items() if key != mono and key not in wanted.parts}
            return dict((Term(kept) + rest * whole).parts)
    return None


ZERO, ONE = Term.number(0), Term.number(1)
_ALWAYS, _NEVER = "and()", "or()"  # the keys of the conditions that always and never hold


def fold(op: Op) -> Term:
    """The operation, or its value if the operands are numbers; trivial ones are their operand."""
    left, right = op.terms
    if op.name == "select":
        if op.args[0].key == _ALWAYS or left == right:
            return left
        return right if op.args[0].key == _NEVER else Term.of(op)
    a, b = left.value, right.value
    if a is not None and b is not None:
        found = FOLDED[op.name](a, b)
        return Term.of(op) if found is None else Term.number(found)
    if op.name == "div" and b == 1:
        return left
    if op.name in ("xor", "or", "shl", "shr") and b == 0:
        return left
    if op.name in ("min", "max") and left == right:
        return left
    if (op.name == "mod" and b == 1) or (op.name in ("div", "mod") and a == 0):
        return ZERO
    return Term.of(op)


def apply(name: str, *args: Term | Predicate) -> Term:
    return fold(Op(name, args))


_RANK = {"block": 0, "loop": 1, "thread": 2, "value": 3, "axis": 4, "chip": 5, "address": 6}

_INFIX = {"div": "/", "mod": "%", "xor": "^", "and": "&", "or": "|", "shl": "<<", "shr": ">>"}


def order_of(atom: Atom) -> tuple[int, str]:
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
    return (not mono, n < 0, sorted(order_of(atom) for atom in mono))


def _product(mono: Monomial, n: int) -> str:
    if len(mono) == 1 and n == 1 and isinstance(mono[0], Op) and mono[0].name in ("div", "mod"):
        return mono[0].text
    factors = [_factor(atom) for atom in sorted(mono, key=order_of)]
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
    left, right = op.terms
    if op.name == "select":
        return f"{op.args[0].text} ? {left.text} : {right.text}"
    if op.name in _INFIX:
        return f"{_operand(left)} {_INFIX[op.name]} {_atomic(right)}"
    if op.name == "wrap":
        return f"unsigned({left.text})"
    if op.name == "power":
        return f"{_atomic(left)}^{_atomic(right)}"
    return f"{op.name}({left.text}, {right.text})"


def _atomic(term: Term) -> str:
    return term.text if term.value is not None or isinstance(term.atom, Symbol) else f"({term.text})"
