"""All attacks, several at a time: each lane has its own judges and workers; timing has exclusive use of the GPU.

A lane stays with a task as long as there are attacks on it, since references are computed once a lane.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from evo.audit.redteam.attack import Attack
from evo.audit.redteam.judges import Judge, judges, tried
from evo.audit.redteam.lane_process import lane_process
from evo.audit.redteam.procedures import Procedure, run_procedure
from evo.audit.redteam.run_attack import Outcome, faulty
from evo.device import DeviceName
from evo.errors import EvoError

_CORES_A_LANE = 2  # cores that the simulator's threads, a compiler and the comparison use
_MOST_LANES = 8


def default_lanes() -> int:
    return max(1, min(_MOST_LANES, (os.cpu_count() or 1) // _CORES_A_LANE))


def opened_judges(
    lanes: int, device: DeviceName, tasks: Path, planted: Path, *, arch: str, seed: int
) -> Callable[[], AbstractContextManager[Judge]]:
    """What opens the judges of a lane: here, or in a process of their own if there are several lanes."""
    return partial(judges if lanes == 1 else lane_process, device, tasks, planted, arch=arch, seed=seed)


def run_all(
    attacks: Sequence[Attack], opened: Callable[[], AbstractContextManager[Judge]], lanes: int
) -> Iterator[Outcome]:
    """The outcomes in order of completion. A harness failure is the outcome of its attack; the others continue.

    Raises EvoError at the end if judges could not be opened.
    """
    waiting = _Waiting(attacks)
    done: SimpleQueue[Outcome | None] = SimpleQueue()

    def lane() -> None:
        try:
            with opened() as judge:
                attack = waiting.take("")
                while attack is not None:
                    done.put(tried(attack, judge))
                    attack = waiting.take(attack.task)
        finally:
            done.put(None)

    with ThreadPoolExecutor(max_workers=lanes, thread_name_prefix="evo-lane") as pool:
        running = [pool.submit(lane) for _ in range(min(lanes, len(attacks)))]
        try:
            ended = 0
            while ended < len(running):
                outcome = done.get()
                if outcome is None:
                    ended += 1
                else:
                    yield outcome
        finally:
            waiting.clear()
        for future in running:
            future.result()


def run_procedures(procedures: Sequence[Procedure], tasks: Path) -> Iterator[Outcome]:
    """The failure modes without a kernel, one after the other."""
    for procedure in procedures:
        started = time.monotonic()
        try:
            yield run_procedure(procedure, tasks)
        except EvoError as error:
            yield faulty(procedure.name, (procedure.row,), procedure.task, procedure.idea, error, started)


class _Waiting:
    """Attacks by task. Thread-safe."""

    def __init__(self, attacks: Sequence[Attack]) -> None:
        self._lock = threading.Lock()
        self._by_task: dict[str, list[Attack]] = {}
        for attack in reversed(attacks):
            self._by_task.setdefault(attack.task, []).append(attack)
        self._begun: dict[str, int] = dict.fromkeys(self._by_task, 0)  # lanes at work on a task

    def take(self, task: str) -> Attack | None:
        """The next attack on this task, else on the task with the most attacks left per lane."""
        with self._lock:
            left = {name: attacks for name, attacks in self._by_task.items() if attacks}
            if not left:
                return None
            if task not in left:
                task = max(left, key=lambda name: len(left[name]) / (1 + self._begun[name]))
                self._begun[task] += 1
            return left[task].pop()

    def clear(self) -> None:
        with self._lock:
            self._by_task.clear()
