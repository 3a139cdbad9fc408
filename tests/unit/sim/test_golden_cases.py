"""Every golden case runs on the simulator. NumPy checks opcodes in the other files, hardware checks in tests/gpu."""

from __future__ import annotations

import goldens
import goldens_cuda
import pytest

OPCODES = list(goldens.opcodes(64))


def test_a_sample_of_opcodes_runs() -> None:
    for golden in OPCODES[::17]:
        golden.simulated()


@pytest.mark.long
@pytest.mark.parametrize("golden", OPCODES, ids=lambda golden: golden.name)
def test_opcode_runs(golden: goldens.Golden) -> None:
    golden.simulated()


@pytest.mark.long
def test_warp_and_tensor_kernels_run() -> None:
    for golden in goldens_cuda.kernels():
        golden.simulated()
