"""Some blocks, warps and turns that stand for all: enough to count requests and sectors of a launch of any size.

The first, the middle and the last of everything are looked at, each with the number of those that it stands for; what
is the same in between, or grows evenly, is counted exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from evo.analysis.access.comparisons import all_of, conjuncts
from evo.analysis.access.form import BLOCK, THREAD, Access, Form, Loop
from evo.analysis.access.instances import FormSizes, places, rows_in
from evo.analysis.access.numeric import masks_of, numbers_of
from evo.analysis.access.terms import Symbol, Term

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Columns = dict[Symbol, NDArray[Any]]

WARP = 32
_SHIFTS = (0.5, 0.63, 0.29, 0.81, 0.12)
_TURNS = 64  # of a loop whose end is no formula


@dataclass(slots=True)
class Sample:
    """Instances of an access. weight: how many each stands for; request: instances of one warp instruction share it.

    is_whole: whether nothing was left out.
    """

    columns: Columns
    weight: NDArray[Any]
    request: NDArray[Any]
    is_whole: bool

    @property
    def count(self) -> int:
        return len(self.weight)


def ends_and_middle(count: int, inner: int = 1) -> list[tuple[int, float]]:
    """(number, how many it stands for) of the first and the last of so many, and of `inner` between them."""
    if count <= inner + 2:
        return [(at, 1) for at in range(count)]
    share = (count - 2) / inner
    # At no even distances, so that a pattern that repeats is not met at one place only.
    between = [(1 + int(share * (at + _SHIFTS[at % len(_SHIFTS)])), share) for at in range(inner)]
    return [(0, 1), *between, (count - 1, 1)]


def threads_of(sizes: FormSizes) -> Sample:
    """Warps of blocks of the launch, before any loop."""
    import numpy as np

    warps = -(-sizes.threads // WARP)
    large = sum(extent > 3 for extent in sizes.grid)
    inner = {0: 1, 1: 5, 2: 3}.get(large, 1)
    blocks = list(product(*(ends_and_middle(extent, inner) for extent in reversed(sizes.grid))))
    rows: list[tuple[int, int, int, int, int]] = []
    weights: list[float] = []
    for number, ((z, wz), (y, wy), (x, wx)) in enumerate(blocks):
        for warp, ww in ends_and_middle(warps):
            rows.append((x, y, z, warp, number * warps + warp))
            weights.append(wx * wy * wz * ww)
    table = np.asarray(rows, np.int64)
    lanes = np.tile(np.arange(WARP), len(rows))
    table, weight = np.repeat(table, WARP, axis=0), np.repeat(np.asarray(weights, np.float64), WARP)
    linear = table[:, 3] * WARP + lanes
    keep = linear < sizes.threads
    table, linear, weight = table[keep], linear[keep], weight[keep]
    width, height, _ = sizes.block
    columns: Columns = {symbol: table[:, at] for at, symbol in enumerate(BLOCK)}
    columns |= {
        THREAD[0]: linear % width,
        THREAD[1]: linear // width % height,
        THREAD[2]: linear // (width * height),
    }
    is_whole = len(rows) == sizes.blocks * warps
    return Sample(columns, weight, table[:, 4], is_whole)


def one_block(sizes: FormSizes) -> Sample:
    """All threads of the middle block."""
    return whole(places(sizes, [sizes.middle], range(sizes.threads)))


def whole(columns: Columns) -> Sample:
    """All threads of one block, by warps; none of them stands for others."""
    import numpy as np

    count = rows_in(columns)
    return Sample(columns, np.ones(count), np.arange(count) // WARP, True)


def sampled(form: Form, access: Access, sizes: FormSizes, start: Sample, *, assuming: bool = False) -> Sample:
    """The instances of an access in a sample of threads. Raises NoValue if data decides which there are.

    assuming: where data decides whether the access is carried out, it is.
    """
    found = start
    for part in access.context:
        if isinstance(part, Symbol):
            found = repeated(form.loops[part], found, sizes)
        else:
            condition = part
            if assuming:
                condition = all_of(c for c in conjuncts(part) if not any(s.kind == "value" for s in c.symbols()))
            found = _kept(found, masks_of(condition, {**sizes.values, **found.columns}))
    return found


def column_of(term: Term, sample: Sample, sizes: FormSizes) -> NDArray[Any]:
    """A term for each instance."""
    import numpy as np

    found = numbers_of(term, {**sizes.values, **sample.columns})
    return np.broadcast_to(np.asarray(found, np.int64), sample.weight.shape)


def _kept(sample: Sample, mask: Any) -> Sample:
    import numpy as np

    mask = np.broadcast_to(np.asarray(mask), sample.weight.shape)
    if mask.all():
        return sample
    columns = {symbol: values[mask] for symbol, values in sample.columns.items()}
    return Sample(columns, sample.weight[mask], sample.request[mask], sample.is_whole)


def repeated(loop: Loop, sample: Sample, sizes: FormSizes) -> Sample:
    """Each instance for the first, the middle and the last turn of its warp."""
    import numpy as np

    if not sample.count:
        return Sample({**sample.columns, loop.symbol: sample.weight}, sample.weight, sample.request, sample.is_whole)
    counts = _counts(loop, sample, sizes)
    groups, inverse = np.unique(sample.request, return_inverse=True)
    most = np.zeros(len(groups), np.int64)
    np.maximum.at(most, inverse, counts)
    of_warp = most[inverse]
    start, step = column_of(loop.start, sample, sizes), column_of(loop.step, sample, sizes)
    turns = [
        (np.zeros_like(of_warp), np.ones_like(of_warp), of_warp > 0),
        (of_warp // 2, np.maximum(of_warp - 2, 1), of_warp > 2),
        (of_warp - 1, np.ones_like(of_warp), of_warp > 1),
    ]
    parts: list[tuple[Any, Any, Any, Any]] = []
    for number, (turn, stands_for, exists) in enumerate(turns):
        rows = np.flatnonzero(exists & (turn < counts))
        parts.append((rows, turn[rows], stands_for[rows], sample.request[rows] * 3 + number))
    rows, turn, stands_for, request = (np.concatenate(column) for column in zip(*parts, strict=True))
    columns = {symbol: values[rows] for symbol, values in sample.columns.items()}
    if loop.values is not None:
        columns[loop.symbol] = np.asarray(loop.values, np.int64)[turn]
    else:
        columns[loop.symbol] = start[rows] + turn * step[rows]
    is_whole = sample.is_whole and bool((of_warp <= 3).all())
    return Sample(columns, sample.weight[rows] * stands_for, request, is_whole)


def _counts(loop: Loop, sample: Sample, sizes: FormSizes) -> NDArray[Any]:
    """How often each thread goes through a loop."""
    import numpy as np

    if loop.values is not None:
        return np.full(sample.count, len(loop.values), np.int64)
    if loop.trip is not None and loop.until is None:
        turns: NDArray[Any] = np.maximum(column_of(loop.trip, sample, sizes), 0)
        return turns
    counts: NDArray[Any] = np.zeros(sample.count, np.int64)
    alive = np.ones(sample.count, bool)
    start, step = column_of(loop.start, sample, sizes), column_of(loop.step, sample, sizes)
    for turn in range(_TURNS):
        known = {**sizes.values, **sample.columns, loop.symbol: start + turn * step}
        alive = alive & masks_of(loop.condition, known)
        counts += alive
        if loop.until is not None:
            alive = alive & ~masks_of(loop.until, known)
        if not alive.any():
            break
    return counts
