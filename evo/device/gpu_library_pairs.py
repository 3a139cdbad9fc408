"""A variant and the task's library calls in interleaved blocks of one process: which is faster here, in pairs.

The variant is timed by the case timer that all variants are timed by, audits included; the library by replays of graphs
of as many calls as fill a sample. The order within a pair is random, and a pair whose halves saw different clocks is no
pair.
"""

from __future__ import annotations

import math
import random
import time
from typing import Any

import numpy as np

from evo.device.clock_pairs import same_clock
from evo.device.gpu_case_timer import CaseTimer, OutputsDiverged
from evo.device.gpu_context import GpuContext
from evo.device.gpu_library import captured, each_call, replayed_block
from evo.device.nvml import Reading
from evo.device.timing_types import BLOCK_SAMPLES, BLOCK_US, BenchRequest, LibraryCase, LibraryPairs, Side, StageTimer
from evo.errors import Crashed, EvoError


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
