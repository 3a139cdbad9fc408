"""Whether a launch moves a whole tensor to its place with dimensions in another order, some of them backwards, found by
counting it out.

The symbolic subscripts show this only where the text's arithmetic is that of the shape. Counted out at given sizes,
every idiom looks the same: strides from `gridDim`, tiles walked by loops, one index taken apart by division.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

from evo.analysis.access.form import Access, Form
from evo.analysis.access.instances import FormSizes, NoValue, TooMany, column, instances, places

COUNTED = 1 << 21  # the most elements that are counted out
_DIMENSIONS = 4


@dataclass(frozen=True, slots=True)
class Permutation:
    """order: the source's dimension that each of the target's is; turned: those of the target that run backwards."""

    order: tuple[int, ...]
    turned: frozenset[int] = frozenset()


def permutation_of(
    form: Form, sizes: FormSizes, read: Access, write: Access, source: Sequence[int]
) -> Permutation | None:
    """The target place t of each element that is written, from its source place s: t[k] is s[order[k]], or counted from
    the other end.

    source: the shape, in elements; the target has these lengths in the new order, whatever shape it is declared with.
    None if some element is not written, or twice, or no order fits, or data decides, or the tensor is too large to
    count. Read and write have to be carried out together.
    """
    import numpy as np

    total = int(np.prod(source))
    if read.index is None or write.index is None or read.context != write.context or total > COUNTED:
        return None
    if len(source) > _DIMENSIONS or sizes.blocks * sizes.threads > 4 * COUNTED:
        return None
    try:
        columns = places(sizes, range(sizes.blocks), range(sizes.threads))
        columns = instances(form, write, sizes, columns, most=4 * COUNTED)
        at, to = column(read.index, columns, sizes), column(write.index, columns, sizes)
    except (NoValue, TooMany):
        return None
    if len(to) != total or min(at.min(), to.min()) < 0 or max(at.max(), to.max()) >= total:
        return None
    if np.bincount(to, minlength=total).max() > 1:
        return None
    parts = np.unravel_index(at, tuple(source))
    return next((each for each in _candidates(source) if _fits(each, source, parts, to)), None)


def _candidates(source: Sequence[int]) -> Iterator[Permutation]:
    """Forwards before backwards; a dimension of one element has no direction."""
    for flags in sorted(product((False, True), repeat=len(source)), key=sum):
        for order in permutations(range(len(source))):
            turned = frozenset(at for at, flag in enumerate(flags) if flag)
            if all(source[order[at]] > 1 for at in turned):
                yield Permutation(order, turned)


def _fits(found: Permutation, source: Sequence[int], parts: Sequence[Any], to: Any) -> bool:
    """Whether all elements go where the permutation says; a few of them are looked at first."""
    import numpy as np

    lengths = [source[place] for place in found.order]
    for some in (slice(0, None, max(1, len(to) // 64)), slice(None)):
        wanted = [
            lengths[at] - 1 - parts[place][some] if at in found.turned else parts[place][some]
            for at, place in enumerate(found.order)
        ]
        if not bool((np.ravel_multi_index(tuple(wanted), tuple(lengths)) == to[some]).all()):
            return False
    return True
