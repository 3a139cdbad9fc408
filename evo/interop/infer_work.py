"""A lower bound on the work of an imported task: `work` of its task.yaml, the products and the bytes.

A formula is left out, with a note, if a kernel may need less than the module as written: a time that is too
short for the stated work counts as a fault of the measurement, and a good kernel must not be mistaken for one.
"""

from __future__ import annotations

from collections.abc import Set

import numpy as np
import torch

from evo.interop.count_flop import Products, fewer_by_values
from evo.interop.infer_axes import InferredAxes, sum_of
from evo.interop.meta_shapes import Shapes
from evo.interop.torch_reference import Arrays, Axes, ModuleReference
from evo.spec.element_types import is_float

_SEEDS = (11, 12)
_LARGE = 0.05  # share of all inputs; smaller tensors are assumed to be read whole
_LOOKED_AT = 16
_CONVINCING = 6  # all of the first ones read: few tensors of which much is left out begin like that
_UNREAD = 4  # of those; fewer may be the edges that a window leaves over
_FOREIGN = (float("nan"), 240.0, -240.0)  # values that every type can represent and few tensors contain


def work_of(
    reference: ModuleReference, labelled: InferredAxes, own: Shapes, sizes: tuple[Axes, Axes], patterned: Set[str]
) -> tuple[dict[str, str], list[str]]:
    """`flop` and `bytes` as formulas, and notes on what is left out.

    own: shapes at the file's own sizes. sizes: of a small case, and of one in proportions nearer to the file's.
    patterned: inputs whose values follow from fewer.
    """
    work, notes = {}, []
    why = "" if own.flops else "no product or convolution to count"
    if fewer := own.fewer or (_fewer_by_values(reference, sizes[0]) if own.flops else ""):
        why = f"a kernel may need fewer operations than the module, because {fewer}"
    if labelled.flop and not why:
        work["flop"] = labelled.flop
    else:
        why = why or "no formula for its operations was found"
        notes.append(f"no `flop` in `work`, so the floors of `evo limits` come from the bytes alone: {why}")
    partly = [name for name in labelled.bytes if name in patterned or _partly_read(reference, sizes[1], name)]
    notes += [f"a kernel need not read all of {name}: its bytes are left out of `work`" for name in partly]
    if text := sum_of(formula for name, formula in labelled.bytes.items() if name not in partly):
        work["bytes"] = text
    return work, notes


def _inputs(reference: ModuleReference, sizes: Axes, seed: int) -> Arrays:
    return reference.inputs(sizes, np.random.default_rng(seed))


def _fewer_by_values(reference: ModuleReference, sizes: Axes) -> str:
    counters, found = [], []
    for seed in _SEEDS:
        inputs = _inputs(reference, sizes, seed)
        with Products(on_values=True) as counter:
            found.append(reference.run(inputs, sizes, torch.float64))
        counters.append(counter)
    return fewer_by_values(counters[0], counters[1], list(zip(*found, strict=True)))


def _partly_read(reference: ModuleReference, sizes: Axes, name: str) -> bool:
    """Whether some elements of a large floating input never affect an output: rows that no index names."""
    inputs = _inputs(reference, sizes, _SEEDS[0])
    if name not in inputs or not is_float(str(inputs[name].dtype)):
        return False
    values = inputs[name]
    if values.nbytes < _LARGE * sum(array.nbytes for array in inputs.values()):
        return False
    before, unread = reference.expected(inputs, sizes), 0
    places = np.random.default_rng(0).choice(values.size, min(values.size, _LOOKED_AT), replace=False)
    for number, place in enumerate(places):
        if number == _CONVINCING and not unread:
            return False
        unread += not any(_noticed(reference, sizes, inputs, (name, int(place), to), before) for to in _FOREIGN)
        if unread >= _UNREAD:
            return True
    return False


def _noticed(
    reference: ModuleReference, sizes: Axes, inputs: Arrays, change: tuple[str, int, float], before: Arrays
) -> bool:
    name, place, to = change
    values = inputs[name].copy()
    values.reshape(-1)[place] = to
    try:
        after = reference.expected({**inputs, name: values}, sizes)
    except (RuntimeError, ValueError, IndexError):
        return True
    return not all(np.array_equal(before[out], after[out], equal_nan=True) for out in before)
