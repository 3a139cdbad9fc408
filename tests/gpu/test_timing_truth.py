"""evo's times against times taken another way: CUDA graphs written here with torch alone."""

import math
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_programs import case_of, program

from evo.device.remote_device import RemoteGpu
from evo.device.timing_types import LibraryCase, LibraryTimes
from evo.evaluate.measure import BenchOptions, BenchRequest, measure
from evo.spec.chips import Chip, chip
from evo.spec.reference import load_reference
from evo.spec.task import load_task

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]
WITHIN = 0.03
OPTIONS = BenchOptions(budget_s=20, warm_up_s=0.4, samples=128)
CALLS = 60  # in a graph; of long calls fewer
ROUNDS = 3
WARM_US = OPTIONS.warm_up_s * 1e6  # of work before a replay counts: the clock is up, a power limit as near as to evo
DENSE_US = 100_000.0  # of work, then as long a rest: at full load a power limit slows down whoever comes last
SLICE_US = 3_000.0  # of work between two synchronisations
COPIES = 3  # of the inputs, which the calls rotate over as evo's do


@pytest.fixture(scope="module")
def row(gpu: RemoteGpu) -> Chip:
    return chip(gpu.describe(time_limit_s=60)["chip"])


def graph_time_us(call: Callable[[int], object], calls: int, torch: Any) -> float:
    """Microseconds of a call: replays of a graph of it, less what the graph itself costs, from two lengths of graph.

    call takes the number of the set of inputs.
    """
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for number in range(COPIES):
            call(number)
    torch.cuda.synchronize()

    def captured(count: int) -> Any:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for number in range(count):
                call(number % COPIES)
        return graph

    def dense(graph: Any, count: int) -> list[float]:
        events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        with torch.cuda.stream(stream):
            graph.replay()
            events[0].record(stream)
            for event in events[1:]:
                graph.replay()
                event.record(stream)
        torch.cuda.synchronize()
        return [a.elapsed_time(b) * 1000 for a, b in pairwise(events)]

    def replayed(graph: Any, wanted_us: float) -> float:
        count = max(2, round(SLICE_US / statistics.median(dense(graph, 2))))
        taken: list[float] = []
        worked = since_rest = 0.0
        while worked < wanted_us:
            block = dense(graph, count)
            worked += sum(block)
            since_rest += sum(block)
            taken += block
            if since_rest > DENSE_US:
                time.sleep(since_rest * 1e-6)
                since_rest = 0.0
                dense(graph, count)
        return statistics.median(taken)

    long, short = captured(calls), captured(calls // 3)
    replayed(long, WARM_US)
    difference = replayed(long, DENSE_US / 2) - replayed(short, DENSE_US / 2)
    time.sleep(2 * DENSE_US * 1e-6)  # whoever is timed next finds the GPU as this one did
    return difference / (calls - calls // 3)


@pytest.mark.parametrize("name", ["b2", "b4", "b8", "long"])
def test_attention_rivals_agree_with_a_cuda_graph_written_here(gpu: RemoteGpu, name: str) -> None:
    torch = pytest.importorskip("torch")
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    task = load_task(ROOT, "attention")
    case = task.case(name)
    inputs = load_reference(task).inputs(case, 0)
    ours: dict[str, list[float]] = {rival: [] for rival in backends}
    theirs: dict[str, list[float]] = {rival: [] for rival in backends}
    arrays = [np.ascontiguousarray(inputs[tensor]) for tensor in ("q", "k", "v")]
    tensors = [[torch.from_numpy(array).cuda() for array in arrays] for _ in range(COPIES)]
    calls = 6 if name == "long" else CALLS

    def measured_here(rival: str) -> None:
        with torch.inference_mode(), sdpa_kernel(backends[rival]):
            us = graph_time_us(lambda number: scaled_dot_product_attention(*tensors[number]), calls, torch)
        theirs[rival].append(us)

    for number in range(ROUNDS):  # of both in turn, and each first at times, since the clock may drift
        known = [rival for rival in backends if ours[rival]]
        if number % 2:
            for rival in known:
                measured_here(rival)
        times = gpu.time_library(LibraryCase(folder=str(task.folder), axes=dict(case.axes), inputs=inputs), OPTIONS)
        for rival in backends:
            timing = times[rival]
            if isinstance(timing, LibraryTimes):
                ours[rival].append(timing.warm.p50_us)
                if not number % 2:
                    measured_here(rival)
    compared = 0
    for rival in backends:
        if not ours[rival]:
            print(f"{name} {rival}: does not run here")
            continue
        here, there = statistics.median(ours[rival]), statistics.median(theirs[rival])
        print(f"{name} {rival}: evo {here:.3f} us, torch graph {there:.3f} us, ratio {here / there:.4f}")
        assert abs(math.log(here / there)) < WITHIN, (rival, ours[rival], theirs[rival])
        compared += 1
    assert compared


def test_an_empty_kernel_takes_what_a_graph_of_empty_kernels_says(gpu: RemoteGpu, row: Chip) -> None:
    empty = program("if (n < 0) y[i] = x[i];", name="nothing", grid=1, block=32, arch=row.arch)
    result = measure(gpu, BenchRequest(child=(case_of(empty),), options=OPTIONS), chip=row)
    warm = result.child[0].warm
    assert warm is not None
    print(f"empty kernel: p50 {warm.p50_us:.3f} us, p90 {warm.p90_us:.3f} us over {warm.samples} samples")
    assert 0.2 < warm.p50_us < 2.0


def test_times_of_short_kernels_are_told_apart(gpu: RemoteGpu, row: Chip) -> None:
    """The 10 us class: each step of 5 % work is seen, in the right order and in proportion."""
    times = []
    for trips in (4000, 4200, 4410):
        body = f"float a = x[i]; for (int j = 0; j < {trips}; ++j) a = fmaf(a, 0.999f, 0.001f); y[i] = a;"
        short = program(body, name=f"short{trips}", n=4096, block=128, arch=row.arch)
        warm = measure(gpu, BenchRequest(child=(case_of(short),), options=OPTIONS), chip=row).child[0].warm
        assert warm is not None
        times.append(warm.p50_us)
    print("short kernels:", [f"{us:.3f}" for us in times])
    first, second = times[1] / times[0], times[2] / times[1]
    assert 1.02 < first < 1.06
    assert 1.02 < second < 1.06
