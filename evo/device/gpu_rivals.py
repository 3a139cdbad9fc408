"""Library baselines of a case, under the same protocol as variants: graph replay, same sample sizes, one GPU lock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evo.device import Arrays
from evo.device.samples import SAMPLE_US, SINGLE_US, BenchOptions, timing_of
from evo.reference import load_module
from evo.result import Timing

if TYPE_CHECKING:
    from evo.device.gpu import GpuDevice

TRIAL = BenchOptions(samples=8, warm_up_s=0.05)
_COPIES = 3  # input sets that the captured calls rotate over, as for variants


def time_rivals(
    device: GpuDevice, folder: Path, axes: dict[str, int], inputs: Arrays, options: BenchOptions
) -> dict[str, Timing | str]:
    """Time each of reference.py's rivals(); the words of the error where one cannot run here."""
    import torch

    module = load_module(folder / "reference.py")
    if not hasattr(module, "rivals"):
        return {}
    calls: dict[str, Callable[[dict[str, Any], dict[str, int]], object]] = module.rivals()
    index = int(device.name.which)
    torch.cuda.set_device(index)
    sets = [{name: _tensor(torch, array, index) for name, array in inputs.items()} for _ in range(_COPIES)]
    found: dict[str, Timing | str] = {}
    for name, call in calls.items():
        try:
            with torch.inference_mode():
                found[name] = timing_of(_samples(torch, call, sets, axes, options))
        except Exception as error:  # noqa: BLE001 - a library that cannot run a case is a fact to report
            found[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return found


def _samples(
    torch: Any, call: Any, sets: list[dict[str, Any]], axes: dict[str, int], options: BenchOptions
) -> list[float]:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for tensors in sets:  # creates handles and workspaces, which a capture must not do
            call(tensors, axes)
        stream.synchronize()
    # Eager times of short calls are all host, so the number of calls per sample comes from a graph too.
    trial = _graph(torch, call, sets, axes, stream)
    each_us = max(min(_replays(torch, [trial], len(sets), stream, TRIAL)), 0.1)
    if each_us >= SINGLE_US:
        graphs, per_graph = [_graph(torch, call, [tensors], axes, stream) for tensors in sets], 1
    else:
        count = math.ceil(SAMPLE_US / each_us / len(sets)) * len(sets)
        graphs, per_graph = [_graph(torch, call, [sets[i % len(sets)] for i in range(count)], axes, stream)], count
    return _replays(torch, graphs, per_graph, stream, options)


def _graph(torch: Any, call: Any, sets: list[dict[str, Any]], axes: dict[str, int], stream: Any) -> Any:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for tensors in sets:
            call(tensors, axes)
    return graph


def _replays(torch: Any, graphs: list[Any], per_graph: int, stream: Any, options: BenchOptions) -> list[float]:
    taken: list[float] = []
    end = time.monotonic() + options.warm_up_s
    limit = time.monotonic() + options.budget_s
    with torch.cuda.stream(stream):
        while time.monotonic() < end:
            for graph in graphs:
                graph.replay()
            stream.synchronize()
        while len(taken) < options.samples and (time.monotonic() < limit or not taken):
            events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(8)]
            for number, (first, last) in enumerate(events):
                first.record()
                graphs[number % len(graphs)].replay()
                last.record()
            stream.synchronize()
            taken += [first.elapsed_time(last) * 1000 / per_graph for first, last in events]
    return taken


def _tensor(torch: Any, array: Any, index: int) -> Any:
    """The array on the GPU, bit for bit; NumPy has no bfloat16 or float8 that torch would take."""
    name = {"float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}.get(array.dtype.name, array.dtype.name)
    raw = torch.from_numpy(np.ascontiguousarray(array).view(np.uint8).copy()).to(f"cuda:{index}")
    return raw.view(getattr(torch, name)).reshape(array.shape)
