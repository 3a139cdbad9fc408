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


# What is stored only, and what decides how often a loop turns or where it reads: in registers, by way of shared memory,
# of the launch before, of other lanes.
DECIDING = {
    "nothing": "y[i] = sqrtf(x[i]) * 3.0f + expf(x[i]);",
    "data": "float t = x[i]; int c = 0; while (t > 1.0f) { t *= 0.5f; ++c; } y[i] = c;",
    "shared": """
        __shared__ float held[256];
        held[threadIdx.x] = x[i] * 2.0f;
        __syncthreads();
        float sum = 0.0f;
        for (int j = 0; j < (int)held[255 - threadIdx.x] % 7; ++j) sum += x[j];
        y[i] = sum;""",
    "workspace": "s[i] = (int)x[i] % 5; int c = 0; while (c < *(volatile int*)&s[i]) ++c; y[i] = expf(x[c]);",
    "lanes": "float t = __shfl_xor_sync(~0u, x[i], 1); y[i] = __any_sync(~0u, t > 500.0f) ? x[(int)t % n] : expf(t);",
    "atomics": "int at = atomicAdd(s, 1) % n; y[i] = x[at] + rsqrtf(x[i] + 1.0f);",
}


@pytest.mark.parametrize("body", DECIDING.values(), ids=list(DECIDING))
def test_a_first_look_counts_what_the_whole_kernel_does(body):
    case = BenchCase(program=program(body, n=1 << 12, init="zero"), inputs=inputs(1 << 12))
    fresh, used = SimDevice(DeviceName("sim", "l4")), SimDevice(DeviceName("sim", "l4"))
    used.translate(case.program)
    assert not isinstance(used.screen([case]), Fault)
    assert fresh.screen([case]) == used.screen([case])


def test_counting_a_kernel_leaves_out_what_is_only_stored():
    text = program("float t = x[i]; y[i] = sqrtf(t) * 3.0f + expf(t); s[i] = (int)t;", n=512).binary.ptx
    memory = sim.Memory()
    x, y, s = (memory.allocate(2048, name) for name in "xys")
    memory.write(x, np.ones(512, np.float32))
    shape = {"grid": (2,), "block": (256,), "args": [x, y, s, np.int32(512)], "memory": memory}
    whole = sim.load(text).launch("k", **shape)
    counted = sim.load(text, opt_level=0, counts_only=True).launch("k", **shape)
    assert whole.counters.totals() == counted.counters.totals()
    assert not memory.read(y, np.float32, (512,)).any()  # nothing that was computed
    assert not counted.faults


def test_what_a_kernel_stores_for_the_next_one_may_decide_there():
    texts = """
    extern "C" __global__ void first(const float* x, int* s) { s[threadIdx.x] = (int)(x[threadIdx.x] * 3.0f); }
    extern "C" __global__ void second(const int* s, float* y) {
        float t = 0.0f;
        for (int j = 0; j < s[threadIdx.x]; ++j) t += j;
        y[threadIdx.x] = t;
    }"""
    binary = compile_source(texts, name="k.cu", macros={})
    assert isinstance(binary, Binary), binary
    turns = []
    for less in (False, True):
        memory = sim.Memory()
        x, s, y = (memory.allocate(128, name) for name in "xsy")
        memory.write(x, np.arange(32, dtype=np.float32))
        module = sim.load(binary.ptx, opt_level=0, counts_only=less)
        module.launch("first", grid=(1,), block=(32,), args=[x, s], memory=memory)
        turns.append(module.launch("second", grid=(1,), block=(32,), args=[s, y], memory=memory).counters.totals())
    assert turns[0] == turns[1]


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


_WORK = """
    __shared__ float part[256];
    float v = x[i];
    for (int turn = 0; turn < 4; ++turn) {
        part[threadIdx.x] = v;
        __syncthreads();
        v += part[threadIdx.x ^ 64];
        __syncthreads();
    }
    y[i] = v;
"""
_CHAIN = """
    __shared__ int turn;
    if (threadIdx.x == 0) {{ turn = atomicAdd(s, 1); {before} }}
    __syncthreads();
    if (turn < 0) return;
    {work}
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {{ {after} }}
"""
_WAIT = "while (atomicAdd(s + 1, 0) < turn) {} __threadfence();"


def _modelled(device: SimDevice, body: str) -> float:
    n = 256 * 1024
    (found,) = device.estimate([BenchCase(program=program(body, n=n, init="zero"), inputs=inputs(n))])
    return found.time_us


def test_blocks_that_wait_for_one_another_in_a_chain_take_their_times_one_after_another(device):
    """Those that wait for a word that is soon there take theirs side by side: a look-back, a lock held for a moment."""
    plain = _modelled(device, _WORK)
    chained = _modelled(device, _CHAIN.format(before=_WAIT, work=_WORK, after="atomicAdd(s + 1, 1);"))
    late = _CHAIN.format(before="", work=_WORK, after=_WAIT + "atomicAdd(s + 1, 1);")
    lock = "while (atomicCAS(s + 2, 0, 1)) __nanosleep(20); __threadfence(); s[3] += 1;"
    lock += "__threadfence(); atomicExch(s + 2, 0);"
    locked = _CHAIN.format(before="", work=_WORK, after=lock)
    assert chained > 20 * plain
    assert max(_modelled(device, late), _modelled(device, locked)) < 5 * plain


def test_a_barrier_of_more_blocks_than_the_chip_holds_with_their_registers_is_never_passed(device):
    """Each of 256 threads holds 96 numbers: two such blocks fit each of the 58 SMs of an L4."""
    body = """
    float v[96];
    for (int k = 0; k < 96; ++k) v[k] = x[(i + 256 * k) % n];
    __syncthreads();
    if (threadIdx.x == 0) {{ __threadfence(); atomicAdd(s, 1); while (atomicAdd(s, 0) < gridDim.x) {{}} }}
    __syncthreads();
    float sum = 0.0f;
    for (int k = 95; k >= 0; --k) sum = sum * v[k] + 1.0f;
    y[i] = sum;
    """.replace("{{", "{").replace("}}", "}")
    for blocks, kinds in ((60, []), (130, [FaultKind.DEADLOCK])):
        n = 256 * blocks
        result = device.run(RunRequest(program=program(body, n=n, init="zero"), inputs=inputs(n)))
        assert [fault.kind for fault in result.faults] == kinds
