"""Blocks of one launch in several threads, with the results, faults and counters of one thread to the last bit.

The threads draw blocks from one list, so that none waits while another has several left. Which thread ran a block
cannot show: counters add up, and the rest is reset for every block.

Only kernels whose outcome cannot depend on the order of blocks are split (traits.blocks_can_part). Every part has its
own counters, shared memory and shadows; they are added up afterwards. If a part meets a fault, or two parts touched the
same bytes and one of them wrote, all is undone and the launch starts again in one thread, which reports it in order.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from evo.sim import page_pool
from evo.sim.jit import CompiledKernel
from evo.sim.launch_context import LaunchContext
from evo.sim.memory import SimBuffer

_STOP = -(1 << 62)
_PART_S = 2e-3  # processor time of blocks that is worth a part of its own: to make one and to add it up takes a third
MOST = 64  # threads


def worth(threads: int, blocks: int, seconds: float | None) -> int:
    """Parts that a launch is worth, from the processor time that a block of its kernel took; None if not known yet."""
    worthy = threads if seconds is None else int(blocks * seconds / _PART_S)
    return max(1, min(threads, blocks, worthy))


def run_parts(
    compiled: CompiledKernel,
    make: Callable[[NDArray[np.uint8]], LaunchContext],
    threads: int,
    buffers: Sequence[SimBuffer],
) -> LaunchContext | None:
    """The joined context of all parts; None, with memory as it was, if the launch must run in one thread."""
    before = [(buffer, _copy(buffer.bytes)) for buffer in buffers if buffer.writable]
    ticket = page_pool.take(128)  # a cache line of its own, and the one that is fetched along with it
    crew = _Crew(compiled, functools.partial(make, ticket))
    budget, parts = crew.run(min(threads, MOST))
    used = sum(budget - part.field("budget") for part in parts)
    together = used <= budget and not any(part.field("fault_count") for part in parts) and not _meet(parts)
    first, *others = parts
    for part in others:
        if together:
            first.absorb(part)
        part.release()
    for buffer, contents in before:
        if not together:
            buffer.bytes[:] = contents
        page_pool.give_back(contents)
    page_pool.give_back(ticket)
    if not together:
        first.release()
        return None
    first.publish_states()
    first.cpu_s = tuple(seconds for part in parts for seconds in part.cpu_s)
    return first


def _copy(contents: NDArray[np.uint8]) -> NDArray[np.uint8]:
    kept = page_pool.take(contents.size, clear=False)
    kept[:] = contents
    return kept


def run_alone(compiled: CompiledKernel, context: LaunchContext) -> None:
    """Run what is left of a context's blocks in this thread, and note the processor time that it takes."""
    before = time.thread_time()
    compiled.launch(context.address)
    context.cpu_s = (time.thread_time() - before,)


@functools.cache
def _threads(process: int) -> ThreadPoolExecutor:  # noqa: ARG001 - a fork has none of them
    """Threads for all launches of this process: to start one takes as long as a small launch. No part waits for one."""
    return ThreadPoolExecutor(max_workers=MOST, thread_name_prefix="evo-sim")


class _Crew:
    """The parts of one launch, each made and run by a thread of its own: making one takes as long as a small launch."""

    def __init__(self, compiled: CompiledKernel, make: Callable[[], LaunchContext]) -> None:
        self._compiled, self._make = compiled, make
        self._lock = threading.Lock()
        self._parts: dict[int, LaunchContext] = {}
        self._budget = 0
        self._is_over = False

    def run(self, count: int) -> tuple[int, list[LaunchContext]]:
        """The budget that each part began with, and the parts, the one of this thread first."""
        threads = _threads(os.getpid())
        others = [threads.submit(self._run, place) for place in range(1, count)]
        self._run(0)
        for other in others:
            other.result()
        return self._budget, [self._parts[place] for place in range(count)]

    def _run(self, place: int) -> None:
        part = self._make()
        with self._lock:
            self._parts[place] = part
            self._budget = part.field("budget")
            if self._is_over:
                part.set_field("budget", _STOP)
        run_alone(self._compiled, part)
        if part.field("fault_count"):
            with self._lock:  # what the others do will be undone: let them end soon
                self._is_over = True
                for other in self._parts.values():
                    if other is not part:
                        other.set_field("budget", _STOP)


def _meet(parts: Sequence[LaunchContext]) -> bool:
    """Did one part write bytes that another touched?"""
    for index, one in enumerate(parts):
        for other in parts[index + 1 :]:
            if any(_conflict(one, other, number) for number in one.shadows):
                return True
    return False


def _conflict(one: LaunchContext, other: LaunchContext, number: int) -> bool:
    """Sectors that both touched are few; within them, granules decide."""
    mine, theirs = one.touched[number], other.touched[number]
    sectors = np.flatnonzero((mine & 2) * theirs | mine * (theirs & 2))
    if not sectors.size:
        return False
    low, size = one.buffers[number].address, one.between
    first = ((low >> 5) + sectors) * (32 // size) - low // size
    granules = (first[:, None] + np.arange(32 // size)).reshape(-1)
    (written, read), (also_written, also_read) = one.shadows[number], other.shadows[number]
    granules = granules[(granules >= 0) & (granules < written.size)]
    a, b = written[granules] != 0, also_written[granules] != 0
    return bool((a & (b | (also_read[granules] != 0)) | (read[granules] != 0) & b).any())
