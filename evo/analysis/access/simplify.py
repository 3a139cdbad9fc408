"""Operations made with what is known about their operands: x - x / d * d is x % d, (b * 256 + t) / 256 is b.

Each function gives a term that is equal wherever the bounds hold.
"""

from __future__ import annotations

from evo.analysis.access.comparisons import ALWAYS, NEVER, Compare, Condition
from evo.analysis.access.term_bounds import Bounds, quotient
from evo.analysis.access.terms import ZERO, Monomial, Op, Term, apply, fold


def divide(bounds: Bounds, left: Term, right: Term) -> Term:
    """C++ left / right."""
    if left.value is not None or right.value in (0, 1):
        return apply("div", left, right)
    whole, rest = split(left, right)
    if not rest.parts:
        return whole
    if whole.parts and bounds.nonnegative(rest) and bounds.nonnegative(left):
        # floor((d q + r) / d) = q + floor(r / d), and both sides are positive.
        return whole + divide(bounds, rest, right)
    inner = left.atom
    if (
        isinstance(inner, Op)
        and inner.name == "div"
        and all(bounds.nonnegative(t - 1) for t in (right, inner.terms[1]))
    ):
        return divide(bounds, inner.terms[0], inner.terms[1] * right)
    if bounds.nonnegative(left) and bounds.below(left, right):
        return ZERO
    return _shared_factor(left, right) or apply("div", left, right)


def _shared_factor(left: Term, right: Term) -> Term | None:
    """(4 x + 2) / 8 = (2 x + 1) / 4 if every part is a multiple."""
    number = right.value
    if number is None or number <= 0:
        return None
    import math

    factor = math.gcd(number, *left.parts.values())
    if factor == 1:
        return None
    reduced = Term({mono: n // factor for mono, n in left.parts.items()})
    return apply("div", reduced, Term.number(number // factor))


def remainder(bounds: Bounds, left: Term, right: Term) -> Term:
    """C++ left % right."""
    if left.value is not None or right.value in (0, 1):
        return apply("mod", left, right)
    whole, rest = split(left, right)
    if not rest.parts:
        return ZERO
    if whole.parts and bounds.nonnegative(rest) and bounds.nonnegative(left):
        return remainder(bounds, rest, right)
    if bounds.nonnegative(left) and bounds.below(left, right):
        return left
    inner = left.atom
    if isinstance(inner, Op) and inner.name == "mod" and not split(inner.terms[1], right)[1].parts:
        return remainder(bounds, inner.terms[0], right)
    return apply("mod", left, right)


def difference(bounds: Bounds, left: Term, right: Term) -> Term:
    """left - right, with x - x / d * d written as x % d."""
    for mono, n in right.parts.items():
        for atom in mono:
            if not isinstance(atom, Op) or atom.name != "div":
                continue
            whole, by = atom.terms
            once = by * Term({(atom,): 1})
            often, odd = divmod(n, once.parts.get(mono, 0) or n + 1)
            taken = whole * often
            if (
                often
                and not odd
                and once * often == right
                and all(left.parts.get(m) == k for m, k in taken.parts.items())
            ):
                return left - taken + remainder(bounds, whole, by) * often
    return left - right


def split(left: Term, right: Term) -> tuple[Term, Term]:
    """left = whole * right + rest, with as much in `whole` as divides as it stands."""
    number = right.value
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    if number is not None and number > 0:
        for mono, n in left.parts.items():
            often = n // number if n >= 0 else -(-n // number)
            if often:
                whole[mono] = often
            if n - often * number:
                rest[mono] = n - often * number
        return Term(whole), Term(rest)
    if number is not None:
        return ZERO, left
    if len(right.parts) == 1:
        ((by, factor),) = right.parts.items()
        for mono, n in left.parts.items():
            left_over = quotient(mono, by)
            if left_over is not None and n % factor == 0:
                whole[left_over] = n // factor
            else:
                rest[mono] = n
        return Term(whole), Term(rest)
    return _long_division(left, right)


def _long_division(left: Term, right: Term) -> tuple[Term, Term]:
    """By a sum such as H + 2: parts whose product with the whole divisor is there."""
    lead = max(right.parts, key=lambda mono: (len(mono), [atom.key for atom in mono]))
    whole, rest = ZERO, left
    for mono, n in sorted(left.parts.items(), key=lambda part: -len(part[0])):
        over = quotient(mono, lead)
        if over is None or n % right.parts[lead] or mono not in rest.parts:
            continue
        candidate = Term({over: n // right.parts[lead]})
        product = candidate * right
        if all(rest.parts.get(found) == m for found, m in product.parts.items()):
            whole, rest = whole + candidate, rest - product
    return whole, rest


def smaller(bounds: Bounds, left: Term, right: Term) -> Term:
    if bounds.nonnegative(right - left):
        return left
    return right if bounds.nonnegative(left - right) else _ordered("min", left, right)


def larger(bounds: Bounds, left: Term, right: Term) -> Term:
    if bounds.nonnegative(right - left):
        return right
    return left if bounds.nonnegative(left - right) else _ordered("max", left, right)


def _ordered(name: str, left: Term, right: Term) -> Term:
    return apply(name, *sorted((left, right), key=lambda term: term.key))


def choose(bounds: Bounds, condition: Condition, left: Term, right: Term) -> Term:
    """condition ? left : right."""
    decided = bounds.decided(condition)
    if decided == ALWAYS or left == right:
        return left
    if decided == NEVER:
        return right
    is_place = all(symbol.kind != "value" for symbol in left.symbols() | right.symbols())  # not among data
    for test, taken, other in ((decided, left, right), (decided.negated(), right, left)):
        if is_place and isinstance(test, Compare) and (found := _extreme(bounds, test, taken, other)) is not None:
            return found
    return apply("select", decided, left, right)


def _extreme(bounds: Bounds, test: Compare, taken: Term, other: Term) -> Term | None:
    """The choice as the larger or the smaller of the two, if it is that: `v < 0 ? 0 : v`, or v between two ends."""
    if test.relation != ">=":
        return None

    def says(greater: Term, less: Term) -> bool:
        return test.term in (greater - less, greater - less - 1)

    atom = other.atom
    name = atom.name if isinstance(atom, Op) else ""
    pairs = [(other, taken)]  # what is compared with `taken`, and what is never on its wrong side
    if isinstance(atom, Op) and name in ("min", "max"):
        first, second = atom.terms
        pairs += [(first, second), (second, first)]
    for value, end in pairs:
        if says(taken, value) and (value == other or (name == "min" and bounds.nonnegative(end - taken))):
            return larger(bounds, taken, other)
        if says(value, taken) and (value == other or (name == "max" and bounds.nonnegative(taken - end))):
            return smaller(bounds, taken, other)
    return None


def shift_left(left: Term, right: Term) -> Term:
    number = right.value
    if number is not None and 0 <= number < 63:
        return left * (1 << number)
    if left.value == 1 or left.value is None:
        return left * apply("power", Term.number(2), right)
    return apply("shl", left, right)


def shift_right(bounds: Bounds, left: Term, right: Term) -> Term:
    number = right.value
    if number is not None and 0 <= number < 63 and bounds.nonnegative(left):
        return divide(bounds, left, Term.number(1 << number))
    return apply("shr", left, right)


def bit_and(bounds: Bounds, left: Term, right: Term) -> Term:
    if left.value is not None:
        left, right = right, left
    mask = right.value
    if mask is None or left.value is not None:
        return apply("and", left, right)
    if mask >= 0 and mask & (mask + 1) == 0 and bounds.nonnegative(left):
        return remainder(bounds, left, Term.number(mask + 1))
    low = -mask
    if mask < 0 and low & (low - 1) == 0 and bounds.nonnegative(left):  # x & ~(low - 1)
        return left - remainder(bounds, left, Term.number(low))
    if mask > 0 and bounds.nonnegative(left):
        zeros = (mask & -mask).bit_length() - 1
        if zeros and (mask >> zeros) & ((mask >> zeros) + 1) == 0:  # a field of bits in the middle
            field = remainder(bounds, left, Term.number(1 << mask.bit_length()))
            return field - remainder(bounds, left, Term.number(1 << zeros))
    return apply("and", left, right)


def bit_or(bounds: Bounds, name: str, left: Term, right: Term) -> Term:
    """`or` and `xor`: a sum if no bit is set in both."""
    if left.value == 0 or right.value == 0:
        return right if left.value == 0 else left
    for high, low in ((left, right), (right, left)):
        top = bounds.largest(low)
        if top is None or not bounds.nonnegative(low):
            continue
        unit = 1 << top.bit_length()
        whole, rest = split(high, Term.number(unit))
        if not rest.parts and bounds.nonnegative(high):
            return high + low
        if name == "xor" and whole.parts and bounds.nonnegative(rest) and bounds.nonnegative(high):
            most = bounds.largest(rest)
            if most is not None and most < unit:
                return whole * unit + _xor(rest, low)
    return _xor(left, right) if name == "xor" else _ordered("or", left, right)


def _xor(left: Term, right: Term) -> Term:
    """Exclusive or is associative: constants and equal operands meet."""
    parts: dict[str, Term] = {}
    number = 0
    waiting = [left, right]
    while waiting:
        term = waiting.pop()
        atom = term.atom
        if isinstance(atom, Op) and atom.name == "xor":
            waiting += atom.terms
        elif term.value is not None:
            number ^= term.value
        elif parts.pop(term.key, None) is None:
            parts[term.key] = term
    found = [parts[key] for key in sorted(parts)] + ([Term.number(number)] if number else [])
    if not found:
        return ZERO
    total = found[0]
    for term in found[1:]:
        total = apply("xor", total, term)
    return total


def as_unsigned(bounds: Bounds, term: Term, bits: int) -> Term:
    """The value as an unsigned word; itself where it is not negative."""
    return term if bounds.nonnegative(term) else apply("wrap", term, Term.number(bits))


def rebuilt(bounds: Bounds, op: Op) -> Term:
    """An operation made anew after a substitution, simplified."""
    if op.name == "select":
        condition, (left, right) = op.args[0], op.terms
        assert isinstance(condition, Condition)
        return choose(bounds, condition, left, right)
    left, right = op.terms
    if left.value is not None and right.value is not None:
        return fold(op)
    match op.name:
        case "div":
            return divide(bounds, left, right)
        case "mod":
            return remainder(bounds, left, right)
        case "min":
            return smaller(bounds, left, right)
        case "max":
            return larger(bounds, left, right)
        case "xor" | "or":
            return bit_or(bounds, op.name, left, right)
        case "and":
            return bit_and(bounds, left, right)
    return fold(op)
