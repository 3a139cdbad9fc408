"""Integer sets: whether two accesses can touch the same byte. The only module that knows islpy.

An access at a case is a set of points (block, thread, loops) and a map to bytes, both with linear constraints; division
and remainder by constants stay exact. What is not linear there (a product of two indices, an exclusive or) is said so.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evo.analysis.access.comparisons import ALWAYS, Combined, Compare, Condition
from evo.analysis.access.form import BLOCK, THREAD, Access, Form, Loop
from evo.analysis.access.instances import FormSizes
from evo.analysis.access.terms import Op, Symbol, Term

SAME, BEFORE, AFTER, OTHER, ANY = "=", "<", ">", "!=", "*"


class NotLinear(Exception):
    """A term that is no linear one at this case. Internal: callers say what stands in the way."""


@dataclass(slots=True)
class AccessInstance:
    """One instance of an access in a formula: the names of its indices, and what must hold. tag: sets names apart.

    unsaid: why something that must hold too has no formula; the set has more points then, never fewer.
    """

    sizes: FormSizes
    tag: str
    names: dict[Symbol, str] = field(default_factory=dict)
    unknowns: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    unsaid: str = ""
    _count: itertools.count[int] = field(default_factory=itertools.count)

    def fresh(self, word: str) -> str:
        name = f"{word}{next(self._count)}{self.tag}"
        self.unknowns.append(name)
        return name

    def index(self, symbol: Symbol) -> str:
        """A new variable for a symbol."""
        name = self.fresh("v")
        self.names[symbol] = name
        return name

    def term(self, term: Term) -> str:
        """A linear expression. Raises NotLinear."""
        parts: list[str] = []
        for mono, count in term.parts.items():
            name, n = "", count
            for atom in mono:
                if isinstance(atom, Symbol) and atom in self.sizes.values:
                    n *= self.sizes.values[atom]
                    continue
                value = self._op(atom) if isinstance(atom, Op) else self._name(atom)
                if isinstance(value, int):
                    n *= value
                elif name:
                    raise NotLinear(f"`{term.text}` multiplies two indices")
                else:
                    name = value
            parts.append(f"{n}*{name}" if name else str(n))
        return " + ".join(parts) or "0"

    def _name(self, symbol: Symbol) -> str:
        if symbol not in self.names:
            raise NotLinear(f"`{symbol.name}` is known only from data")
        return self.names[symbol]

    def _op(self, op: Op) -> str | int:
        from evo.analysis.access.numeric import number_of

        number = number_of(Term.of(op), self.sizes.values)
        if number is not None:
            return number
        result = self.fresh("q")
        if op.name == "select":
            condition, (left, right) = op.args[0], op.terms
            assert isinstance(condition, Condition)
            then = f"{self.condition(condition)} and {result} = {self.term(left)}"
            otherwise = f"{self.condition(condition.negated())} and {result} = {self.term(right)}"
            self.constraints.append(f"(({then}) or ({otherwise}))")
            return result
        left_term, right_term = op.terms
        left_text = self.term(left_term)
        if op.name in ("min", "max"):
            right_text, sign = self.term(right_term), "<=" if op.name == "min" else ">="
            self.constraints.append(
                f"(({left_text} {sign} {right_text} and {result} = {left_text}) or"
                f" (not ({left_text} {sign} {right_text}) and {result} = {right_text}))"
            )
            return result
        divisor = number_of(right_term, self.sizes.values)
        if divisor is None or divisor <= 0:
            raise NotLinear(f"`{op.text}` has a divisor that is no constant")
        self._divided(op, result, left_text, divisor)
        return result

    def _divided(self, op: Op, result: str, left: str, divisor: int) -> None:
        if op.name not in ("div", "mod", "shr", "wrap"):
            raise NotLinear(f"`{op.text}` is no linear operation")
        if op.name in ("shr", "wrap"):  # these round down, whatever the sign
            size = 1 << divisor
            whole = self.fresh("w") if op.name == "wrap" else result
            self.constraints.append(f"{size}*{whole} <= {left} < {size}*{whole} + {size}")
            if op.name == "wrap":
                self.constraints.append(f"{result} = {left} - {size}*{whole}")
            return
        quotient = result if op.name == "div" else self.fresh("w")
        positive = f"{left} >= 0 and {divisor}*{quotient} <= {left} < {divisor}*{quotient} + {divisor}"
        negative = f"{left} < 0 and {divisor}*{quotient} - {divisor} < {left} <= {divisor}*{quotient}"
        self.constraints.append(f"(({positive}) or ({negative}))")
        if op.name == "mod":
            self.constraints.append(f"{result} = {left} - {divisor}*{quotient}")

    def condition(self, condition: Condition) -> str:
        """A condition as text. Raises NotLinear if data decides it."""
        if isinstance(condition, Compare):
            sign = {">=": ">=", "==": "=", "!=": "!="}[condition.relation]
            return f"{self.term(condition.term)} {sign} 0"
        if isinstance(condition, Combined):
            if not condition.items:
                return "true" if condition == ALWAYS else "false"
            return "(" + f" {condition.word} ".join(f"({self.condition(item)})" for item in condition.items) + ")"
        raise NotLinear(f"`{condition.text}` depends on data")

    def require(self, condition: Condition) -> None:
        """What must hold; noted if it has no formula."""
        said = len(self.constraints)
        try:
            self.constraints.append(self.condition(condition))
        except NotLinear as reason:
            del self.constraints[said:]
            self.unsaid = str(reason)


def point(
    form: Form, access: Access, sizes: FormSizes, tag: str, shared: Mapping[Symbol, str] | None = None
) -> AccessInstance:
    """The set of an access's instances. shared: variables that another point has already, taken over as they are."""
    found = AccessInstance(sizes, tag)
    for symbols, extents in ((BLOCK, sizes.grid), (THREAD, sizes.block)):
        for symbol, extent in zip(symbols, extents, strict=True):
            if shared and symbol in shared:
                found.names[symbol] = shared[symbol]
                continue
            name = found.index(symbol)
            found.constraints.append(f"0 <= {name} < {extent}")
    for part in access.context:
        if isinstance(part, Symbol):
            if shared and part in shared:
                found.names[part] = shared[part]
            else:
                _add_loop(found, form.loops[part])
        else:
            found.require(part)
    return found


def _add_loop(found: AccessInstance, loop: Loop) -> None:
    name = found.index(loop.symbol)
    if loop.values is not None:
        found.constraints.append("(" + " or ".join(f"{name} = {value}" for value in loop.values) + ")")
        return
    turn = found.fresh("k")
    try:
        found.constraints.append(f"{turn} >= 0 and {name} = {found.term(loop.start)} + {_times(found, loop, turn)}")
    except NotLinear as reason:
        found.unsaid = str(reason)
    if loop.until is not None:
        found.unsaid = "a loop is left early"


def _times(found: AccessInstance, loop: Loop, turn: str) -> str:
    from evo.analysis.access.numeric import number_of

    step = number_of(loop.step, found.sizes.values)
    if step is None:
        raise NotLinear(f"the step `{loop.step.text}` is no constant")
    return f"{step}*{turn}"


@dataclass(frozen=True, slots=True)
class Existence:
    """Whether such a pair exists; None if that is not known, with the reason."""

    exists: bool | None
    reason: str = ""


def meet(
    form: Form, sizes: FormSizes, first: Access, second: Access, relations: Sequence[tuple[Symbol, str]],
    *, whole: Sequence[Symbol] = (),
) -> Existence:  # fmt: skip
    """Whether an instance of `first` and one of `second` touch the same byte of one array, in a relation.

    relations: per symbol SAME, BEFORE (the first's turn is earlier), AFTER, OTHER or ANY.
    whole: symbols of which all together must differ, as a tuple (a block, a thread).
    """
    try:
        left = point(form, first, sizes, "a")
        same = {symbol: left.names[symbol] for symbol, word in relations if word == SAME and symbol in left.names}
        right = point(form, second, sizes, "b", same)
        between: list[str] = []
        for symbol, word in relations:
            if word in (SAME, ANY) or symbol not in left.names or symbol not in right.names:
                continue
            a, b = left.names[symbol], right.names[symbol]
            ordered = (b, a) if word == AFTER else (a, b)
            between.append(f"{a} != {b}" if word == OTHER else _earlier(form, sizes, symbol, *ordered))
        if whole:
            unequal = [f"{left.names[s]} != {right.names[s]}" for s in whole if left.names[s] != right.names[s]]
            between.append("(" + " or ".join(unequal) + ")" if unequal else "false")
        start_a, start_b = left.term(first.offset), right.term(second.offset)
    except NotLinear as reason:
        return Existence(None, str(reason))
    between.append(f"{start_a} < {start_b} + {second.bytes} and {start_b} < {start_a} + {first.bytes}")
    names = ", ".join([*left.unknowns, *right.unknowns])
    text = f"{{ [] : exists ({names} : {' and '.join([*left.constraints, *right.constraints, *between])}) }}"
    if _is_empty(text):
        return Existence(False)
    unsaid = left.unsaid or right.unsaid
    return Existence(None, unsaid) if unsaid else Existence(True)


@functools.lru_cache(maxsize=4096)  # a change leaves most of a text as it was
def _is_empty(text: str) -> bool:
    import islpy as isl

    return bool(isl.Set(text).is_empty())


def _earlier(form: Form, sizes: FormSizes, symbol: Symbol, a: str, b: str) -> str:
    """a is of an earlier turn than b."""
    loop = form.loops.get(symbol)
    if loop is None:
        return f"{a} < {b}"
    if loop.values is not None:
        is_up = loop.values == tuple(sorted(loop.values))
        return f"{a} < {b}" if is_up else f"{a} > {b}"
    from evo.analysis.access.numeric import number_of

    step = number_of(loop.step, sizes.values)
    if step is None:
        raise NotLinear(f"the step `{loop.step.text}` is no constant")
    return f"{a} < {b}" if step > 0 else f"{a} > {b}"
