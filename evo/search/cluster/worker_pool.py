"""The driver's end: hands jobs to workers. If a worker is lost, slow or broken, another one gets its job.

One thread per worker (a slot) opens it, teaches it the run's tasks, and feeds it. A job is compiled by one worker and
measured, parent and candidate together, by one other. Which worker does what leaves no trace in the order of results:
that is the caller's.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import cast

from evo.errors import DeviceMissing, EvoError, HarnessFault, WorkerLost, WorkerUnreachable
from evo.evaluate.harness import harness_version
from evo.evaluate.pipeline import Job
from evo.results import Control, Evaluation
from evo.search.cluster.protocol import Role, Site, WorkerDescription
from evo.search.cluster.slots import (
    AnyOrder,
    JobItem,
    KnownCode,
    LearnTask,
    Lesson,
    Limits,
    RunControl,
    ScreenItem,
    Slot,
)
from evo.search.cluster.task_archive import pack
from evo.spec.look_ahead import look_ahead
from evo.spec.task import Task

ROLES: tuple[Role, ...] = ("measure", "compile")


class WorkerPool:
    """Workers of one device's kind, all with one chip. Close it, or use it as a context manager.

    note hears one line for each thing that happens to a worker; it may be called from any thread.
    """

    def __init__(
        self, site: Site, *, arch: str = "sm_89", note: Callable[[str], object] = str, limits: Limits | None = None
    ) -> None:
        self._site, self._arch, self._note, self._limits = site, arch, note, limits or Limits()
        self._ready = threading.Condition()
        self._waiting: dict[Role, list[AnyOrder]] = {role: [] for role in ROLES}
        self._under_way: list[AnyOrder] = []
        self._unadmitted: deque[JobItem] = deque()  # those that are held to be new, in the order in which they came
        self._lessons: list[Lesson] = []
        self._known: set[str] = set()  # tasks by hash
        self._numbers = itertools.count()
        self._longest_s: dict[Role, float] = dict.fromkeys(ROLES, 0.0)
        self._alone_since: dict[Role, float | None] = dict.fromkeys(ROLES)
        self._over: EvoError | None = None  # why nothing can be evaluated any more
        self._closed = False
        self.about: dict[str, str] | None = None  # the first device's description
        self.chip = ""
        self.width = site.measuring
        self.overtakes = False  # who holds a candidate against a rival does not know what others have kept
        self._slots = [Slot("measure", index) for index in range(site.measuring)]
        self._slots += [Slot("compile", index) for index in range(site.compiling)]
        self._threads = [
            threading.Thread(target=self._serve, args=(slot,), daemon=True, name=f"evo-{slot.role}-{slot.index}")
            for slot in self._slots
        ]
        for thread in self._threads:
            thread.start()
        try:
            self._wait_for_the_first()
        except (EvoError, KeyboardInterrupt):
            self.close()
            raise

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all workers; jobs in flight end without a result."""
        with self._ready:
            self._closed = True
            workers = [worker for slot in self._slots for worker in (slot.worker, slot.opening) if worker is not None]
            for order in [*itertools.chain(*self._waiting.values()), *self._under_way]:
                order.future.cancel()
            self._ready.notify_all()
        for worker in workers:
            worker.close()
        for thread in self._threads:
            thread.join(timeout=5.0)
        self._site.close()

    def slots(self) -> tuple[Slot, ...]:
        """The workers' places as they are now; to look at only."""
        with self._ready:
            return tuple(replace(slot, worker=None, opening=None) for slot in self._slots)

    def learn(self, task: Task) -> None:
        """Let every worker have a task before its next job."""
        with self._ready:
            if task.hash not in self._known:
                self._known.add(task.hash)
                self._lessons.append(LearnTask(pack(task)))
                self._ready.notify_all()

    def control(self, task: Task, text: str, seed: int, *, margin: float | None = None) -> dict[str, Control]:
        """The A/A control by every worker that measures, now and whenever one is opened anew; figures by worker.

        A worker that fails it is left out. Raises what the last one failed with if none is left.
        """
        self.learn(task)
        with self._ready:
            self._lessons.append(RunControl(task.hash, text, seed, margin))
            wanted = len(self._lessons)
            self._ready.notify_all()
            while True:
                slots = [slot for slot in self._slots if slot.role == "measure"]
                fit = [slot for slot in slots if slot.worker is not None and slot.taught >= wanted]
                # One that was lost once comes back when it can, and is then taught before it measures.
                if fit and all(slot in fit or slot.retired or slot.failures for slot in slots):
                    return {slot.words: slot.told for slot in fit if slot.told is not None}
                self._check_alive()
                self._ready.wait(timeout=0.5)

    def submit(self, job: Job, *, urgent: bool = False) -> Future[Evaluation]:
        """Have a job evaluated; earlier ones come first, and urgent ones before all."""
        order = JobItem(rank=(0 if urgent else 1, next(self._numbers)), job=job)
        self._submit(order)
        return cast("Future[Evaluation]", order.future)  # only submit_new's jobs end in a KnownCode

    def submit_new(self, job: Job, known: set[str]) -> Future[Evaluation | KnownCode]:
        """Have a job evaluated, unless its machine code is known.

        known: hashes of machine code. A job that compiles to one of them ends with KnownCode; others add theirs, in the
        order in which they were submitted.
        """
        order = JobItem(rank=(1, next(self._numbers)), job=job, known=known)
        self._submit(order)
        return order.future

    def _submit(self, order: JobItem) -> None:
        self.learn(order.job.task)
        with self._ready:
            if order.known is not None:
                self._unadmitted.append(order)
            self._put(order)

    def evaluate(self, job: Job) -> Evaluation:
        """One job, before all others. Raises EvoError for harness failures only."""
        return self.submit(job, urgent=True).result()

    def gains(self, task: Task, parent: str, texts: Sequence[str], seed: int) -> list[float | None]:
        """A first look: quick gains over the parent, which each device takes beside its share of the texts."""
        self.learn(task)
        size = -(-len(texts) // self.width) or 1
        orders = []
        with self._ready:
            for part in (list(texts[at : at + size]) for at in range(0, len(texts), size)):
                rank = (0, next(self._numbers))
                orders.append(ScreenItem(rank=rank, task=task.hash, parent=parent, texts=part, seed=seed))
                self._put(orders[-1])
        return [gain for order in orders for gain in order.future.result()]

    def evaluate_all(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Evaluation]]:
        """Evaluate a sequence of variants; results come in the order of the jobs."""
        return look_ahead(self.submit, jobs, 2 * self.width + self._site.compiling)

    # --- one thread per slot

    def _serve(self, slot: Slot) -> None:
        while (order := self._next(slot)) is not None:
            started_s = time.monotonic()
            try:
                assert slot.worker is not None
                order.perform(slot.worker, self._limit_s(order))
            except WorkerUnreachable as lost:
                self._lose(slot, lost.message, order)
            except (HarnessFault, DeviceMissing) as fault:
                self._lose(slot, fault.message, order, fault)
            except EvoError as error:  # the job itself is invalid
                self._end(order, error)
            else:
                self._done(slot, order, time.monotonic() - started_s)

    def _next(self, slot: Slot) -> AnyOrder | None:
        """Keep the slot filled and taught until there is an order for it; None when it is to leave."""
        while True:
            with self._ready:
                if self._closed or slot.retired is not None:
                    return None
                slot.busy = False
                is_fit = slot.worker is not None and slot.taught >= len(self._lessons)
                queue = self._waiting[slot.role]
                if is_fit and queue:
                    order = heapq.heappop(queue)
                    self._under_way.append(order)
                    slot.busy = True
                    return order
                if is_fit:
                    self._ready.wait()
                    continue
                if slot.role == "compile" and self.about is None:
                    self._ready.wait()
                    continue
            self._prepare(slot)

    def _prepare(self, slot: Slot) -> None:
        """Open the slot's worker, or teach it its next lesson."""
        try:
            if slot.worker is None:
                self._open(slot)
            else:
                self._teach(slot)
        except WorkerUnreachable as lost:
            self._lose(slot, lost.message)
        except (HarnessFault, DeviceMissing) as fault:
            self._lose(slot, fault.message, fault=fault)
        except EvoError as error:
            self._retire(slot, error)

    def _open(self, slot: Slot) -> None:
        worker = self._site.open(slot.role, slot.index)
        about = self.about if slot.role == "compile" else None
        with self._ready:
            slot.opening = worker  # closing ends it too
        try:
            if self._closed:
                raise WorkerUnreachable("closed")
            found = worker.join(self._arch, about, time_limit_s=self._limits.open_s)
        except EvoError:
            worker.close()
            raise
        with self._ready:
            if self._closed:
                worker.close()
                return
            slot.name = f"{slot.role} {slot.index + 1} ({found.host}, pid {found.pid})"
            unfit = self._unfit(found)
            if unfit is None:
                if self.about is None:
                    self.about, self.chip = found.about, found.chip
                slot.worker, slot.taught, slot.told = worker, 0, None
                self._alone_since[slot.role] = None
                self._ready.notify_all()
        if unfit is not None:
            worker.close()
            self._retire(slot, unfit)

    def _unfit(self, found: WorkerDescription) -> EvoError | None:
        if found.harness != harness_version():
            problem = f"{found.host} has evo {found.harness}, this is {harness_version()}"
            return HarnessFault(problem, hint="install the same evo on every node")
        if self.about is not None and found.chip != self.chip:
            problem = f"{found.host} has the chip {found.chip}, this run is of {self.chip}"
            return DeviceMissing(problem, hint="one run is of one chip: give each chip a run of its own")
        return None

    def _teach(self, slot: Slot) -> None:
        lesson, limit_s = self._lessons[slot.taught], self._limits.lesson_s
        told: Control | None = None
        assert slot.worker is not None
        match lesson:
            case LearnTask(archive):
                slot.worker.learn(archive, time_limit_s=limit_s)
            case RunControl(task, text, seed, margin) if slot.role == "measure":
                told = slot.worker.control(task, text, seed, margin, time_limit_s=limit_s)
        with self._ready:
            slot.taught += 1
            slot.told = told or slot.told
            if slot.taught == len(self._lessons):
                slot.failures = 0
            self._ready.notify_all()

    def _limit_s(self, order: AnyOrder) -> float:
        """How long this step may take: a job that was slow elsewhere gets longer, since it may be slow by itself."""
        limits, longest = self._limits, self._longest_s[order.role]
        limit = max(limits.patient_s, limits.slow_factor * longest) if longest else limits.slow_s
        return min(limits.slow_s, limit * float(4**order.lost))

    # --- the ends of orders and slots

    def _put(self, order: AnyOrder) -> None:
        if self._closed:
            order.future.cancel()
            return
        if self._over is not None:
            order.fail(self._over)
            return
        heapq.heappush(self._waiting[order.role], order)
        self._ready.notify_all()

    def _done(self, slot: Slot, order: AnyOrder, seconds: float) -> None:
        with self._ready:
            self._under_way.remove(order)
            self._longest_s[order.role] = max(self._longest_s[order.role], seconds)
            slot.failures = 0
            # Also a job that has ended is finished by a worker that measures: the result names its environment.
            if isinstance(order, JobItem) and order.started is None:
                order.started, order.lost = order.compiled, 0
                if order.known is None:
                    self._put(order)
                self._admit()
                return
        order.settle()

    def _end(self, order: AnyOrder, error: EvoError) -> None:
        with self._ready:
            if order in self._under_way:
                self._under_way.remove(order)
        order.fail(error)
        with self._ready:
            self._admit()

    def _admit(self) -> None:
        """Let compiled jobs on to a device in their order, but for those whose machine code is known by then."""
        while self._unadmitted and (self._unadmitted[0].started is not None or self._unadmitted[0].future.done()):
            order = self._unadmitted.popleft()
            prepared = order.started.prepared if order.started is not None else None
            if order.future.done():
                continue
            assert order.known is not None
            if prepared is not None and prepared.code_hash in order.known:
                order.answer(KnownCode(prepared.code_hash))
                continue
            if prepared is not None:
                order.known.add(prepared.code_hash)
            self._put(order)

    def _lose(self, slot: Slot, how: str, order: AnyOrder | None = None, fault: EvoError | None = None) -> None:
        """A worker is gone or broken: tell it, put its order back in line, and fill the slot again after a while."""
        name = slot.words
        if slot.worker is not None:
            slot.worker.close()
        with self._ready:
            slot.worker, slot.name, slot.taught = None, "", 0
            slot.failures += 1
            if self._closed:
                return
            if order is not None:
                self._under_way.remove(order)
                order.lost += 1
        if order is not None and order.lost >= self._limits.losses:
            hint = "nothing was counted against the variant; run `evo doctor` on the nodes"
            problem = f"{order.lost} workers in a row were lost over one job, {name} at last: {how}"
            self._end(order, fault or WorkerLost(problem, hint=hint, problem="lost-again"))
        elif order is not None:
            self._note(f"{name} is lost ({how}); its candidate is evaluated again elsewhere")
            with self._ready:
                self._put(order)
        else:
            self._note(f"{name}: {how}")
        self._rest(slot, fault or WorkerUnreachable(f"{name}: {how}"))

    def _rest(self, slot: Slot, why: EvoError) -> None:
        """Wait before the slot is filled again; give it up if it is broken, or alone for long."""
        pauses, limits = self._limits.again_s, self._limits
        until = time.monotonic() + pauses[min(slot.failures, len(pauses)) - 1]
        is_broken = isinstance(why, DeviceMissing)
        with self._ready:
            while not is_broken and not self._closed and (left := until - time.monotonic()) > 0:
                self._ready.wait(timeout=left)
            if any(other.worker is not None for other in self._slots if other.role == slot.role):
                self._alone_since[slot.role] = None
            elif (since := self._alone_since[slot.role]) is None:
                self._alone_since[slot.role] = time.monotonic()
            else:
                is_broken |= time.monotonic() - since >= limits.alone_s
        if is_broken or (not isinstance(why, WorkerLost) and slot.failures >= limits.losses):
            self._retire(slot, why)

    def _retire(self, slot: Slot, why: EvoError) -> None:
        """Fill this slot no more; if it was the last of its role, everything that waits ends with the reason."""
        with self._ready:
            worker, slot.worker, slot.retired = slot.worker, None, why
            is_last = all(other.retired is not None for other in self._slots if other.role == slot.role)
            orders = list(itertools.chain(*self._waiting.values())) if is_last else []
            if is_last:
                self._over = why
                self._waiting = {role: [] for role in ROLES}
            self._ready.notify_all()
        if worker is not None:
            worker.close()
        if not is_last:
            self._note(f"{slot.words} is not used: {why.message}")
        for order in orders:
            self._end(order, why)

    def _wait_for_the_first(self) -> None:
        with self._ready:
            while self.about is None:
                self._check_alive()
                self._ready.wait(timeout=0.5)

    def _check_alive(self) -> None:
        if self._over is not None:
            raise self._over
