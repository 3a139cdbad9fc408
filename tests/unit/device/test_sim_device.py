"""The `sim:` device: what a launch may not find in memory, and sizes at which a variant does nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evo import sim
from evo.cuda.compile import Binary, compile_source
from evo.device import Argument, BenchCase, BoundLaunch, Buffer, DeviceName, Program, RunRequest, SampleRequest
from evo.device.sim_device import SimDevice
from evo.results import Fault, FaultKind
from evo.spec.launch import Launch, Workspace

HEAD = 'extern "C" __global__ void k(const float* x, float* y, int* s, int n) {\n'
HEAD += "    const int i = blockIdx.x * 256 + threadIdx.x;\n"


def program(body: str, *, n: int, init: str = "poison") -> Program:
    binary = compile_source(HEAD + body + "\n}\n", name="k.cu", macros={})
    assert isinstance(binary, Binary), binary
    launch = Launch(kernel="k", grid=(n // 256, 1, 1), block=(256, 1, 1), shared_bytes=0)
    buffers = [Argument(name=name, dtype="float32") for name in ("x", "y")] + [Argument(name="s", dtype="int32")]
    return Program(
        variant=str(hash(body)),
        case="size",
        binary=binary,
        launches=(BoundLaunch(launch=launch, arguments=(*buffers, Argument(name="n", dtype="int32", value=n))),),
        outputs=(Buffer(name="y", dtype="float32", dims=(n,)),),
        scratch=(Workspace(name="s", size_bytes=4 * n, init=init),),
    )


def inputs(n: int) -> dict[str, np.ndarray]:
    return {"x": np.arange(n, dtype=np.float32)}


@pytest.fixture(scope="module")
def device() -> SimDevice:
    return SimDevice(DeviceName("sim", "l4"))


@pytest.mark.parametrize(
    ("body", "buffer"),
    [
        ("if (s[i] == 7) return; s[i] = 7; y[i] = x[i];", "s"),
        ("if (y[i] == x[i]) return; y[i] = x[i];", "y"),
    ],
)
def test_a_launch_may_not_read_what_it_did_not_write(device, body, buffer):
    (fault,) = device.run(RunRequest(program=program(body, n=512), inputs=inputs(512))).faults
    assert fault.kind == "uninitialised"
    assert f"buffer {buffer}" in fault.message


def test_a_cleared_workspace_may_be_read(device):
    result = device.run(RunRequest(program=program("y[i] = x[i] + s[i];", n=512, init="zero"), inputs=inputs(512)))
    assert not result.faults
    assert np.array_equal(result.outputs[0]["y"], inputs(512)["x"])


@pytest.mark.parametrize("poison", [0xFF, 0x7B])
def test_what_is_left_out_holds_the_poison(device, poison):
    request = RunRequest(program=program("if (i > 0) y[i] = x[i];", n=512), inputs=inputs(512), poison=poison)
    (outputs,) = device.run(request).outputs
    assert outputs["y"][:1].tobytes() == bytes([poison] * 4)


def test_a_screening_does_not_optimise_and_shows_the_same(monkeypatch):
    levels, load = [], sim.load

    def loaded(ptx, **options):
        levels.append(options["opt_level"])
        return load(ptx, **options)

    monkeypatch.setattr(sim, "load", loaded)
    case = BenchCase(program=program("if (i < n && i % 3) y[i] = x[i] * 3.0f;", n=1 << 18), inputs=inputs(1 << 18))
    fresh, used = SimDevice(DeviceName("sim", "l4")), SimDevice(DeviceName("sim", "l4"))
    assert not isinstance(used.estimate([case]), Fault)
    assert levels == [1]
    first = used.screen([case])
    assert levels == [1]  # what is there already is used
    assert fresh.screen([case]) == first
    assert levels == [1, 0]
    outside = BenchCase(program=program("y[i + n] = x[i];", n=1 << 12), inputs=inputs(1 << 12))
    assert isinstance(used.estimate([outside]), Fault)
    assert fresh.screen([outside]) == used.screen([outside])  # the same fault, at the same place
    assert levels == [1, 0, 1, 0]


@pytest.mark.parametrize("n", [1 << 12, 1 << 18], ids=["whole", "sampled"])
def test_a_variant_that_writes_nothing_at_a_size_has_no_time_there(device, n):
    found = device.estimate([BenchCase(program=program("if (n < 0) y[i] = x[i];", n=n), inputs=inputs(n))])
    assert isinstance(found, Fault)
    assert found.kind is FaultKind.UNINITIALISED


def test_an_output_that_the_last_block_writes_is_believed_after_a_whole_run(device):
    n = 1 << 18
    last = """
    __shared__ int ticket;
    if (i % 256 == 0) ticket = atomicAdd(s, 1);
    __syncthreads();
    if (ticket == gridDim.x - 1)
        for (int j = threadIdx.x; j < n; j += 256) y[j] = x[j];
    """
    found = device.estimate([BenchCase(program=program(last, n=n, init="zero"), inputs=inputs(n))])
    assert not isinstance(found, Fault)


@pytest.mark.parametrize("init", ["zero", "input"])
def test_an_output_may_start_at_zero_or_at_its_input_anew_each_time(device, init):
    found = program("y[i] += 2.0f * x[i];", n=512)
    found = replace(found, outputs=(replace(found.outputs[0], init=init),))
    given = inputs(512) | ({"y": np.full(512, 3, np.float32)} if init == "input" else {})
    result = device.run(RunRequest(program=found, inputs=given, repeats=2))
    assert not result.faults
    for outputs in result.outputs:
        assert np.array_equal(outputs["y"], 2 * given["x"] + (3 if init == "input" else 0))
    assert device.estimate([BenchCase(program=found, inputs=given)])[0].time_us > 0


def test_of_a_block_without_an_end_the_others_are_asked_only_if_they_could_end_it(device):
    n, wholes = 256 * 400, []
    for body in ("for (float v = x[i]; v < 1e30f; v *= 0.5f) y[i] = v;", "while (atomicAdd(s, 1) >= 0) y[i] = x[i];"):
        case = BenchCase(program=program(body, n=n, init="zero"), inputs=inputs(n))
        found = device.run_sample(SampleRequest(case=case, draw=5, blocks=32, budget=1_000_000))
        assert found.fault.kind is FaultKind.BUDGET
        wholes.append(found.whole)
    assert wholes == [True, False]
