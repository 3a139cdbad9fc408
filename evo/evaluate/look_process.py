"""Looks before a keep in processes of their own, side by side, while this one times what they are of.

Each has a reference and simulators. A look is mostly Python between short calls of both: several in one process would
wait for one interpreter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from evo.cuda.compile.process_pool import shared_pool
from evo.device import DeviceName
from evo.device.remote_device import DeviceProcess, RemoteSimulator
from evo.evaluate import before_keep, gate
from evo.evaluate.before_keep import Look, SimulatedLooks
from evo.evaluate.code_ahead import CodeAhead
from evo.evaluate.counted_stage import silent
from evo.evaluate.looking_bench import LookingBench, LookSubject, inputs_hunted, sizes_hunted, unlike_hunted
from evo.evaluate.prepare import Prepared
from evo.results import Check
from evo.spec.chips import chip
from evo.spec.process_settings import collect_seldom, give_back_freed_arrays, take_short_turns
from evo.spec.reference import Reference, load_reference
from evo.spec.task import Task

_LIMIT_S = 1800.0  # what a look runs has limits of its own
_SIMULATORS = 2
_COMPILERS = 4
_PURSUERS = 4  # processes that pursue comparisons, once they are through with what only they look at

T = TypeVar("T")


class LooksHere(LookingBench):
    """In the process that looks: what looks at the variants of its tasks share. device: a simulator of the chip."""

    def __init__(self, device: DeviceName) -> None:
        self.chip, self.target, self.on_stage = chip(device.which), None, silent
        self.checkers = [RemoteSimulator(device) for _ in range(_SIMULATORS)]
        self.checker = self.checkers[0]
        self.checker.prepare_spare()
        self.code = CodeAhead(device, None, most=1)
        self._references: dict[str, Reference] = {}

    def reference(self, task: Task) -> Reference:
        """That it is sound has been checked where the run began."""
        if task.hash not in self._references:
            self._references[task.hash] = load_reference(task)
        return self._references[task.hash]

    def health(self) -> None:
        """Nothing to find out after a fault: its simulators check themselves."""

    def take(
        self, look: Look[T], task: Task, prepared: Prepared, seed: int, arch: str, known: gate.Looked | None = None
    ) -> tuple[T, gate.Looked]:
        """What it shows, and what it has looked at. known: of a look before it."""
        self.arch = arch
        looked = gate.Looked({case.name for case in task.check})
        if known is not None:
            looked.take_over(known)
        return look(LookSubject(self, task, prepared, seed, self.checkers, looked)), looked


def open_looks(device: DeviceName) -> LooksHere:
    """For a child process, which opens objects by the name of a device."""
    give_back_freed_arrays()
    take_short_turns()
    collect_seldom()
    shared_pool(_COMPILERS)
    return LooksHere(device)


class LookProcess(DeviceProcess):
    """A process that looks, one look at a time."""

    def __init__(self, device: DeviceName) -> None:
        super().__init__(device, opener="evo.evaluate.look_process:open_looks")

    def take(
        self, look: Look[T], task: Task, prepared: Prepared, seed: int, arch: str, known: gate.Looked | None = None
    ) -> tuple[T, gate.Looked]:
        """As `LooksHere.take`. Raises EvoError for the harness only."""
        found: tuple[T, gate.Looked] = self._ask(LooksHere.take, _LIMIT_S, look, task, prepared, seed, arch, known)
        return found


class LookProcesses:
    """A process for each kind of look; they start at once, up to the point at which they are asked."""

    def __init__(self, device: DeviceName) -> None:
        self.inputs, self.sizes, self.large, self.data = (LookProcess(device) for _ in range(4))
        self._all = (self.inputs, self.sizes, self.large, self.data)
        for each in self._all:
            each.prepare_spare()

    def close(self) -> None:
        for each in self._all:
            each.close()


@dataclass(slots=True)
class _Looking:
    """Looks at one variant under way, each in a thread that waits for a process."""

    bench: LookingBench
    task: Task
    prepared: Prepared
    seed: int
    threads: Executor
    looked: gate.Looked
    futures: list[Future[Any]] = field(default_factory=list)
    merging: threading.Lock = field(default_factory=threading.Lock)

    def begun(self, work: Callable[..., T], *arguments: Any) -> Callable[[], T]:
        """Waits for what the work returns."""
        future = self.threads.submit(work, *arguments)
        self.futures.append(future)
        return future.result

    def taken(self, process: LookProcess, look: Look[T], known: gate.Looked | None = None) -> T:
        found, seen = process.take(look, self.task, self.prepared, self.seed, self.bench.arch, known)
        with self.merging:
            self.looked.take_over(seen)
        return found

    def give_up(self) -> None:
        """Begin with none of the rest: what is under way ends by itself, and nobody asks for it."""
        for future in self.futures:
            future.cancel()


def looks_begun(
    bench: LookingBench,
    task: Task,
    prepared: Prepared,
    seed: int,
    processes: LookProcesses,
    checkers: tuple[RemoteSimulator, ...],
    threads: Executor,
) -> SimulatedLooks:
    """The looks begun at once and side by side; checkers: for the timed sizes, whose numbers the GPU has.

    What a look asks of the GPU waits for what is timed there, and comes between its stages at most.
    """
    looked = gate.Looked({case.name for case in task.check})
    subject = LookSubject(bench, task, prepared, seed, checkers, looked)
    looking = _Looking(bench, task, prepared, seed, threads, looked)
    begun, taken = looking.begun, looking.taken
    steering = begun(processes.large.take, before_keep.steered, task, prepared, seed, bench.arch)

    def steered(process: LookProcess, look: Look[T]) -> T:
        return taken(process, look, steering()[1])

    def half(process: LookProcess, number: int) -> Check | None:
        return steered(process, partial(sizes_hunted, part=(number, 2)))

    def pursued(process: LookProcess, number: int, before: Callable[[], Check | None]) -> Check | None:
        return before() or steered(process, partial(before_keep.pursued, part=(number, _PURSUERS)))

    inputs = begun(taken, processes.inputs, inputs_hunted)
    large = begun(steered, processes.large, before_keep.at_large)
    sizes = begun(lambda: taken(processes.sizes, unlike_hunted) or half(processes.sizes, 0))
    covered = begun(taken, processes.data, before_keep.covered)
    # What takes longest is shared with the processes that are through first.
    other_sizes = begun(lambda: (large(), half(processes.large, 1))[1])
    firsts: tuple[tuple[LookProcess, Callable[[], Check | None]], ...] = (
        (processes.data, lambda: (covered(), None)[1]),
        (processes.inputs, inputs),
        (processes.sizes, sizes),
        (processes.large, other_sizes),
    )

    def outcomes() -> tuple[gate.TimedSizes | None, int]:
        if (inputs() or sizes() or other_sizes() or large()[0]) is not None:  # nobody will ask
            return None, 0
        return before_keep.unverified(bench, task, prepared, seed, tuple(looked.cases))

    pursuits = [begun(pursued, process, number, before) for number, (process, before) in enumerate(firsts)]
    return SimulatedLooks(
        looked=looked,
        hunted=lambda: inputs() or sizes() or other_sizes(),
        at_large=large,
        covered=covered,
        distributed=begun(before_keep.distributed, subject),
        pursued=lambda: next((found for pursuit in pursuits if (found := pursuit()) is not None), None),
        at_timed=begun(partial(before_keep.at_timed, tell=silent), subject),
        outcomes=begun(outcomes),
        give_up=looking.give_up,
    )
