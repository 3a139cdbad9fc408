"""Arithmetic on sizes as a tree of terms, for thousands of sizes at once: results, and outcomes of comparisons.

Two texts are read into it: expressions of launch lines (`launch_terms`), and what a compiler computes from sizes that
are compiled in (`evo.cuda.source.written_terms`). A decision is a comparison, a condition, a choice of `min` or `max`,
or a quotient, remainder, shift or mask that is zero or not. What stands behind a decision counts where it leads there.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]  # one a size: whole numbers, or floats
Mask = NDArray[np.bool_]

COMPARISONS: dict[str, Callable[[Values, Values], Values]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip
SPLITS = frozenset(("/", "%", "floor/", "floor%", ">>", "&"))  # results that are zero on one side of a threshold
_CONDITIONS = frozenset((*COMPARISONS, "&&", "||", "!"))
_BRANCHES = frozenset(("?", "&&", "||", "!", "call", "local"))
_TURNS = 300  # of a loop
_WORK = 8000  # operations, beyond which loops end and functions give zero
_DEEP = 60  # functions that call one another
_EXACT = 2.0**62  # beyond it, Python's own numbers take over in launch lines


@dataclass(frozen=True, slots=True, eq=False)
class SizeTerm:
    """One operation. kind: the C type of its result, or `int`: a whole number of any length.

    op: an operator of C, `floor/`, `floor%`, `neg`, `min`, `max`, `ceil_div`, `cast`; `number`, `size` (an axis),
    `local` (a parameter or variable of a function), `shared` (a constant that many use), `call`.
    """

    op: str
    parts: tuple[SizeTerm, ...] = ()
    number: int | float = 0
    name: str = ""
    kind: str = "int"
    line: int = 0
    text: str = ""
    function: SizeFunction | None = None

    def walk(self) -> Iterator[SizeTerm]:
        """This term and those that it is made of, each once; bodies of functions are not entered."""
        seen: set[int] = set()
        pending = [self]
        while pending:
            term = pending.pop()
            if id(term) not in seen:
                seen.add(id(term))
                yield term
                pending += term.parts


@dataclass(slots=True, eq=False)
class SizeFunction:
    """A function of numbers. steps: None while it is being read, or if it cannot be."""

    parameters: tuple[str, ...]
    steps: tuple[SizeStep, ...] | None = None
    names: frozenset[str] = frozenset()  # sizes that it reads itself


@dataclass(frozen=True, slots=True, eq=False)
class SizeStep:
    """A statement: `set`, `return`, `if` or `while`. late: a loop that runs once before it asks."""

    op: str
    term: SizeTerm
    name: str = ""
    then: tuple[SizeStep, ...] = ()
    other: tuple[SizeStep, ...] = ()
    late: bool = False


@dataclass(slots=True, eq=False)
class SizeDecision:
    """Where a decision came out true, and where false; both if it is met several times."""

    true: Mask
    false: Mask


_Plain = tuple[Values, list[tuple["SizeTerm", Mask]]]  # values, and the decisions on the way


@dataclass(slots=True, eq=False)
class SizeEvaluation:
    """Terms at so many sizes. replaced: terms that give a number instead."""

    sizes: Mapping[str, Values]
    count: int
    replaced: Mapping[SizeTerm, int] = field(default_factory=dict)
    decided: dict[SizeTerm, SizeDecision] = field(default_factory=dict)
    _shared: dict[SizeTerm, Values] = field(default_factory=dict)
    _plain: dict[SizeTerm, _Plain] = field(default_factory=dict)
    _depth: int = 0
    work: int = 0  # operations so far

    def of(self, term: SizeTerm, mask: Mask | None = None) -> Values:
        """Values of a term; where the mask is false they mean nothing."""
        with np.errstate(all="ignore"):
            whole = np.ones(self.count, bool) if mask is None else mask
            return self._of(term, whole, {})

    def truth(self, term: SizeTerm, mask: Mask | None = None) -> Mask:
        return np.asarray(self.of(term, mask) != 0, bool)

    def note(self, term: SizeTerm, outcome: Mask, mask: Mask) -> None:
        """That a decision is met where the mask is true."""
        if term not in self.decided:
            self.decided[term] = SizeDecision(np.zeros(self.count, bool), np.zeros(self.count, bool))
        self.decided[term].true |= mask & outcome
        self.decided[term].false |= mask & ~outcome

    def _of(self, term: SizeTerm, mask: Mask, local: dict[str, Values]) -> Values:
        self.work += 1
        if term in self.replaced:
            return self._number(self.replaced[term])
        match term.op:
            case "number":
                return self._number(term.number)
            case "size":
                return self.sizes[term.name]
            case "local":
                return local.get(term.name, self._number(0))
            case "shared":
                if term not in self._shared:
                    self._shared[term] = self._of(term.parts[0], np.ones(self.count, bool), {})
                return _wrapped(self._shared[term], term.kind)
            case "call":
                return self._called(term, mask, local)
            case "?":
                asked = self._condition(term.parts[0], mask, local)
                then = self._of(term.parts[1], mask & asked, local) if (mask & asked).any() else self._number(0)
                other = self._of(term.parts[2], mask & ~asked, local) if (mask & ~asked).any() else self._number(0)
                return np.where(asked, then, other)
            case "&&" | "||":
                first = self._condition(term.parts[0], mask, local)
                goes_on = mask & (first if term.op == "&&" else ~first)
                second = self._condition(term.parts[1], goes_on, local) if goes_on.any() else ~first & False
                found = first & second if term.op == "&&" else first | second
                self.note(term, found, mask)
                return found.astype(np.int64)
            case "!":
                return (~self._condition(term.parts[0], mask, local)).astype(np.int64)
        plain = None if local else self._without_branches(term)
        if plain is None:
            value, outcome = self._computed(term, [self._of(part, mask, local) for part in term.parts])
            decided = [] if outcome is None else [(term, outcome)]
        else:
            value, decided = plain
        for decision, outcome in decided:
            self.note(decision, outcome, mask)
        return value

    def _without_branches(self, term: SizeTerm) -> _Plain | None:
        """Arithmetic that is the same wherever it stands, once; None if it is not."""
        if term in self._plain:
            return self._plain[term]
        given, decided = [], list[tuple[SizeTerm, Mask]]()
        for part in term.parts:
            if part.op in ("number", "size", "shared") or part in self.replaced:
                given.append(self._of(part, np.ones(self.count, bool), {}))
                continue
            inner = None if part.op in _BRANCHES else self._without_branches(part)
            if inner is None:
                return None
            given.append(inner[0])
            decided += inner[1]
        self.work += 1
        value, outcome = self._computed(term, given)
        self._plain[term] = value, decided if outcome is None else [*decided, (term, outcome)]
        return self._plain[term]

    def forget(self) -> None:
        """Leave what was decided, and nothing else."""
        self._plain.clear()
        self._shared.clear()

    def _number(self, number: int | float) -> Values:
        if isinstance(number, int) and not -(2**63) <= number < 2**63:
            return np.full(self.count, number, object)
        return np.full(self.count, number)

    def _condition(self, term: SizeTerm, mask: Mask, local: dict[str, Values]) -> Mask:
        found = np.asarray(self._of(term, mask, local) != 0, bool)
        if term.op not in _CONDITIONS and term.op not in SPLITS:  # those say so themselves
            self.note(term, found, mask)
        return found

    def _computed(self, term: SizeTerm, given: list[Values]) -> tuple[Values, Mask | None]:
        """A value, and how it decides if it does."""
        if term.op in COMPARISONS:
            kind = common_kind(*(part.kind for part in term.parts))
            found = np.asarray(COMPARISONS[term.op](*(_viewed(value, kind) for value in given)), bool)
            return found.astype(np.int64), found
        value = _wrapped(_arithmetic(term.op, given, term.kind), term.kind)
        if term.op in SPLITS and value.dtype.kind != "f":
            return value, np.asarray(value != 0, bool)
        return value, np.asarray(value == given[0], bool) if term.op in ("min", "max") else None

    def _called(self, term: SizeTerm, mask: Mask, local: dict[str, Values]) -> Values:
        assert term.function is not None
        given = [self._of(part, mask, local) for part in term.parts]
        own = dict(zip(term.function.parameters, given, strict=False))
        result = self._number(0)
        if self._depth < _DEEP and self.work < _WORK and mask.any():
            self._depth += 1
            result, _ = self._run(term.function.steps or (), mask, own, result)
            self._depth -= 1
        return _wrapped(result, term.kind)

    def _run(
        self, steps: tuple[SizeStep, ...], mask: Mask, own: dict[str, Values], result: Values
    ) -> tuple[Values, Mask]:
        """The steps of a function where the mask is true; the result so far, and where they go on."""
        for step in steps:
            if not mask.any():
                break
            if step.op == "set":
                value = self._of(step.term, mask, own)
                own[step.name] = np.where(mask, value, own.get(step.name, self._number(0)))
            elif step.op == "return":
                result = np.where(mask, self._of(step.term, mask, own), result)
                mask = mask & False
            elif step.op == "if":
                asked = self._condition(step.term, mask, own)
                result, then = self._run(step.then, mask & asked, own, result)
                result, other = self._run(step.other, mask & ~asked, own, result)
                mask = then | other
            else:
                turning, ended = mask, mask & False
                for turn in range(_TURNS):
                    if not (step.late and not turn):
                        asked = self._condition(step.term, turning, own)
                        turning, ended = turning & asked, ended | (turning & ~asked)
                    if not turning.any() or self.work > _WORK:
                        break
                    result, turning = self._run(step.then, turning, own, result)
                mask = ended | turning
        return result, mask


def common_kind(*kinds: str) -> str:
    """The type in which C computes with numbers of these."""
    order = ("int", "i32", "u32", "i64", "u64", "f64")
    return max(kinds, key=order.index)


def _wrapped(value: Values, kind: str) -> Values:
    if kind == "int" or value.dtype == object:
        return value
    if kind == "f64":
        return value.astype(np.float64)
    whole = value.astype(np.int64)
    if kind == "u32":
        return whole & 0xFFFFFFFF
    return ((whole + (1 << 31)) & 0xFFFFFFFF) - (1 << 31) if kind == "i32" else whole


def _viewed(value: Values, kind: str) -> Values:
    """For comparisons and divisions: 64 bits without a sign are held as those with one."""
    if kind == "u64" and value.dtype.kind == "i":
        return value.view(np.uint64)
    return value & 0xFFFFFFFF if kind == "u32" and value.dtype.kind == "i" else value


def _arithmetic(op: str, given: list[Values], kind: str) -> Values:
    if len(given) == 1:
        return _single(op, given[0])
    if len(given) > 2:
        return _arithmetic(op, [_arithmetic(op, given[:-1], kind), given[-1]], kind)
    a, b = given
    if kind == "int" and op in ("+", "-", "*", "<<") and a.dtype.kind == b.dtype.kind == "i" and _is_far(op, a, b):
        a, b = a.astype(object), b.astype(object)
    if op in _PLAIN:
        return np.asarray(_PLAIN[op](a, b))
    if op in ("<<", ">>"):
        shift = np.clip(b.astype(np.int64), 0, 63)
        return np.asarray(a << shift if op == "<<" else _viewed(a, kind) >> shift.astype(_viewed(a, kind).dtype))
    if "f" in (a.dtype.kind, b.dtype.kind):
        quotient = a.astype(np.float64) / np.where(b == 0, 1, b).astype(np.float64)
        return np.floor(quotient) if op == "floor/" else quotient
    b = np.where(b == 0, 1, b)
    a, b = _viewed(a, kind), _viewed(b, kind)
    if op in ("floor/", "ceil_div"):
        return np.asarray(a // b if op == "floor/" else -(-a // b))
    if op == "floor%":
        return np.asarray(a % b)
    towards_zero = np.sign(a) * np.sign(b) * (abs(a) // abs(b)) if a.dtype.kind == "i" else a // b
    return np.asarray(towards_zero if op == "/" else a - towards_zero * b)


_PLAIN: dict[str, Callable[[Values, Values], Values]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "min": np.minimum, "max": np.maximum, "real/": lambda a, b: a / np.where(b == 0, 1, b),
}  # fmt: skip


def _single(op: str, value: Values) -> Values:
    match op:
        case "neg":
            return np.asarray(-value)
        case "~":
            return np.asarray(~value)
        case "sqrt":
            return np.sqrt(np.maximum(value.astype(np.float64), 0))
        case "log2":
            return np.log2(np.maximum(value.astype(np.float64), 1e-300))
        case "bool":
            return np.asarray(value != 0).astype(np.int64)
    return value


def _is_far(op: str, a: Values, b: Values) -> bool:
    """Whether 64 bits may not hold the result."""
    first, second = (float(np.abs(value.astype(np.float64)).max(initial=0.0)) for value in (a, b))
    if op == "<<":
        return bool(first * 2.0 ** min(second, 200.0) >= _EXACT)
    return bool((first * second if op == "*" else first + second) >= _EXACT)


# Launch lines ---------------------------------------------------------------------------------------------------------

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "floor/", ast.Mod: "floor%", ast.Div: "real/",
    ast.BitXor: "^", ast.BitAnd: "&", ast.BitOr: "|", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def launch_term(
    tree: ast.expr, axes: frozenset[str], names: Mapping[str, int | float], line: int, known: dict[str, SizeTerm]
) -> SizeTerm | None:
    """A checked expression of a launch line; None if it names what is not known. known: terms of equal text."""

    def made(op: str, node: ast.expr, *parts: ast.expr | SizeTerm) -> SizeTerm:
        given = tuple(part if isinstance(part, SizeTerm) else read(part) for part in parts)
        key = f"{op} {ast.unparse(node)} {[id(part) for part in given if part.op not in ('number', 'size')]}"
        return known.setdefault(key, SizeTerm(op, given, line=line, text=ast.unparse(node)))

    def read(node: ast.expr) -> SizeTerm:
        match node:
            case ast.Constant(value=int() | float() as value):
                return SizeTerm("number", number=value)
            case ast.Name(id=name):
                return SizeTerm("size", name=name) if name in axes else SizeTerm("number", number=names[name])
            case ast.Attribute(attr=attr):
                return SizeTerm("number", number=names[f"chip.{attr}"])
            case ast.BinOp(left=left, op=op, right=right):
                return made(_BINARY[type(op)], node, left, right)
            case ast.UnaryOp(op=op, operand=operand):
                if isinstance(op, ast.UAdd):
                    return read(operand)
                return made("!" if isinstance(op, ast.Not) else "neg", node, operand)
            case ast.BoolOp(op=op, values=[first, *others]):
                word = "&&" if isinstance(op, ast.And) else "||"
                return functools.reduce(lambda found, other: made(word, node, found, other), others, read(first))
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                pairs = zip([left, *comparators], ops, comparators, strict=False)
                tests = [made(_COMPARED[type(op)], node, first, second) for first, op, second in pairs]
                return functools.reduce(lambda found, test: made("&&", node, found, test), tests)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return made("?", node, test, body, orelse)
            case ast.Call(func=ast.Name(id=name), args=args):
                return made(name, node, *args)
        raise KeyError(type(node).__name__)

    try:
        return read(tree)
    except KeyError:
        return None
