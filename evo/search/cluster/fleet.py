"""The near end: hands jobs to stations, and when one is lost, slow or broken, hands what it was at to another.

One thread per station (a seat) opens it, teaches it the run's tasks, and feeds it. A job is compiled at one station and
measured, parent and candidate together, at one other. Which station does what leaves no trace in the order of results:
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
from typing import Any

from evo.errors import DeviceMissing, EvoError, HarnessFault, WorkerLost
from evo.evaluate.pipeline import Job
from evo.evaluate.session import harness_version
from evo.results import Control, Evaluation
from evo.search.cluster.protocol import Site, StationLost
from evo.search.cluster.remote_worker import Introduction
from evo.search.cluster.slots import KnownCode, Limits, Order, Seat
from evo.search.cluster.task_archive import pack
from evo.spec.task import Task

ROLES = ("measure", "compile")


class Fleet:
    """Stations of one device's kind, all with one chip. Close it, or use it as a context manager.

    note hears one line for each thing that happens to a station; it may be called from any thread.
    """

    def __init__(
        self, site: Site, *, arch: str = "sm_89", note: Callable[[str], object] = str, limits: Limits | None = None
    ) -> None:
        self._site, self._arch, self._note, self._limits = site, arch, note, limits or Limits()
        self._ready = threading.Condition()
        self._waiting: dict[str, list[Order]] = {role: [] for role in ROLES}
        self._under_way: list[Order] = []
        self._unadmitted: deque[Order] = deque()  # those that are held to be new, in the order in which they came
        self._lessons: list[tuple[str, tuple[object, ...]]] = []
        self._known: set[str] = set()  # tasks by hash
        self._numbers = itertools.count()
        self._longest_s = dict.fromkeys(ROLES, 0.0)
        self._alone_since: dict[str, float | None] = dict.fromkeys(ROLES)
        self._over: EvoError | None = None  # why nothing can be evaluated any more
        self._closed = False
        self.about: dict[str, str] | None = None  # what the first device says of itself
        self.chip = ""
        self.width = site.measuring
        self._seats = [Seat("measure", index) for index in range(site.measuring)]
        self._seats += [Seat("compile", index) for index in range(site.compiling)]
        self._threads = [
            threading.Thread(target=self._serve, args=(seat,), daemon=True, name=f"evo-{seat.role}-{seat.index}")
            for seat in self._seats
        ]
        for thread in self._threads:
            thread.start()
        try:
            self._wait_for_the_first()
        except (EvoError, KeyboardInterrupt):
            self.close()
            raise

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all stations; what is under way ends without a result."""
        with self._ready:
            self._closed = True
            links = [link for seat in self._seats for link in (seat.link, seat.opening) if link is not None]
            for order in [*itertools.chain(*self._waiting.values()), *self._under_way]:
                order.future.cancel()
            self._ready.notify_all()
        for link in links:
            link.close()
        for thread in self._threads:
            thread.join(timeout=5.0)
        self._site.close()

    def seats(self) -> tuple[Seat, ...]:
        """The stations' places as they are now; to look at only."""
        with self._ready:
            return tuple(replace(seat, link=None, opening=None) for seat in self._seats)

    def learn(self, task: Task) -> None:
        """Let every station have a task before its next job."""
        with self._ready:
            if task.hash not in self._known:
                self._known.add(task.hash)
                self._lessons.append(("learn", (pack(task),)))
                self._ready.notify_all()

    def control(self, task: Task, text: str, seed: int, *, margin: float | None = None) -> dict[str, Control]:
        """The A/A control at every station that measures, now and whenever one is opened anew; figures by station.

        A station that fails it is left out. Raises what the last one failed with where none is left.
        """
        self.learn(task)
        with self._ready:
            self._lessons.append(("control", (task.hash, text, seed, margin)))
            wanted = len(self._lessons)
            self._ready.notify_all()
            while True:
                seats = [seat for seat in self._seats if seat.role == "measure"]
                fit = [seat for seat in seats if seat.link is not None and seat.taught >= wanted]
                # One that was lost once comes back when it can, and is then taught before it measures.
                if fit and all(seat in fit or seat.retired or seat.failures for seat in seats):
                    return {seat.words: seat.told for seat in fit if seat.told is not None}
                self._check_alive()
                self._ready.wait(timeout=0.5)

    def submit(self, job: Job, *, urgent: bool = False, known: set[str] | None = None) -> Future[Evaluation]:
        """Have a job evaluated; earlier ones come first, and urgent ones before all.

        known: hashes of machine code. A job that compiles to one of them ends with KnownCode; others add theirs, in the
        order in which they were submitted.
        """
        self.learn(job.task)
        order = Order((0 if urgent else 1, next(self._numbers)), Future(), job, known)
        with self._ready:
            if known is not None:
                self._unadmitted.append(order)
            self._put(order)
        return order.future

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
                question = ("gains", (task.hash, parent, part, seed))
                orders.append(Order((0, next(self._numbers)), Future(), question=question))
                self._put(orders[-1])
        return [gain for order in orders for gain in order.future.result()]

    def evaluate_all(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Evaluation]]:
        """Evaluate a sequence of variants; results come in the order of the jobs."""
        waiting = iter(jobs)
        most = 2 * self.width + self._site.compiling
        flying: deque[tuple[Job, Future[Evaluation]]] = deque()
        for job in itertools.islice(waiting, most):
            flying.append((job, self.submit(job)))
        while flying:
            job, future = flying.popleft()
            evaluation = future.result()
            flying.extend((more, self.submit(more)) for more in itertools.islice(waiting, 1))
            yield job, evaluation

    # --- one thread per seat

    def _serve(self, seat: Seat) -> None:
        while (order := self._next(seat)) is not None:
            started_s = time.monotonic()
            try:
                value = self._perform(seat, order)
            except StationLost as lost:
                self._lose(seat, lost.how, order)
            except (HarnessFault, DeviceMissing) as fault:
                self._lose(seat, fault.message, order, fault)
            except EvoError as error:  # the job itself asks for what cannot be
                self._end(order, error)
            else:
                self._done(seat, order, value, time.monotonic() - started_s)

    def _next(self, seat: Seat) -> Order | None:
        """Keep the seat filled and taught until there is an order for it; None when it is to leave."""
        while True:
            with self._ready:
                if self._closed or seat.retired is not None:
                    return None
                seat.busy = False
                is_fit = seat.link is not None and seat.taught >= len(self._lessons)
                queue = self._waiting[seat.role]
                if is_fit and queue:
                    order = heapq.heappop(queue)
                    self._under_way.append(order)
                    seat.busy = True
                    return order
                if is_fit:
                    self._ready.wait()
                    continue
                if seat.role == "compile" and self.about is None:
                    self._ready.wait()
                    continue
            self._prepare(seat)

    def _prepare(self, seat: Seat) -> None:
        """Open the seat's station, or teach it its next lesson."""
        try:
            if seat.link is None:
                self._open(seat)
            else:
                self._teach(seat)
        except StationLost as lost:
            self._lose(seat, lost.how)
        except (HarnessFault, DeviceMissing) as fault:
            self._lose(seat, fault.message, fault=fault)
        except EvoError as error:
            self._retire(seat, error)

    def _open(self, seat: Seat) -> None:
        link = self._site.open(seat.role, seat.index)
        about = self.about if seat.role == "compile" else None
        with self._ready:
            seat.opening = link  # so that closing ends it too
        try:
            if self._closed:
                raise StationLost("closed")
            found: Introduction = link.call("join", self._arch, about, limit_s=self._limits.open_s)
        except (StationLost, EvoError):
            link.close()
            raise
        with self._ready:
            if self._closed:
                link.close()
                return
            seat.name = f"{seat.role} {seat.index + 1} ({found.host}, pid {found.pid})"
            unfit = self._unfit(found)
            if unfit is None:
                if self.about is None:
                    self.about, self.chip = found.about, found.chip
                seat.link, seat.taught, seat.told = link, 0, None
                self._alone_since[seat.role] = None
                self._ready.notify_all()
        if unfit is not None:
            link.close()
            self._retire(seat, unfit)

    def _unfit(self, found: Introduction) -> EvoError | None:
        if found.harness != harness_version():
            problem = f"{found.host} has evo {found.harness}, this is {harness_version()}"
            return HarnessFault(problem, hint="install the same evo on every node")
        if self.about is not None and found.chip != self.chip:
            problem = f"{found.host} has the chip {found.chip}, this run is of {self.chip}"
            return DeviceMissing(problem, hint="one run is of one chip: give each chip a run of its own")
        return None

    def _teach(self, seat: Seat) -> None:
        method, arguments = self._lessons[seat.taught]
        told: Control | None = None
        assert seat.link is not None
        if method != "control" or seat.role == "measure":
            told = seat.link.call(method, *arguments, limit_s=self._limits.lesson_s)
        with self._ready:
            seat.taught += 1
            seat.told = told or seat.told
            if seat.taught == len(self._lessons):
                seat.failures = 0
            self._ready.notify_all()

    def _perform(self, seat: Seat, order: Order) -> Any:
        assert seat.link is not None
        if order.question is not None:
            method, arguments = order.question
            return seat.link.call(method, *arguments, limit_s=self._limit_s(order))
        if order.started is None:
            return seat.link.call("start", order.job, limit_s=self._limit_s(order))
        return seat.link.call("finish", order.started, limit_s=self._limit_s(order))

    def _limit_s(self, order: Order) -> float:
        """How long this step may take: a job that was slow elsewhere gets longer, since it may be slow by itself."""
        limits, longest = self._limits, self._longest_s[order.role]
        limit = max(limits.patient_s, limits.slow_factor * longest) if longest else limits.slow_s
        return min(limits.slow_s, limit * float(4**order.lost))

    # --- what becomes of orders and seats

    def _put(self, order: Order) -> None:
        if self._closed:
            order.future.cancel()
            return
        if self._over is not None:
            order.future.set_exception(self._over)
            return
        heapq.heappush(self._waiting[order.role], order)
        self._ready.notify_all()

    def _done(self, seat: Seat, order: Order, value: Any, seconds: float) -> None:
        with self._ready:
            self._under_way.remove(order)
            self._longest_s[order.role] = max(self._longest_s[order.role], seconds)
            seat.failures = 0
            if order.role == "compile":  # also where it has ended: the result names the station's environment
                order.started, order.lost = value, 0
                if order.known is None:
                    self._put(order)
                self._admit()
                return
        if not order.future.cancelled():
            order.future.set_result(value)

    def _end(self, order: Order, error: EvoError) -> None:
        with self._ready:
            if order in self._under_way:
                self._under_way.remove(order)
        if not order.future.cancelled():
            order.future.set_exception(error)
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
                order.future.set_exception(KnownCode(prepared.code_hash))
                continue
            if prepared is not None:
                order.known.add(prepared.code_hash)
            self._put(order)

    def _lose(self, seat: Seat, how: str, order: Order | None = None, fault: EvoError | None = None) -> None:
        """A station is gone or broken: tell it, put its order back in line, and fill the seat again after a while."""
        name = seat.words
        if seat.link is not None:
            seat.link.close()
        with self._ready:
            seat.link, seat.name, seat.taught = None, "", 0
            seat.failures += 1
            if self._closed:
                return
            if order is not None:
                self._under_way.remove(order)
                order.lost += 1
        if order is not None and order.lost >= self._limits.losses:
            hint = "nothing was counted against the variant; run `evo doctor` on the nodes"
            problem = f"{order.lost} stations in a row were lost over one job, {name} at last: {how}"
            self._end(order, fault or WorkerLost(problem, hint=hint))
        elif order is not None:
            self._note(f"{name} is lost ({how}); its candidate is evaluated again elsewhere")
            with self._ready:
                self._put(order)
        else:
            self._note(f"{name}: {how}")
        self._rest(seat, fault or WorkerLost(f"{name}: {how}", hint="is the cluster up? run `evo doctor` on its nodes"))

    def _rest(self, seat: Seat, why: EvoError) -> None:
        """Wait before the seat is filled again; give it up where it is broken, or alone for long."""
        pauses, limits = self._limits.again_s, self._limits
        until = time.monotonic() + pauses[min(seat.failures, len(pauses)) - 1]
        is_broken = isinstance(why, DeviceMissing)
        with self._ready:
            while not is_broken and not self._closed and (left := until - time.monotonic()) > 0:
                self._ready.wait(timeout=left)
            if any(other.link is not None for other in self._seats if other.role == seat.role):
                self._alone_since[seat.role] = None
            elif (since := self._alone_since[seat.role]) is None:
                self._alone_since[seat.role] = time.monotonic()
            else:
                is_broken |= time.monotonic() - since >= limits.alone_s
        if is_broken or (not isinstance(why, WorkerLost) and seat.failures >= limits.losses):
            self._retire(seat, why)

    def _retire(self, seat: Seat, why: EvoError) -> None:
        """Fill this seat no more; where it was the last of its role, everything that waits ends with the reason."""
        with self._ready:
            link, seat.link, seat.retired = seat.link, None, why
            is_last = all(other.retired is not None for other in self._seats if other.role == seat.role)
            orders = list(itertools.chain(*self._waiting.values())) if is_last else []
            if is_last:
                self._over = why
                self._waiting = {role: [] for role in ROLES}
            self._ready.notify_all()
        if link is not None:
            link.close()
        if not is_last:
            self._note(f"{seat.words} is not used: {why.message}")
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
