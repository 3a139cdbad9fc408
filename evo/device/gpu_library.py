"""Library calls of a case under the protocol of variants, by themselves and in pairs with a variant in one process.

Graph replay, same sample sizes, one GPU lock. In pairs the variant is timed by the case timer that all variants are
timed by, audits included, and the library by replays of graphs of as many calls as fill a sample. The order within a
pair is random, and a pair whose halves saw different clocks is no pair.
"""

from __future__ import annotations

import math
import random
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from evo.device import Array
from evo.device.clock_pairs import same_clock
from evo.device.gpu_case_timer import CaseTimer, OutputsDiverged
from evo.device.gpu_context import GpuContext
from evo.device.nvml import Reading
from evo.device.timing_types import (
    BLOCK_SAMPLES,
    BLOCK_US,
    SAMPLE_US,
    SINGLE_US,
    BenchOptions,
    BenchRequest,
    IdlePacing,
    LibraryCase,
    LibraryPairs,
    LibraryTimes,
    Side,
    StageTimer,
    settled,
    timing_of,
)
from evo.errors import Crashed, EvoError
from evo.spec.reference import load_module

TRIAL = BenchOptions(samples=8, warm_up_s=0.05)
_HOST_US = 200.0  # more than an eager call takes the host
_T = TypeVar("_T")
_COPIES = 3  # input sets that the captured calls rotate over, as for variants


def time_library(
    device: GpuContext, library: LibraryCase, options: BenchOptions, thorough: bool
) -> dict[str, LibraryTimes | str]:
    """Time each of reference.py's rivals(); the words of the error where one cannot run here.

    thorough: cold and eager times and the outputs too.
    """
    axes = library.axes

    def timed(torch: Any, call: Any, sets: list[dict[str, Any]]) -> LibraryTimes:
        if not thorough:
            return LibraryTimes(warm=timing_of(_samples(torch, call, sets, axes, options)))
        outputs = _outputs(torch, call(sets[0], axes))
        warm = timing_of(_samples(torch, call, sets, axes, options))
        return LibraryTimes(
            warm=warm,
            cold=timing_of(_cold(device, torch, call, sets, axes, options)),
            eager=timing_of(_eager(torch, call, sets, axes, options)),
            outputs=outputs,
        )

    return each_call(device, library, timed)


def each_call(
    device: GpuContext, library: LibraryCase, what: Callable[[Any, Any, list[dict[str, Any]]], _T]
) -> dict[str, _T | str]:
    """The result of `what(torch, call, input sets)` for each of reference.py's rivals(), or its error as text."""
    import torch

    module = load_module(Path(library.folder) / "reference.py")
    if not hasattr(module, "rivals"):
        return {}
    calls: dict[str, Callable[[dict[str, Any], dict[str, int]], object]] = module.rivals()
    index = int(device.name.which)
    torch.cuda.set_device(index)
    sets = [{name: _tensor(torch, array, index) for name, array in library.inputs.items()} for _ in range(_COPIES)]
    found: dict[str, _T | str] = {}
    for name, call in calls.items():
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                with torch.inference_mode():
                    found[name] = what(torch, call, sets)
            except Exception as error:  # noqa: BLE001 - a library that cannot run a case is a fact to report
                found[name] = _reason(error, [str(warning.message) for warning in said])
    return found


def _reason(error: Exception, said: list[str]) -> str:
    """The error in a line; torch gives the reasons of a refused backend as warnings before it."""
    words = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    because = [" ".join(text.split("(Triggered")[0].split())[:200] for text in said]
    return "; ".join([words, *dict.fromkeys(because)][:4])


def _outputs(torch: Any, result: object) -> tuple[Array, ...]:
    """What a call returned, on the host: a tensor, or several in the order of the task's outputs."""
    values = list(result.values()) if isinstance(result, dict) else result
    several = values if isinstance(values, list | tuple) else [values]
    tensors = [value for value in several if isinstance(value, torch.Tensor)]
    wide = [t.float() if t.is_floating_point() and t.element_size() < 4 else t for t in tensors]
    return tuple(np.asarray(t.cpu().numpy()) for t in wide)


def _cold(
    device: GpuContext, torch: Any, call: Any, sets: list[dict[str, Any]], axes: dict[str, int], options: BenchOptions
) -> list[float]:
    """Device time of eager calls, each after a read of twice the L2.

    The reads go on for as long as the host may need to launch the call, so that no gap of the host's is timed.
    """
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        waste = torch.zeros(2 * device.chip.l2_bytes // 4, dtype=torch.float32, device=f"cuda:{device.name.which}")
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        waste.sum()
        first.record()
        waste.sum()
        last.record()
        stream.synchronize()
        reads = max(1, math.ceil(_HOST_US / max(first.elapsed_time(last) * 1000, 1.0)))
        taken: list[float] = []
        for number in range(options.cold_samples):
            for _ in range(reads):
                waste.sum()
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            first.record()
            call(sets[number % len(sets)], axes)
            last.record()
            stream.synchronize()
            taken.append(first.elapsed_time(last) * 1000)
    return taken


def _eager(
    torch: Any, call: Any, sets: list[dict[str, Any]], axes: dict[str, int], options: BenchOptions
) -> list[float]:
    """Wall time of one call and its synchronisation, as a program without graphs sees it."""
    taken: list[float] = []
    limit = time.monotonic() + options.budget_s
    stream = torch.cuda.current_stream()
    for number in range(max(options.samples, 8)):
        stream.synchronize()
        start = time.perf_counter()
        call(sets[number % len(sets)], axes)
        stream.synchronize()
        taken.append((time.perf_counter() - start) * 1e6)
        if time.monotonic() > limit:
            break
    return taken


def _samples(
    torch: Any, call: Any, sets: list[dict[str, Any]], axes: dict[str, int], options: BenchOptions
) -> list[float]:
    graphs, per_graph, stream = captured(torch, call, sets, axes)
    return timing_samples(torch, graphs, per_graph, stream, options)


def captured(torch: Any, call: Any, sets: list[dict[str, Any]], axes: dict[str, int]) -> tuple[list[Any], int, Any]:
    """Graphs of a library call over the input sets, how many calls each holds, and the stream that they run on."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for tensors in sets:  # creates handles and workspaces, which a capture must not do
            call(tensors, axes)
        stream.synchronize()
    # Eager times of short calls are all host, so the number of calls per sample comes from a graph too.
    trial = _graph(torch, call, sets, axes, stream)
    each_us = max(min(timing_samples(torch, [trial], len(sets), stream, TRIAL)), 0.1)
    if each_us >= SINGLE_US:
        return [_graph(torch, call, [tensors], axes, stream) for tensors in sets], 1, stream
    count = math.ceil(SAMPLE_US / each_us / len(sets)) * len(sets)
    return [_graph(torch, call, [sets[i % len(sets)] for i in range(count)], axes, stream)], count, stream


def _graph(torch: Any, call: Any, sets: list[dict[str, Any]], axes: dict[str, int], stream: Any) -> Any:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for tensors in sets:
            call(tensors, axes)
    return graph


def replayed_block(torch: Any, graphs: list[Any], stream: Any, samples: int) -> list[float]:
    """Microseconds of each of `samples` replays after an untimed one; all queued before the host waits once."""
    with torch.cuda.stream(stream):
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(samples)]
        graphs[-1].replay()  # so that no sample waits for the host
        for number, (first, last) in enumerate(events):
            first.record()
            graphs[number % len(graphs)].replay()
            last.record()
        stream.synchronize()
    return [first.elapsed_time(last) * 1000 for first, last in events]


def timing_samples(torch: Any, graphs: list[Any], per_graph: int, stream: Any, options: BenchOptions) -> list[float]:
    """Microseconds of one call, from `options.samples` replays after warming up; at the pace of a champion's blocks."""
    pace = IdlePacing()

    def block() -> list[float]:
        return replayed_block(torch, graphs, stream, 8)

    taken: list[float] = []
    warm = time.monotonic() + options.warm_up_s
    limit = time.monotonic() + options.budget_s
    with torch.cuda.stream(stream):
        medians: list[float] = []
        while time.monotonic() < warm and not settled(medians):
            times = block()
            medians.append(float(np.median(times)))
            pace.worked(sum(times))
        while len(taken) < options.samples and (time.monotonic() < limit or not taken):
            times = block()
            taken += [us / per_graph for us in times]
            if pace.worked(sum(times)):
                block()  # to warm up again
    return taken


def _tensor(torch: Any, array: Any, index: int) -> Any:
    """The array on the GPU, bit for bit; NumPy has no bfloat16 or float8 that torch would take."""
    name = {"float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}.get(array.dtype.name, array.dtype.name)
    raw = torch.from_numpy(np.ascontiguousarray(array).view(np.uint8).copy()).to(f"cuda:{index}")
    return raw.view(getattr(torch, name)).reshape(array.shape)


def compare_with_library(
    device: GpuContext, request: BenchRequest, library: LibraryCase, pairs: int
) -> dict[str, LibraryPairs | str]:
    """Pairs of the request's one case with each of reference.py's rivals(), or why a call cannot run here.

    Raises what timing a variant raises if the variant itself fails.
    """
    timer = CaseTimer(device, request, 0, StageTimer())
    side = timer.sides[Side.CANDIDATE]
    own_failure: list[Exception] = []  # not to be taken for one of the library's

    def ours() -> list[float]:
        try:
            return timer.block(side)
        except (Crashed, EvoError) as error:
            own_failure.append(error)
            raise
        except OutputsDiverged as error:
            own_failure.append(Crashed(error.fault.message))
            raise

    def paired(torch: Any, call: Any, sets: list[dict[str, Any]]) -> LibraryPairs:
        graphs, per_graph, stream = captured(torch, call, sets, library.axes)
        samples = _block_samples(torch, graphs, stream)

        def theirs() -> list[float]:
            return [us / per_graph for us in replayed_block(torch, graphs, stream, samples)]

        return _interleaved(device, ours, theirs, pairs, request.options.warm_up_s, request.options.budget_s)

    found = each_call(device, library, paired)
    if own_failure:
        raise own_failure[0]
    return found


def _interleaved(
    device: GpuContext, ours: Any, theirs: Any, pairs: int, warm_up_s: float, budget_s: float
) -> LibraryPairs:
    order = random.Random(0)
    limit = time.monotonic() + budget_s
    end = time.monotonic() + warm_up_s
    while time.monotonic() < end:
        ours()
        theirs()
    ratios: list[float] = []
    taken: dict[str, list[float]] = {"ours": [], "theirs": []}
    dropped = 0
    for _ in range(2 * pairs):
        medians: dict[str, float] = {}
        readings: dict[str, Reading] = {}
        sides = [("ours", ours), ("theirs", theirs)]
        order.shuffle(sides)
        for label, block in sides:
            samples = block()
            taken[label] += samples
            medians[label] = float(np.median(samples))
            readings[label] = device.monitor.read()
        if same_clock(readings["ours"], readings["theirs"]):
            ratios.append(math.log(medians["ours"] / medians["theirs"]))
        else:
            dropped += 1
        if len(ratios) >= pairs or time.monotonic() > limit:
            break
    return LibraryPairs(
        ratios=tuple(ratios),
        variant_us=float(np.median(taken["ours"])),
        library_us=float(np.median(taken["theirs"])),
        dropped=dropped,
    )


def _block_samples(torch: Any, graphs: list[Any], stream: Any) -> int:
    """As many samples as fit the 20 ms that a block of a variant takes at most, three at least."""
    each_us = max(min(replayed_block(torch, graphs, stream, 3)), 1.0)
    return max(3, min(BLOCK_SAMPLES, int(BLOCK_US / each_us)))
