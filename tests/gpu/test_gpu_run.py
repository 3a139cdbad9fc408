"""What a variant may do to a GPU, and how each misdeed is named, without losing the run."""

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gpu_programs import N, inputs, program

from evo.device import POISON_LARGE, BenchCase, Buffer, ExtremesRequest
from evo.device.gpu_lock import lock_path
from evo.device.output_extremes import extremes_of
from evo.device.remote_device import RemoteGpu
from evo.errors import TimedOut
from evo.spec.chips import CHIPS
from evo.spec.dtypes import NUMPY
from evo.spec.launch import Workspace

pytestmark = pytest.mark.gpu

HANG = "volatile const float* p = x; while (p[i] == p[i]) {} y[i] = 0.0f;"
ADD = "if (i < n) y[i] = x[i] + 1.0f;"
Run = Callable[..., Any]


def test_the_gpu_describes_itself(gpu: RemoteGpu) -> None:
    about = gpu.describe(time_limit_s=30)
    print("describe:", about)
    assert about["chip"] in CHIPS
    assert about["driver"]
    gpu.health(time_limit_s=30)


def test_a_right_kernel_is_right_under_both_poisons_and_an_offset(run: Run) -> None:
    data = inputs()
    for more in ({}, {"poison": POISON_LARGE, "offset_bytes": 16}):
        result = run(program(ADD), repeats=3, inputs=data, **more)
        assert result.faults == result.overwritten == result.broken_guards == ()
        assert len(result.outputs) == 3
        for outputs in result.outputs:
            np.testing.assert_array_equal(outputs["y"], data["x"] + 1)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_extremes_on_the_gpu_are_those_of_the_host(gpu: RemoteGpu, dtype: str) -> None:
    kind, places = NUMPY[dtype], 1000
    each = 4 * N // 1024 // kind.itemsize
    copied = program("if (i < n) y[i] = x[i];", n=places * N // 1024)  # whatever the words are
    copied = replace(copied, outputs=(Buffer(name="y", dtype=dtype, dims=(places, each)),))
    rng = np.random.default_rng(0)
    values = np.asarray(rng.normal(size=places * each) * 100).astype(kind)
    if dtype != "int32":
        values[rng.integers(0, len(values), 500)] = rng.choice([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0], 500)
    groups = rng.integers(0, 7, places)
    groups[:7], groups[9] = np.arange(7), -1
    case = BenchCase(program=copied, inputs={"x": values})
    found = gpu.output_extremes(ExtremesRequest(case=case, draw=0, groups=groups), time_limit_s=30).extremes["y"]
    wanted = extremes_of(values, None, groups, dtype)
    for name in ("low", "high", "seen"):
        ours, theirs = getattr(found, name), getattr(wanted, name)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours.view(np.uint8), theirs.view(np.uint8), err_msg=name)


def test_unwritten_elements_keep_the_poison(run: Run) -> None:
    result = run(program("if (i < n - 5) y[i] = x[i];"))
    assert np.isnan(result.outputs[0]["y"][-5:]).all()
    assert not np.isnan(result.outputs[0]["y"][:-5]).any()


def test_a_hang_times_out_and_the_next_variant_runs(run: Run) -> None:
    run(program(ADD))
    started = time.monotonic()
    with pytest.raises(TimedOut):
        run(program(HANG, name="hang"), limit=2.0)
    run(program(ADD))
    print(f"hang killed and next variant run in {time.monotonic() - started:.1f} s")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('asm volatile("trap;"); y[i] = x[i];', "trap"),
        ("y[i + (1LL << 40)] = x[i];", "out_of_bounds"),
        ("*(double*)((char*)(y + i) + 4) = 1.0;", "misaligned"),
    ],
)
def test_a_sticky_fault_is_named_and_costs_one_process(run: Run, gpu: RemoteGpu, body: str, kind: str) -> None:
    run(program(ADD))
    before = gpu.starts
    result = run(program(body, name=kind))
    print("fault:", result.faults)
    assert [fault.kind for fault in result.faults] == [kind]
    assert result.faults[0].kernel == "k"
    assert run(program(ADD)).faults == ()
    assert gpu.starts == before + 1


def test_writes_past_the_end_break_a_guard(run: Run) -> None:
    result = run(program("if (i < n) y[i] = x[i]; if (i == 0) y[n] = 0.0f;"))
    assert result.broken_guards == ("y",)
    result = run(program("if (i < n) y[i] = x[i]; if (i == 0) y[-1] = 0.0f;"))
    assert result.broken_guards == ("y",)
    last = run(program("if (i < n) y[i] = x[i]; if (i == 0) y[n + 100] = 0.0f;"), offset_bytes=16)
    assert last.broken_guards == ("y",)


def test_an_overwritten_input_is_named(run: Run) -> None:
    result = run(program("if (i < n) y[i] = x[i]; if (i == n - 1) ((float*)x)[i] = 3.0f;"))
    assert result.overwritten == ("x",)


def test_what_the_chip_cannot_launch_is_a_launch_fault_and_not_sticky(run: Run, gpu: RemoteGpu) -> None:
    before = gpu.starts
    result = run(program("extern __shared__ float s[]; s[0] = x[i]; y[i] = s[0];", shared=300_000))
    assert [fault.kind for fault in result.faults] == ["launch"]
    print("fault:", result.faults)
    assert run(program(ADD)).faults == ()
    assert gpu.starts == before


def test_large_dynamic_shared_memory_works(run: Run) -> None:
    body = "extern __shared__ float s[]; s[20000 + threadIdx.x] = x[i]; __syncthreads(); y[i] = s[20000 + threadIdx.x];"
    data = inputs()
    result = run(program(body, shared=90_000), inputs=data)
    assert result.faults == ()
    np.testing.assert_array_equal(result.outputs[0]["y"], data["x"])


def test_uninitialised_shared_memory_shows_as_the_poison(run: Run) -> None:
    body = (
        "__shared__ float s[4096]; volatile float* p = s; y[i] = p[threadIdx.x] + (x[i] > 1e30f ? (p[0] = 1.f) : 0.f);"
    )
    first = run(program(body)).outputs[0]["y"].tobytes()
    second = run(program(body), poison=POISON_LARGE).outputs[0]["y"].tobytes()
    assert first != second


@pytest.mark.parametrize(("init", "expected"), [("zero", 0.0), ("poison", float("nan"))])
def test_workspaces_start_as_declared_each_time(run: Run, init: str, expected: float) -> None:
    space = Workspace(name="s", size_bytes=4 * N, init=init)
    result = run(program("y[i] = s[i]; s[i] = 7.0f + x[i];", scratch=space), repeats=2)
    for outputs in result.outputs:
        np.testing.assert_array_equal(outputs["y"], np.full(N, expected, np.float32))


def test_twenty_candidates_with_five_bad_ones_mislabel_none(run: Run) -> None:
    bad = {3: "trap", 7: "out_of_bounds", 11: "out_of_bounds", 15: "hang", 19: "trap"}
    bodies = {
        "trap": "if (i >= 0) __trap();",
        "out_of_bounds": "y[i + (1LL << 40)] = 1.0f;",
        "hang": HANG,
    }
    seen = {}
    for number in range(20):
        kind = bad.get(number)
        body = bodies[kind] if kind else f"if (i < n) y[i] = x[i] * {number}.0f;"
        try:
            result = run(program(body, name=f"v{number}"), limit=3.0)
            seen[number] = result.faults[0].kind if result.faults else None
        except TimedOut:
            seen[number] = "hang"
    assert seen == {number: bad.get(number) for number in range(20)}


def test_a_gpu_in_use_is_waited_for_and_not_charged(run: Run, gpu: RemoteGpu) -> None:
    run(program(ADD))
    uuid = gpu.describe(time_limit_s=30)["uuid"]
    descriptor = os.open(lock_path(uuid), os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    threading.Timer(3.0, os.close, [descriptor]).start()
    started = time.monotonic()
    assert run(program(ADD), limit=2.0).faults == ()
    assert time.monotonic() - started >= 2.5


UPLOADED_AGAIN = """\
import sys
import cupy
import numpy as np
from evo.device import DeviceName
from evo.device.gpu_context import GpuContext
from evo.device.gpu_memory import Arena

device = GpuContext(DeviceName("gpu", "0"))
data = np.random.default_rng(0).random(2**20, np.float32)
data.flags.writeable = False
places = []
for _ in range(3):
    arena = Arena({"x": data.nbytes}, device.tools, key=1)
    arena.upload("x", data)
    np.testing.assert_array_equal(arena.download("x", data.dtype, data.shape), data)
    (copy,) = device.tools.copies._known.values()
    places.append(copy.memory.ptr)
    if sys.argv[1] == "spoiled":
        cupy.cuda.runtime.memset(copy.memory.ptr + 4096, 0, 4)
assert sys.argv[1] == "spoiled" or len(set(places)) == 1
device.tools.copies.drop()
assert not device.tools.copies._known
"""


@pytest.mark.parametrize("how", ["intact", "spoiled"])
def test_an_input_that_is_uploaded_again_arrives_whatever_was_written_over_its_copy(how: str) -> None:
    subprocess.run([sys.executable, "-c", UPLOADED_AGAIN, how], check=True, timeout=120)
