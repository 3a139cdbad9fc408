"""The clean kernels of the simulator's suite on a real GPU, against the same NumPy answers."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "data" / "sim"))
from clean_cases import CASES, CLEAN, compare

pytestmark = pytest.mark.gpu


def headers() -> list[str]:
    """The toolkit's headers, where its wheels are installed."""
    found = importlib.util.find_spec("nvidia")
    folders = found.submodule_search_locations or [] if found else []
    return [f"-I{Path(folder) / 'cu13' / 'include'}" for folder in folders]


@pytest.mark.parametrize("name", sorted(CASES))
def test_clean_on_a_gpu(name: str) -> None:
    cupy = pytest.importorskip("cupy")
    case = CASES[name]
    kernel = cupy.RawModule(code=(CLEAN / f"{name}.cu").read_text(), options=("--std=c++17", *headers())).get_function(
        "k"
    )
    # Bit patterns travel; NumPy has no name for bfloat16 that CuPy knows.
    args = [cupy.asarray(a.view(np.uint8)) if isinstance(a, np.ndarray) else a for a in case.args]
    grid, block = ((*size, 1, 1)[:3] for size in (case.grid, case.block))
    kernel(grid, block, tuple(args))
    outputs = {}
    for index in case.expected:
        like = case.args[index]
        outputs[index] = cupy.asnumpy(args[index]).view(like.dtype).reshape(like.shape)
    compare(case, outputs)
