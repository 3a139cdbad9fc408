"""The sums of errors that a GPU makes row by row are NumPy's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evo.device.error_sums import error_sums, truth_sums

DEVICE: Any = SimpleNamespace(
    __name__="device", abs=np.abs, sign=np.sign, where=np.where, float64=np.float64
)  # reduced row by row


@pytest.mark.parametrize("size", [8192, 8191, 0])
@pytest.mark.parametrize("special", [None, np.nan, np.inf])
def test_rows_then_all_give_what_all_at_once_gives(size: int, special: float | None) -> None:
    rng = np.random.default_rng(size)
    truth = rng.normal(size=size)
    got = (truth + 1e-3 * rng.normal(size=size)).astype(np.float32)
    if special is not None and size:
        got[size // 2] = special
    with np.errstate(all="ignore"):
        ours, theirs = (error_sums(module, got, truth, 1e-2, 1e-2) for module in (DEVICE, np))
        assert ours == pytest.approx(theirs, nan_ok=True, rel=1e-9)
        assert ours.beyond == theirs.beyond == (special is not None and size > 0)
        if size:
            assert truth_sums(DEVICE, truth, 2.0) == pytest.approx(truth_sums(np, truth, 2.0), rel=1e-9)
