"""How much of each array is read and written, how often, and in how many sectors: counted from the maps at one case."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evo.analysis.access.form import Access, Array, Form
from evo.analysis.access.instances import FormSizes, TooMany, instances, places, rows_in
from evo.analysis.access.instances import column as full_column
from evo.analysis.access.numeric import NoValue, number_of
from evo.analysis.access.sampling import WARP, Sample, column_of, one_block, sampled, threads_of, whole
from evo.analysis.access.terms import Term

if TYPE_CHECKING:
    from numpy.typing import NDArray

SECTOR = 32  # bytes
_BANKS = 32
_SPARSE = 16  # places for each that is touched
_ENUMERATED = 1 << 17  # instances of a block that are listed one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessTraffic:
    """One access over the whole launch.

    executions: by threads; requests: by warps; bytes: asked for by threads. sectors: per request, of 32 bytes; ideal:
    the fewest that hold the distinct bytes of a request. wavefronts: of shared memory, per request. stride: bytes from
    lane to lane, None if it is not the same between all. is_exact: False if blocks or turns stand for others.
    """

    number: int
    executions: int
    requests: int
    bytes: int
    sectors: float | None = None
    ideal: float | None = None
    wavefronts: float | None = None
    lanes: float = WARP
    stride: int | None = None
    is_even: bool = True
    is_exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Distinct elements of an array. box: extent per dimension, if the array has known dimensions.

    is_exact: counted one by one; otherwise the box, which may hold elements that are not touched.
    """

    elements: int
    box: tuple[int, ...] | None = None
    first: tuple[int, ...] | None = None
    is_exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayTraffic:
    """One array over the whole launch. compulsory: bytes of the distinct elements; reads, writes: bytes asked for.

    sector_bytes: what the requests move between the SMs and L2 without a hit in L1. block: the distinct elements of one
    block; block_reads: elements that the threads of one block ask for. sharing: how many blocks touch an element.
    """

    array: Array
    compulsory: int
    reads: int
    writes: int
    sector_bytes: int
    block: Footprint | None
    block_reads: int
    sharing: float | None
    is_exact: bool
    unknown: tuple[int, ...] = ()  # accesses that could not be counted

    @property
    def reuse(self) -> float | None:
        """How often an element is asked for."""
        return (self.reads + self.writes) / self.compulsory if self.compulsory else None


@dataclass(frozen=True)
class Traffic:
    """The traffic of a launch: by access number and by array name. Arrays take longer, so they are counted if asked."""

    accesses: Mapping[int, AccessTraffic]
    count_arrays: Callable[[], Mapping[str, ArrayTraffic]]

    @functools.cached_property
    def arrays(self) -> Mapping[str, ArrayTraffic]:
        return self.count_arrays()


def traffic_of(form: Form, sizes: FormSizes) -> Traffic:
    """Count the global and shared accesses of a launch at one case."""
    start = threads_of(sizes)
    counted: dict[int, AccessTraffic] = {}
    boxes: dict[int, Footprint] = {}
    for access in form.accesses:
        if access.array is None or access.array.space == "local":
            continue
        try:
            sample = sampled(form, access, sizes, start, assuming=True)
            counted[access.number] = _counted(access, sample, sizes)
            boxes[access.number] = _box(access, sample, sizes)
        except (NoValue, TooMany):
            continue

    def arrays() -> dict[str, ArrayTraffic]:
        placed = [array for array in form.arrays if array.space in ("global", "shared")]
        return {array.name: _of_array(form, array, sizes, counted, boxes) for array in placed}

    return Traffic(counted, arrays)


def _counted(access: Access, sample: Sample, sizes: FormSizes) -> AccessTraffic:
    import numpy as np

    executions = round(sample.weight.sum())
    requests, first, inverse = np.unique(sample.request, return_index=True, return_inverse=True)
    weight = sample.weight[first]
    total = round(weight.sum())
    common = {"number": access.number, "executions": executions, "requests": total}
    if not total:
        return AccessTraffic(**common, bytes=0, is_exact=sample.is_whole)
    sectors = ideal = wavefronts = None
    stride, is_even = None, True
    try:
        offset = column_of(access.offset, sample, sizes)
        stride, is_even = _stride(offset, inverse)
        if access.is_global:
            counts = _distinct(offset, access.bytes, SECTOR, inverse, len(requests))
            sectors = float((counts * weight).sum() / total)
            fewest = -(-_distinct(offset, access.bytes, 1, inverse, len(requests)) // SECTOR)
            ideal = float((fewest * weight).sum() / total)
        else:
            conflicts = _wavefronts(offset, access.bytes, inverse, len(requests))
            wavefronts = float((conflicts * weight).sum() / total)
    except NoValue:
        pass  # where the place depends on data, only the executions are known
    return AccessTraffic(
        **common, bytes=executions * access.bytes, sectors=sectors, ideal=ideal, wavefronts=wavefronts,
        lanes=executions / total, stride=stride, is_even=is_even, is_exact=sample.is_whole,
    )  # fmt: skip


def _stride(offset: NDArray[Any], request: NDArray[Any]) -> tuple[int | None, bool]:
    """(the most frequent distance in bytes between neighbouring lanes, whether it is the only one)."""
    import numpy as np

    order = np.argsort(request, kind="stable")
    ordered, group = offset[order], request[order]
    steps = np.diff(ordered)[np.diff(group) == 0]
    if not len(steps):
        return None, True
    values, counts = np.unique(steps, return_counts=True)
    return int(values[counts.argmax()]), len(values) == 1


def _distinct(offset: NDArray[Any], width: int, unit: int, request: NDArray[Any], count: int) -> NDArray[Any]:
    """Distinct units of `unit` bytes that each request touches."""
    import numpy as np

    pieces = (width - 1) // unit + (2 if unit > 1 else 1)
    first, last = offset // unit, (offset + width - 1) // unit
    unit_of = first[:, None] + np.arange(pieces)[None, :]
    mask = unit_of <= last[:, None]
    span = int(unit_of.max() - unit_of.min()) + 1
    keys = (np.broadcast_to(request[:, None], unit_of.shape) * span + (unit_of - unit_of.min()))[mask]
    return np.bincount(np.unique(keys) // span, minlength=count)


def _wavefronts(offset: NDArray[Any], width: int, request: NDArray[Any], count: int) -> NDArray[Any]:
    """Passes through the banks that each request takes: wide accesses go by half or quarter warps."""
    import numpy as np

    phases = max(1, min(width, 16) // 4)
    rank = np.zeros(len(offset), np.int64)
    order = np.argsort(request, kind="stable")
    grouped = request[order]
    starts = np.flatnonzero(np.concatenate(([True], np.diff(grouped) != 0)))
    rank[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.concatenate((starts, [len(order)]))))
    phase = rank * phases // WARP
    words = max(1, min(width, 16) // 4)
    word = offset[:, None] // 4 + np.arange(words)[None, :]
    unit = np.broadcast_to((request * phases + phase)[:, None], word.shape)
    pairs = np.unique(np.stack([unit.ravel(), word.ravel()], axis=1), axis=0)
    bank = pairs[:, 0] * _BANKS + pairs[:, 1] % _BANKS
    used, hits = np.unique(bank, return_counts=True)
    worst = np.zeros(count * phases, np.int64)
    np.maximum.at(worst, used // _BANKS, hits)
    found: NDArray[Any] = worst.reshape(count, phases).sum(axis=1)
    return found


def _box(access: Access, sample: Sample, sizes: FormSizes) -> Footprint:
    """The smallest box around the touched elements."""
    lows, highs = [], []
    for at, term in enumerate(_dims(access)):
        values = column_of(term, sample, sizes)
        if not len(values):
            return Footprint(elements=0, box=(), first=(), is_exact=True)
        is_last = at == len(_dims(access)) - 1
        lows.append(int(values.min()))
        highs.append(int(values.max()) + (access.elements - 1 if is_last else 0))
    box = tuple(high - low + 1 for low, high in zip(lows, highs, strict=True))
    return Footprint(elements=math.prod(box), box=box, first=tuple(lows), is_exact=False)


def _dims(access: Access) -> tuple[Term, ...]:
    if access.subscripts:
        return access.subscripts
    return (access.index if access.index is not None else access.offset,)


def _of_array(
    form: Form, array: Array, sizes: FormSizes, counted: Mapping[int, AccessTraffic], boxes: Mapping[int, Footprint]
) -> ArrayTraffic:
    accesses = form.of(array)
    known = [access for access in accesses if access.number in counted]
    reads = sum(counted[a.number].bytes for a in known if a.is_read)
    writes = sum(counted[a.number].bytes for a in known if a.is_write)
    sector_bytes = sum(
        int((traffic.sectors or 0) * traffic.requests * SECTOR)
        for traffic in (counted[access.number] for access in known)
    )
    size = size_of(array, sizes)
    union = _united([boxes[access.number] for access in known if access.number in boxes])
    compulsory = size if size is not None else 0
    if union is not None and len(known) == len(accesses):
        touched = union.elements * array.element_bytes
        compulsory = min(compulsory, touched) if size is not None else touched
    block = footprint(form, accesses, sizes)
    block_reads = _asked(form, [a for a in known if a.is_read], sizes)
    sharing = None
    if block is not None and compulsory and array.space == "global":
        sharing = max(1.0, block.elements * sizes.blocks * array.element_bytes / compulsory)
    return ArrayTraffic(
        array=array, compulsory=compulsory, reads=reads, writes=writes, sector_bytes=sector_bytes, block=block,
        block_reads=block_reads, sharing=sharing, is_exact=all(counted[a.number].is_exact for a in known),
        unknown=tuple(access.number for access in accesses if access.number not in counted),
    )  # fmt: skip


def size_of(array: Array, sizes: FormSizes) -> int | None:
    """Bytes of an array at a case."""
    dims = [number_of(term, sizes.values) for term in array.shape]
    if not dims or any(dim is None for dim in dims):
        return None
    return math.prod(dim or 0 for dim in dims) * array.element_bytes


def _united(boxes: Sequence[Footprint]) -> Footprint | None:
    """The smallest box around boxes of equal dimensions."""
    some = [box for box in boxes if box.box]
    if not some or len({len(box.box or ()) for box in some}) != 1:
        return None
    lows = [min(lows) for lows in zip(*((box.first or ()) for box in some), strict=True)]
    ends = [
        max(low + extent for low, extent in pairs)
        for pairs in zip(*(tuple(zip(box.first or (), box.box or (), strict=True)) for box in some), strict=True)
    ]
    extents = tuple(end - low for low, end in zip(lows, ends, strict=True))
    return Footprint(elements=math.prod(extents), box=extents, first=tuple(lows), is_exact=False)


def footprint(
    form: Form, accesses: Sequence[Access], sizes: FormSizes, threads: Sequence[int] | None = None
) -> Footprint | None:
    """Distinct elements of one array that some threads of the middle block touch (all of them by default).

    None if no access has a place that is known.
    """
    import numpy as np

    keys, boxes, is_exact = [], [], True
    start = places(sizes, [sizes.middle], range(sizes.threads) if threads is None else threads)
    block = whole(start)
    for access in accesses:
        if access.blocked is not None:
            is_exact = False
            continue
        try:
            if is_exact:
                columns = instances(form, access, sizes, start, most=_ENUMERATED)
                index = access.index if access.index is not None else access.offset
                element = full_column(index, columns, sizes)
                keys.append((element[:, None] + np.arange(access.elements)[None, :]).ravel())
                if rows_in(columns):
                    boxes.append(_box(access, whole(columns), sizes))
                continue
        except TooMany:
            is_exact = False
        except NoValue:
            is_exact = False
            continue
        try:
            boxes.append(_box(access, sampled(form, access, sizes, block, assuming=True), sizes))
        except NoValue:
            continue
    union = _united(boxes)
    if is_exact and keys:
        return Footprint(
            elements=_how_many(np.concatenate(keys)),
            box=union.box if union else None,
            first=union.first if union else None,
        )
    return union


def _how_many(keys: NDArray[Any]) -> int:
    """Distinct keys. Where they lie close together, as places in memory do, no sort is needed."""
    import numpy as np

    if not len(keys) or (span := int(keys.max()) - (first := int(keys.min())) + 1) > _SPARSE * len(keys):
        return len(np.unique(keys))
    seen = np.zeros(span, np.bool_)
    seen[keys - first] = True
    return int(np.count_nonzero(seen))


def _asked(form: Form, accesses: Sequence[Access], sizes: FormSizes) -> int:
    """Elements that the threads of the middle block ask for."""
    total = 0
    start = one_block(sizes)
    for access in accesses:
        try:
            total += round(sampled(form, access, sizes, start, assuming=True).weight.sum()) * access.elements
        except NoValue:
            continue
    return total
