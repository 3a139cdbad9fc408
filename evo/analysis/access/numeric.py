"""Terms and conditions as numbers: for one place, or for many at once as NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from evo.analysis.access.comparisons import Compare, Condition, Unsure
from evo.analysis.access.folding import FOLDED
from evo.analysis.access.terms import Op, Symbol, Term

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[Any] | int


class NoValue(Exception):
    """A symbol has no value here, or a number is divided by zero. Internal: it never leaves this package."""


def number_of(term: Term, values: Mapping[Symbol, int]) -> int | None:
    """The term with every symbol given; None if one is not, or where it divides by zero."""
    try:
        return _number(term, values)
    except NoValue:
        return None


def holds(condition: Condition, values: Mapping[Symbol, int]) -> bool | None:
    """Whether a condition holds with every symbol given; None if one is not."""
    try:
        return _holds(condition, values)
    except NoValue:
        return None


def _number(term: Term, values: Mapping[Symbol, int]) -> int:
    total = 0
    for mono, n in term.parts.items():
        product = n
        for atom in mono:
            product *= _symbol(atom, values) if isinstance(atom, Symbol) else _operation(atom, values)
        total += product
    return total


def _symbol(symbol: Symbol, values: Mapping[Symbol, int]) -> int:
    if symbol not in values:
        raise NoValue(symbol.name)
    return values[symbol]


def _operation(op: Op, values: Mapping[Symbol, int]) -> int:
    if op.name == "select":
        condition, (left, right) = op.args[0], op.terms
        assert isinstance(condition, Condition)
        return _number(left if _holds(condition, values) else right, values)
    left, right = op.terms
    found = FOLDED[op.name](_number(left, values), _number(right, values))
    if found is None:
        raise NoValue(op.name)
    return found


def _holds(condition: Condition, values: Mapping[Symbol, int]) -> bool:
    if isinstance(condition, Compare):
        number = _number(condition.term, values)
        return number >= 0 if condition.relation == ">=" else (number == 0) == (condition.relation == "==")
    if isinstance(condition, Unsure):
        raise NoValue(condition.wording)
    parts = (_holds(item, values) for item in condition.items)
    return all(parts) if condition.word == "and" else any(parts)


def numbers_of(term: Term, values: Mapping[Symbol, Numbers]) -> Numbers:
    """The term at many places: symbols have arrays of one length, or one number. Raises NoValue."""
    total: Numbers = 0
    for mono, n in term.parts.items():
        product: Numbers = n
        for atom in mono:
            if isinstance(atom, Symbol):
                if atom not in values:
                    raise NoValue(atom.name)
                product = product * values[atom]
            else:
                product = product * _operations(atom, values)
        total = total + product
    return total


def masks_of(condition: Condition, values: Mapping[Symbol, Numbers]) -> Any:
    """Where a condition holds, at many places. Raises NoValue."""
    import numpy as np

    if isinstance(condition, Compare):
        numbers = numbers_of(condition.term, values)
        if condition.relation == ">=":
            return np.asarray(numbers) >= 0
        return (np.asarray(numbers) == 0) == (condition.relation == "==")
    if isinstance(condition, Unsure):
        raise NoValue(condition.wording)
    found: Any = np.asarray(condition.word == "and")
    for item in condition.items:
        mask = masks_of(item, values)
        found = found & mask if condition.word == "and" else found | mask
    return found


def _operations(op: Op, values: Mapping[Symbol, Numbers]) -> Numbers:
    import numpy as np

    if op.name == "select":
        condition, (left, right) = op.args[0], op.terms
        assert isinstance(condition, Condition)
        found: Numbers = np.where(masks_of(condition, values), numbers_of(left, values), numbers_of(right, values))
        return found
    left_numbers, right_numbers = (np.asarray(numbers_of(term, values), dtype=np.int64) for term in op.terms)
    made: Numbers = _VECTOR[op.name](left_numbers, right_numbers)
    return made


def _divided(left: Any, right: Any) -> Any:
    """Truncating division; by zero it is zero, where a guard keeps the place from being reached."""
    import numpy as np

    safe = np.where(right == 0, 1, right)
    found = np.abs(left) // np.abs(safe)
    return np.where(right == 0, 0, np.where((left < 0) == (safe < 0), found, -found))


_VECTOR: dict[str, Callable[[Any, Any], Any]] = {
    "div": _divided,
    "mod": lambda a, b: a - b * _divided(a, b),
    "min": lambda a, b: a + (b - a) * (b < a),
    "max": lambda a, b: a + (b - a) * (b > a),
    "xor": lambda a, b: a ^ b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "wrap": lambda a, b: a % (1 << b),
    "power": lambda a, b: a**b,
}
