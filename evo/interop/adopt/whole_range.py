"""Which integer inputs of the original may be any number of their type: found by running it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from evo.errors import TaskInvalid
from evo.interop.adopt.draft_parts import TensorDraft
from evo.interop.adopt.oracle import Failing
from evo.interop.adopt.trial import DraftTrial
from evo.spec.element_types import DTYPES, is_float
from evo.spec.integer_distributions import range_of_dtype

_MOST = 2**62  # of 64 bits, so that a sum of two has a place


def widen_integers(trial: DraftTrial, base: Mapping[str, int]) -> None:
    """Let integers be any of their type, if they lead nowhere and the outputs stay finite.

    The reference draws 16 bits of them, which tell a wrong address as well as 32; the gate then draws from all.
    """
    for tensor in trial.draft.given:
        wide = tensor.role != "out" and tensor.dtype != "bool" and not is_float(tensor.dtype)
        if wide and DTYPES[tensor.dtype] >= 4 and tensor.high is None and _takes_all(trial, tensor, base):
            tensor.ends = _ends(tensor)
            tensor.why += f", any {tensor.dtype}"
    trial.changed()


def _ends(tensor: TensorDraft) -> tuple[int, int]:
    own = range_of_dtype(tensor.dtype)
    return max(own.low, -_MOST), min(own.high, _MOST)


def _takes_all(trial: DraftTrial, tensor: TensorDraft, base: Mapping[str, int]) -> bool:
    """Whether the original runs with both ends of the type, and with what is between them."""
    drawn = trial.inputs(base)[tensor.name]
    try:
        for values in _patterns(drawn, *_ends(tensor)):
            outputs = trial.run(base, races=False, others={tensor.name: values})
            if not all(np.isfinite(v.astype(np.float64)).all() for v in outputs.values() if v.dtype.kind not in "iub"):
                return False
    except (Failing, TaskInvalid):
        return False
    return True


def _patterns(drawn: NDArray[np.generic], low: int, high: int) -> Iterator[NDArray[np.generic]]:
    rng = np.random.default_rng(7)
    for values in (np.full(drawn.shape, low), np.full(drawn.shape, high), rng.integers(low, high, drawn.shape)):
        yield values.astype(drawn.dtype)
