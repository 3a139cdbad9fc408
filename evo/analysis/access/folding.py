"""Operations on numbers, as C++ defines them."""

from __future__ import annotations

from collections.abc import Callable


def quotient(left: int, right: int) -> int:
    """C++ division."""
    found = abs(left) // abs(right)
    return found if (left < 0) == (right < 0) else -found


FOLDED: dict[str, Callable[[int, int], int | None]] = {
    "div": lambda a, b: quotient(a, b) if b else None,
    "mod": lambda a, b: a - b * quotient(a, b) if b else None,
    "min": min,
    "max": max,
    "xor": lambda a, b: a ^ b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "shl": lambda a, b: a << b if 0 <= b < 64 else None,
    "shr": lambda a, b: a >> b if 0 <= b < 64 else None,
    "wrap": lambda a, b: a % (1 << b),
    "power": lambda a, b: a**b if 0 <= b < 64 else None,
}
