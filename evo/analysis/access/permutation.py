"""Whether a launch moves a whole tensor to its place with dimensions in another order, found by counting it out.

The symbolic subscripts show this only where the text's arithmetic is that of the shape. Counted out at given sizes,
every idiom looks the same: strides from `gridDim`, tiles walked by loops, one index taken apart by division.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from evo.analysis.access.form import Access, Form
from evo.analysis.access.instances import FormSizes, NoValue, TooMany, column, instances, places

COUNTED = 1 << 21  # the most elements that are counted out
_DIMENSIONS = 4


def permutation_of(
    form: Form, sizes: FormSizes, read: Access, write: Access, source: Sequence[int]
) -> tuple[int, ...] | None:
    """The order p with target place t = (s[p[0]], s[p[1]] ...) for the source place s of each element that is written.

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
    for order in permutations(range(len(source))):
        wanted = np.ravel_multi_index(tuple(parts[place] for place in order), tuple(source[place] for place in order))
        if bool((wanted == to).all()):
            return order
    return None
