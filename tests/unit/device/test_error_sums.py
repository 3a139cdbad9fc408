"""The sums of errors that a GPU's kernels make are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evo import sim
from evo.cuda.compile import Binary, compile_source
from evo.device.error_sums import error_sums, truth_sums
from evo.device.gpu_error_sums import COLUMNS, SOURCE, THREADS, errors_of_rows, truths_of_rows

BLOCKS = 3


@pytest.fixture(scope="module")
def module() -> sim.Module:
    found = compile_source(SOURCE, name="sums", macros={})
    assert isinstance(found, Binary), found
    return sim.load(found.ptx)


def rows_of(module: sim.Module, kernel: str, *arguments: Any) -> NDArray[np.float64]:
    """The rows that the kernel's blocks write, on a simulator."""
    memory, given = sim.Memory(), []
    rows = memory.allocate(BLOCKS * COLUMNS * 8, "rows")
    for value in arguments:
        if isinstance(value, np.ndarray):
            given.append(memory.allocate(max(value.nbytes, 8), "array"))
            memory.write(given[-1], value)
        else:
            given.append(value)
    result = module.launch(kernel, grid=(BLOCKS,), block=(THREADS,), args=[*given, rows], memory=memory)
    assert not result.faults
    return np.asarray(memory.read(rows, np.float64, (BLOCKS, COLUMNS)))


@pytest.mark.parametrize("size", [5000, 100, 0])
@pytest.mark.parametrize("special", [None, np.nan, np.inf, -np.inf])
def test_they_are_numpys(module: sim.Module, size: int, special: float | None) -> None:
    rng = np.random.default_rng(size)
    truth = rng.normal(size=size)
    truth[::7] = 0.0
    got = truth + 1e-3 * rng.normal(size=size)
    if special is not None and size:
        got[size // 2] = special
    with np.errstate(all="ignore"):
        ours = errors_of_rows(rows_of(module, "error_sums", got, truth, 1e-2, 1e-2, np.int64(size)))
        theirs = error_sums(got, truth, 1e-2, 1e-2)
        assert ours == pytest.approx(theirs, nan_ok=True, rel=1e-9)
        assert ours.beyond == theirs.beyond == (special is not None and size > 0)
        if size:
            for array, most in ((truth, 2.0), (truth, 100.0), (got, 100.0)):
                sums = truths_of_rows(rows_of(module, "truth_sums", array, most, np.int64(size)))
                assert sums == pytest.approx(truth_sums(array, most), nan_ok=True, rel=1e-9)
