"""How large what is summed for an output is: by how far it moves when its inputs do, each on its own."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from evo.device import Arrays
from evo.interop.adopt.draft_trial import DraftTrial
from evo.spec.element_types import is_float
from evo.spec.tensor_arrays import typical_size

_BY = 2.0**-6  # of each input: more than a rounding of any type
_MOST = 4.0  # times what terms of any sign can be for such a total: an output that jumps moves by more


def sum_magnitudes(trial: DraftTrial, axes: Mapping[str, int], exact: Arrays) -> dict[str, float]:
    """By output, the sum of the sizes of its terms, for a typical element; of the element itself if that is larger.

    Terms that each move by a share of their size, up or down, move their sum by the root of the sum of squares.
    """
    drawn, rng = trial.inputs(axes), np.random.default_rng(3)
    floats = {t.name for t in trial.draft.given if t.role != "out" and is_float(t.dtype)}
    moved: Arrays = {
        n: drawn[n].astype(np.float64) * (1 + _BY * rng.choice([-1.0, 1.0], drawn[n].shape)) for n in floats
    }
    near = trial.run_wide(axes, others=moved)
    inputs = max((a.size for a in moved.values()), default=0)
    found: dict[str, float] = {}
    for name, values in exact.items():
        found[name] = own = typical_size(values.astype(np.float64))
        if near is not None:
            with np.errstate(all="ignore"):
                by = typical_size(near[name].astype(np.float64) - values.astype(np.float64))
            found[name] = max(own, min(by / _BY, _MOST * own) * math.sqrt(max(1.0, inputs / values.size)))
    return found
