"""How many threads the linear algebra below a reference has, as the reference itself sees it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from evo.spec.library_threads import LARGE_BYTES
from evo.spec.reference_process import ReferenceProcess

COUNTED = """
import ctypes, re
import numpy as np

def _threads():
    for path in set(re.findall(r"/\\S*openblas\\S*\\.so\\S*", open("/proc/self/maps").read())):
        return ctypes.CDLL(path).scipy_openblas_get_num_threads64_()
    return 0

def expected(inputs, case): return {"y": np.array([_threads()])}
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has one thread")
@pytest.mark.parametrize(("bytes_", "threads"), [(64, 1), (LARGE_BYTES, 2)])
def test_small_arrays_have_one_thread_and_large_ones_the_librarys_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_: int, threads: int
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    (tmp_path / "reference.py").write_text(COUNTED)
    process = ReferenceProcess(tmp_path / "reference.py")
    try:
        found = process.call("expected", ({"x": np.zeros(bytes_, np.uint8)}, {}), limit_s=20)
    finally:
        process.close()
    if not found.value["y"][0]:
        pytest.skip("numpy has another library than OpenBLAS here")
    assert found.value["y"][0] == threads
