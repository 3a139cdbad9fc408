"""All attacks, several at a time: each lane has its own judges and workers; timing has exclusive use of the GPU.

A lane stays with a task as long as there are attacks on it, since references are computed once a lane. Where there are
several, each has a process: judging is mostly Python, and lanes in one process would wait for one interpreter.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from statistics import fmean
from threading import Thread

from evo.audit.redteam.attack import Attack
from evo.audit.redteam.naive_harness import NaiveHarness
from evo.audit.redteam.procedures import Procedure, run_procedure
from evo.audit.redteam.run_attack import Outcome, faulty, run_attack
from evo.device import DeviceName
from evo.device.remote_device import DeviceProcess
from evo.errors import EvoError
from evo.evaluate.pipeline import EvaluationSession

Judge = Callable[[Attack], Outcome]

_CORES_A_LANE = 4 / 3  # for it waits for the GPU, a compiler and a reference now and then
_BYTES_A_LANE = 3 << 30
_MOST_LANES = 12
_LIMIT_S = 3600.0  # for one attack; what judges it has limits of its own
_DEFECTS = (ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)


def default_lanes() -> int:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(_MOST_LANES, int((os.cpu_count() or 1) / _CORES_A_LANE), memory // _BYTES_A_LANE))


@contextmanager
def judges(
    device: DeviceName, tasks: Path, planted: Path, *, arch: str, seed: int, apart: bool | None = None
) -> Iterator[Judge]:
    """Both judges on workers of their own; `tasks` holds the task folders. Raises DeviceMissing.

    apart: in a process of their own (default: where there is more than one lane).
    """
    if default_lanes() > 1 if apart is None else apart:
        with _LaneProcess(device) as lane:
            lane.open(tasks, planted, arch, seed)  # raises before the first attack
            yield lambda attack: lane.judge(attack, tasks, planted, arch, seed)
        return
    with (
        EvaluationSession(device, arch=arch, jobs=1) as bench,  # lanes are side by side already
        NaiveHarness(device, chip=bench.chip, arch=bench.arch, planted=planted) as naive,
    ):
        yield lambda attack: run_attack(attack, tasks, bench, naive, seed=seed)


class LaneHere:
    """In a lane's process: both judges, opened once; a process that replaces it opens its own."""

    def __init__(self, device: DeviceName) -> None:
        self.device = device
        self._opened = ExitStack()  # ends with the process
        self._judge: Judge | None = None

    def open(self, tasks: Path, planted: Path, arch: str, seed: int) -> None:
        if self._judge is None:
            opened = judges(self.device, tasks, planted, arch=arch, seed=seed, apart=False)
            self._judge = self._opened.enter_context(opened)

    def judge(self, attack: Attack, tasks: Path, planted: Path, arch: str, seed: int) -> Outcome:
        self.open(tasks, planted, arch, seed)
        assert self._judge is not None
        return self._judge(attack)

    def health(self) -> None:
        """Nothing to find out after a fault: its devices check themselves."""


class _LaneProcess(DeviceProcess):
    def __init__(self, device: DeviceName) -> None:
        super().__init__(device, opener=f"{__name__}:LaneHere")

    def open(self, tasks: Path, planted: Path, arch: str, seed: int) -> None:
        self._ask(LaneHere.open, _LIMIT_S, tasks, planted, arch, seed)

    def judge(self, attack: Attack, tasks: Path, planted: Path, arch: str, seed: int) -> Outcome:
        outcome: Outcome = self._ask(LaneHere.judge, _LIMIT_S, attack, tasks, planted, arch, seed)
        return outcome


def run_all(
    attacks: Sequence[Attack], opened: Callable[[], AbstractContextManager[Judge]], lanes: int
) -> Iterator[Outcome]:
    """The outcomes in order of completion. A harness failure is the outcome of its attack; the others continue.

    Raises EvoError at the end if judges could not be opened. Who stops early does not wait for attacks under way: their
    threads end with the process, and the processes that they use as well.
    """
    waiting = _Waiting(attacks)
    done: SimpleQueue[Outcome | _Ended] = SimpleQueue()

    def lane() -> None:
        ended = _Ended()
        try:
            with opened() as judge:
                task = ""
                while (attack := waiting.take(task)) is not None:
                    outcome = _tried(attack, judge)
                    waiting.took(attack.task, outcome.elapsed_s)
                    done.put(outcome)
                    task = attack.task
        except (EvoError, *_DEFECTS) as error:
            ended = _Ended(error)
        finally:
            done.put(ended)

    count = min(lanes, len(attacks))
    running = [Thread(target=lane, name=f"evo-lane_{number}", daemon=True) for number in range(count)]
    for thread in running:
        thread.start()
    errors: list[Exception] = []
    left = count
    try:
        while left:
            outcome = done.get()
            if isinstance(outcome, Outcome):
                yield outcome
                continue
            left -= 1
            errors += [outcome.error] if outcome.error is not None else []
    finally:
        waiting.clear()
    for thread in running:
        thread.join()
    if errors:
        raise errors[0]


@dataclass(frozen=True, slots=True)
class _Ended:
    """A lane is through. error: why, if its judges could not be opened or closed."""

    error: Exception | None = None


def run_procedures(procedures: Sequence[Procedure], tasks: Path) -> Iterator[Outcome]:
    """The failure modes without a kernel, one after the other."""
    for procedure in procedures:
        started = time.monotonic()
        try:
            yield run_procedure(procedure, tasks)
        except EvoError as error:
            yield faulty(procedure.name, (procedure.row,), procedure.task, procedure.idea, error, started)


def _tried(attack: Attack, judge: Judge) -> Outcome:
    started = time.monotonic()
    try:
        return judge(attack)
    except (EvoError, *_DEFECTS) as error:
        return faulty(attack.name, attack.rows, attack.task, attack.idea, error, started)


class _Waiting:
    """Attacks by task, the latest first: most of them take long, and the last of a run should not. Thread-safe."""

    def __init__(self, attacks: Sequence[Attack]) -> None:
        self._lock = threading.Lock()
        self._by_task: dict[str, list[Attack]] = {}
        for attack in attacks:
            self._by_task.setdefault(attack.task, []).append(attack)
        self._begun: dict[str, int] = dict.fromkeys(self._by_task, 0)  # lanes at work on a task
        self._seconds: dict[str, list[float]] = {name: [] for name in self._by_task}

    def take(self, task: str) -> Attack | None:
        """The next attack on this task, else on one that nobody has begun, else on that which will take longest."""
        with self._lock:
            left = {name: attacks for name, attacks in self._by_task.items() if attacks}
            if not left:
                return None
            if task not in left:
                if task:
                    self._begun[task] -= 1
                task = max(left, key=self._seconds_left)
                self._begun[task] += 1
            return left[task].pop()

    def took(self, task: str, seconds: float) -> None:
        with self._lock:
            self._seconds[task].append(seconds)

    def _seconds_left(self, name: str) -> tuple[bool, float]:
        """First what no lane has begun; then as long for each as those before, or as those of the slowest task."""
        count, lanes = len(self._by_task[name]), self._begun[name]
        means = {task: fmean(seconds) for task, seconds in self._seconds.items() if seconds}
        each = means.get(name, max(means.values(), default=1.0))
        return not lanes and name not in means, each * count / (1 + lanes)

    def clear(self) -> None:
        with self._lock:
            self._by_task.clear()
