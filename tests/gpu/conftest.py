"""A GPU in a real child process, for the tests of this folder."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from gpu_programs import inputs

from evo.device import DeviceName, Program, RunRequest, gpu_present
from evo.device.remote_device import RemoteGpu


@pytest.fixture(scope="session")
def gpu() -> Iterator[RemoteGpu]:
    if not gpu_present():
        pytest.skip("no GPU")
    with RemoteGpu(DeviceName("gpu", "0")) as gpu:
        yield gpu


@pytest.fixture
def run(gpu: RemoteGpu) -> Callable[..., Any]:
    def call(prog: Program, limit: float = 60.0, **more: Any) -> Any:
        more.setdefault("inputs", inputs())
        return gpu.run(RunRequest(program=prog, **more), time_limit_s=limit)

    return call
