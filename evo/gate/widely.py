"""All numbers of a large case for the price of a few: inputs repeat, so that a cut of the reference knows them.

The places along an axis that do not depend on one another are given the inputs of a few of them, in an order that only
the seed tells. What the variant makes of each is then held to the truth of those few, wherever it lies.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evo.device import Arrays, WideLook
from evo.dtypes import is_float
from evo.gate.compare import compare
from evo.reference import Expectation
from evo.result import CaseCheck, Status
from evo.task import Case, Task

Places = NDArray[np.int64]
REPEATED = "repeated"  # errors of equal inputs are no independent samples, so nothing is said of their bias


def repeated(task: Task, case: Case, axis: str, inputs: Arrays, where: Places, seed: int) -> tuple[Arrays, Places]:
    """The inputs with those at `where` everywhere along the axis, and of each place, which of them it has.

    Of a single one, its own place is given another's inputs instead and left out (-1): a variant that hands out one
    place's results everywhere would be right otherwise.
    """
    length = case.axes[axis]
    rng = np.random.default_rng([seed, length, len(where)])
    kinds = rng.permutation(np.r_[np.arange(len(where)), rng.integers(0, len(where), length - len(where))])
    led = [tensor for tensor in task.inputs if tensor.shape and tensor.shape[0].text == axis]
    if not all(is_float(tensor.dtype) for tensor in led):
        kinds = np.sort(kinds)  # whole numbers may have to rise
    source = where[kinds]
    if len(where) == 1 and length > 1:
        source[where[0]] = (where[0] + 1) % length
        kinds[where[0]] = -1
    given = {tensor.name: np.ascontiguousarray(inputs[tensor.name][source]) for tensor in led}
    return inputs | given, np.asarray(kinds, np.int64)


def held_to_truth(task: Task, case: Case, found: WideLook, truth: Expectation) -> tuple[CaseCheck, bool] | None:
    """The first thing that is wrong with the lowest (True) or the highest (False) values; None if nothing."""
    expected = {name: values.reshape(-1) for name, values in truth.expected.items()}
    trusted = {n: v.reshape(-1) for n, v in truth.trusted.items()} if truth.trusted is not None else None
    flat = Expectation({}, expected, trusted, REPEATED)
    for lowest in (True, False):
        outputs: Arrays = {}
        for name, folded in found.folded.items():
            values = folded.low if lowest else folded.high
            with np.errstate(all="ignore"):  # the truth itself where no block that ran has written
                outputs[name] = np.where(folded.seen, values, expected[name].astype(values.dtype))
        row = compare(task, case.name, outputs, flat)
        if row.status is not Status.CORRECT:
            return row, lowest
    return None
