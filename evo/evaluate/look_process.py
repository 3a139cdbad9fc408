"""Looks before a keep in processes of their own, side by side, while this one times what they are of.

Each has a reference and simulators. A look is mostly Python between short calls of both: several in one process would
wait for one interpreter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from evo.cuda.compile.process_pool import shared_pool
from evo.device import DeviceName
from evo.device.remote_device import DeviceProcess, RemoteSimulator
from evo.evaluate import before_keep, gate
from evo.evaluate.before_keep import Look, SimulatedLooks
from evo.evaluate.code_ahead import CodeAhead
from evo.evaluate.counted_stage import silent
from evo.evaluate.gate.looked import SteeredCases
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
_SIZES, _PURSUED = 2, 4  # parts of what takes longest, for the processes that are through first with their own look

T = TypeVar("T")
Hunt = Look[Check | None]
Steering = Future[tuple[SteeredCases, gate.Looked]]


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
    is_given_up: bool = False
    free: SimpleQueue[LookProcess] = field(default_factory=SimpleQueue)

    def begun(self, work: Callable[..., T], *arguments: Any) -> Future[T]:
        future = self.threads.submit(work, *arguments)
        self.futures.append(future)
        return future

    def taken(self, process: LookProcess, look: Look[T], known: gate.Looked | None = None) -> T:
        found, seen = process.take(look, self.task, self.prepared, self.seed, self.bench.arch, known)
        with self.merging:
            self.looked.take_over(seen)
        return found

    def first(self, process: LookProcess, look: Look[T], steering: Steering | None = None) -> T:
        """Taken by this process, which is free for any other look afterwards."""
        try:
            return self.taken(process, look, None if steering is None else steering.result()[1])
        finally:
            self.free.put(process)

    def then(
        self, look: Look[Check | None], steering: Steering, before: Sequence[Future[Check | None]]
    ) -> Check | None:
        """Taken by the process that is free first, unless one of those that are asked for before it found something."""
        process = self.free.get()
        try:
            is_wanted = not self.is_given_up and not any(map(_has_found, before))
            return self.taken(process, look, steering.result()[1]) if is_wanted else None
        finally:
            self.free.put(process)

    def give_up(self) -> None:
        """Begin with none of the rest: what is under way ends by itself, and nobody asks for it."""
        self.is_given_up = True
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
    begun, first, then = looking.begun, looking.first, looking.then
    steering = begun(processes.large.take, before_keep.steered, task, prepared, seed, bench.arch)
    inputs = begun(first, processes.inputs, inputs_hunted)
    unlike = begun(first, processes.sizes, unlike_hunted)
    covered = begun(first, processes.data, before_keep.covered)
    large = begun(first, processes.large, before_keep.at_large, steering)
    hunted = [inputs, unlike]
    hunted += [begun(then, part, steering, [inputs, unlike]) for part in _parts(sizes_hunted, _SIZES)]
    pursued = [begun(then, part, steering, tuple(hunted)) for part in _parts(before_keep.pursued, _PURSUED)]

    def outcomes() -> tuple[gate.TimedSizes | None, int]:
        if (_first_found(hunted) or large.result()[0]) is not None:  # nobody will ask
            return None, 0
        return before_keep.unverified(bench, task, prepared, seed, tuple(looked.cases))

    return SimulatedLooks(
        looked=looked,
        hunted=partial(_first_found, hunted),
        at_large=large.result,
        covered=covered.result,
        distributed=begun(before_keep.distributed, subject).result,
        pursued=partial(_first_found, pursued),
        at_timed=begun(partial(before_keep.at_timed, tell=silent), subject).result,
        outcomes=begun(outcomes).result,
        give_up=looking.give_up,
    )


def _parts(look: Callable[..., Check | None], count: int) -> list[Hunt]:
    return [partial(look, part=(number, count)) for number in range(count)]


def _first_found(looks: Sequence[Future[Check | None]]) -> Check | None:
    return next((found for look in looks if (found := look.result()) is not None), None)


def _has_found(look: Future[Check | None]) -> bool:
    return look.done() and not look.cancelled() and look.exception() is None and look.result() is not None
