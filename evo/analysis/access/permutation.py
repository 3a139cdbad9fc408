"""Whether a launch moves a whole tensor to its place with dimensions in another order, some of them backwards, found by
counting it out.

The symbolic subscripts show this only where the text's arithmetic is that of the shape. Counted out at given sizes,
every idiom looks the same: strides from `gridDim`, tiles walked by loops, one index taken apart by division. What moves
together is one dimension then, and a declared one may be several, as channels are that become pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, islice, permutations, product
from typing import TYPE_CHECKING, Any

from evo.analysis.access.form import Access, Form
from evo.analysis.access.instances import FormSizes, NoValue, TooMany, all_instances, column
from evo.spec.expr import Expression, parse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Places = NDArray[Any]

_DIMENSIONS = 8
_SPELLINGS = 256  # of all lengths together that are looked at


@dataclass(frozen=True, slots=True)
class Permutation:
    """lengths: of the source's dimensions, the outer one first; order: which of them each of the target's is.

    turned: those of the target that run backwards.
    """

    lengths: tuple[Expression, ...]
    order: tuple[int, ...]
    turned: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Moved:
    """One case. to: the target place of each element, by its source place; numbers: the axes."""

    to: Places
    numbers: Mapping[str, int]


def moved_by(
    form: Form, sizes: FormSizes, read: Access, write: Access, total: int, numbers: Mapping[str, int]
) -> Moved | None:
    """What goes where, if each element of a tensor of `total` elements goes to one place of its own.

    None if not, or data decides, or the tensor is too large to count. Read and write have to be carried out together.
    """
    import numpy as np

    if read.index is None or write.index is None or read.context != write.context:
        return None
    try:
        columns = all_instances(form, write, sizes, total)
        at, to = column(read.index, columns, sizes), column(write.index, columns, sizes)
    except (NoValue, TooMany):
        return None
    if len(to) != total or min(at.min(), to.min()) < 0 or max(at.max(), to.max()) >= total:
        return None
    if np.bincount(to, minlength=total).max() > 1 or np.bincount(at, minlength=total).max() > 1:
        return None
    found = np.empty(total, np.int64)
    found[at] = to
    return Moved(found, numbers)


def permutation_of(cases: Sequence[Moved], dims: Sequence[Expression]) -> Permutation | None:
    """The order that all cases show, its lengths in the words of the axes. dims: of the tensors as they are declared.

    None without one: it may differ between cases, or a length have no word.
    """
    rows = [_digits(case.to) for case in cases]
    if not cases or any(len(row) > _DIMENSIONS for row in rows):
        return None
    most = max(range(len(cases)), key=lambda place: (len(rows[place]), len(cases[place].to)))
    if len(rows[most]) < 2:
        return None
    steps = [step for _, step in rows[most]]
    order = tuple(sorted(range(len(steps)), key=lambda place: -abs(steps[place])))
    turned = frozenset(at for at, place in enumerate(order) if steps[place] < 0)
    alike = [(case, row) for case, row in zip(cases, rows, strict=True) if len(row) == len(steps)]
    names = sorted(cases[most].numbers)
    spelled = []
    for place in range(len(steps)):
        said = (each for each in _spellings(names, dims, rows[most][place][0])
                if all(_number(each, case.numbers) == row[place][0] for case, row in alike))  # fmt: skip
        spelled.append(list(islice(said, 4)))
    for lengths in islice(product(*spelled), _SPELLINGS):
        found = Permutation(lengths, order, turned)
        if all(_fits(found, case) for case in cases):
            return found
    return None


def _digits(to: Places) -> list[tuple[int, int]]:
    """(length, step in the target) of the dimensions that a map is made of, the outer one first.

    Neighbours that move together are one. What is no such map gives numbers that do not fit it.
    """
    import numpy as np

    found = []
    while len(to) > 1:
        step = int(to[1] - to[0])
        apart = np.flatnonzero(np.diff(to) != step)
        length = int(apart[0]) + 1 if len(apart) else len(to)
        found.append((length, step))
        to = to[::length]
        if len(found) > _DIMENSIONS:
            break
    return found[::-1]


def _spellings(names: Sequence[str], dims: Sequence[Expression], number: int) -> Iterator[Expression]:
    """Formulas that may stand for a length, the plain ones first."""
    yield from map(parse, names)
    yield from dims
    for count in (2, 3):
        yield from (parse(" * ".join(each)) for each in combinations_with_replacement(names, count))
    yield from (parse(f"{first} // {second}") for first, second in permutations(names, 2))
    yield parse(str(number))
    yield from (parse(f"{first} // {second}") for first in names for second in (2, 4, 8))


def _number(text: Expression, numbers: Mapping[str, int]) -> int:
    """A length at a case; 0 if it is none there."""
    if not text.names <= numbers.keys() or any(numbers[name] == 0 for name in text.names):
        return 0
    return int(text.value(numbers))


def _fits(found: Permutation, case: Moved) -> bool:
    """Whether all elements go where the permutation says."""
    import numpy as np

    lengths = [_number(each, case.numbers) for each in found.lengths]
    if min(lengths) < 1 or math.prod(lengths) != len(case.to):
        return False
    parts = np.unravel_index(np.arange(len(case.to)), tuple(lengths))
    wanted = [lengths[k] - 1 - parts[k] if at in found.turned else parts[k] for at, k in enumerate(found.order)]
    return bool((np.ravel_multi_index(tuple(wanted), tuple(lengths[k] for k in found.order)) == case.to).all())
