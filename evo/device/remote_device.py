"""Devices in child processes, so that a hang or a crash of a candidate costs a process and not the run.

`RemoteSimulator` and `RemoteGpu` do what `evo.device.protocol` asks, with a time limit for each call. Three outcomes
never mix: the candidate took too long (`TimedOut`), it brought its process or context down (`Crashed`), or the harness
itself failed (an `EvoError`). Everything else is the method's result.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from evo.cuda.compile import Binary
from evo.device import (
    BenchCase,
    DeviceName,
    ExtremesRequest,
    OutputExtremes,
    Program,
    RehearsalRequest,
    RunRequest,
    RunResult,
    SampledRun,
    SampleRequest,
    plugin_device,
)
from evo.device.protocol import Device, ModellingDevice, TimingDevice
from evo.device.remote_calls import Answer, OpenedObject, Raised, RemoteCall
from evo.device.timing_types import BenchOptions, BenchRequest, BenchResult, LibraryCase, LibraryPairs, LibraryTimes
from evo.errors import ChildDied, Crashed, TimedOut, WorkerLost
from evo.results import CaseBench, Fault, Rate
from evo.spec.child_entries import OPENER

PROGRAMS_PER_CHILD = 50
STARTUP_LIMIT_S = 180.0  # importing CuPy from a cold disk and creating a context; never charged to a candidate
HEALTH_LIMIT_S = 60.0
_DESCRIBE_LIMIT_S = 120.0
_RUN_LIMIT_S = 120.0
_TIMING_LIMIT_S = 300.0

_FATAL_SIGNALS: dict[int, str] = {
    signal.SIGSEGV: "segmentation fault",
    signal.SIGBUS: "bus error",
    signal.SIGILL: "illegal instruction",
    signal.SIGFPE: "arithmetic fault",
    signal.SIGABRT: "abort",
    signal.SIGTRAP: "trap",
}

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D")


class DeviceProcess:
    """Starts the device's process when it is first needed, calls it, and replaces it when it is spent. Thread-safe.

    opener is `module:function`, called in the child with the DeviceName; tests put a device of their own there.
    on_wait is called when another process has the GPU and the call has to wait for it.
    """

    def __init__(
        self, device: DeviceName, *, opener: str = OPENER, on_wait: Callable[[], object] = lambda: None
    ) -> None:
        self.device = device
        self._opener = opener
        self._on_wait = on_wait
        self._lock = threading.RLock()
        self._opened: OpenedObject | None = None
        self._spare: OpenedObject | None = None
        self._seen: set[str] = set()  # variants that the present process has run
        self._suspect = False  # the last process was killed or faulted: check the device before trusting it again
        self._closed = False
        self.starts = 0
        self.on_call: Callable[[], object] = lambda: None  # before each call; what it raises ends the call

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        opened = self._opened
        return opened.child.pid if opened else None

    def recycle(self) -> None:
        """Let the next call start a fresh process, as a confirming measurement wants one."""
        with self._lock:
            self._drop()

    @contextlib.contextmanager
    def reserved(self) -> Iterator[None]:
        """No other thread's call comes between those that are made within: what they run finds its process as left."""
        with self._lock:
            yield

    def prepare_spare(self) -> None:
        """Start the process that will replace this one, up to the point at which it would open the device."""
        with self._lock:
            if self._spare is None and not self._closed:
                self._spare = OpenedObject(self.device, self._opener, self._on_wait)

    def open_spare(self) -> None:
        """Have the spare process, if there is one, open the device: nothing may be timed there meanwhile."""
        with self._lock:
            if self._spare is not None:
                with contextlib.suppress(TimeoutError, ChildDied):  # told where it is to be used
                    self._spare.begin(STARTUP_LIMIT_S)

    def close(self) -> None:
        """Kill the process. A call in flight in another thread ends with WorkerLost."""
        self._closed = True
        if (opened := self._opened) is not None:
            opened.child.stop()  # first the process alone: a call in flight still reads from its files
        if self._lock.acquire(timeout=5.0):
            try:
                self._drop()
                if self._spare is not None:
                    self._spare.child.close()
                    self._spare = None
            finally:
                self._lock.release()

    def _ask(
        self, method: Callable[Concatenate[D, P], R], limit_s: float, /, *arguments: P.args, **named: P.kwargs
    ) -> R:
        """Call a method that runs no candidate. Raises EvoErrors only."""
        value: R = self._called(RemoteCall(method.__name__, arguments, named or None), limit_s, None)
        return value

    def _run(
        self,
        method: Callable[Concatenate[D, P], R],
        limit_s: float,
        programs: Sequence[Program],
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> R:
        """Call a method that runs candidates. Raises TimedOut or Crashed (their doing), or an EvoError (the harness's).

        The limit starts when the process is ready, and pauses while it waits for another one to release the GPU.
        programs: of variants that the process is to count; it is replaced after so many, since what it has loaded of
        old ones stays.
        """
        value: R = self._called(
            RemoteCall(method.__name__, arguments, named or None), limit_s, {p.variant for p in programs}
        )
        return value

    def _called(self, call: RemoteCall, limit_s: float, variants: set[str] | None) -> Any:
        """The value of a call; variants: of the candidates that it runs, None if it runs none."""
        self.on_call()
        with self._lock:
            try:
                return self._call(call, limit_s, variants)
            except ChildDied as death:
                self._judge(call, death, runs_candidate=variants is not None)
            # Killed from outside, most likely for memory: nobody's fault until it happens again.
            try:
                return self._call(call, limit_s, variants)
            except ChildDied as death:
                self._judge(call, death, runs_candidate=variants is not None)
                raise WorkerLost(
                    f"the {self._kind} child died twice while serving {call.method!r} ({death.words})",
                    hint="is the machine out of memory? run again with fewer --jobs",
                ) from None

    @property
    def _kind(self) -> str:
        return "simulator" if self.device.kind == "sim" else "GPU"

    def _judge(self, call: RemoteCall, death: ChildDied, *, runs_candidate: bool) -> None:
        """Raise what a death means, or return if it may be tried again."""
        if self._closed:
            raise WorkerLost("the worker was closed during a call", hint="the run was stopped; start it again")
        name = _FATAL_SIGNALS.get(-death.code)
        if name and runs_candidate:
            raise Crashed(f"{name} in the {self._kind} child")
        if death.code != -signal.SIGKILL:
            raise WorkerLost(
                f"the {self._kind} child ended while serving {call.method!r} ({death.words})",
                hint="run `evo doctor`; nothing was counted against the variant",
            )

    def _call(self, call: RemoteCall, limit_s: float, variants: set[str] | None) -> Any:
        names = variants or set()
        if len(self._seen | names) > PROGRAMS_PER_CHILD and self._seen:
            self._drop()  # modules and JIT code of old variants are never unloaded, so the process is
        opened = self._ready()
        self._seen |= names
        try:
            answer = opened.call(call, limit_s)
        except TimeoutError:
            self._drop(suspect=True)
            if variants is not None:
                raise TimedOut(limit_s) from None
            raise WorkerLost(f"{call.method!r} took longer than {limit_s:g} s", hint="run `evo doctor`") from None
        except BaseException:  # a half-read answer, Ctrl-C included, leaves the socket unusable
            self._drop(suspect=True)
            raise
        if answer.spent:
            self._drop(suspect=True)
        return _value_of(answer)

    def _ready(self) -> OpenedObject:
        if self._closed:
            raise WorkerLost("the worker is closed", hint="open a new one")
        if self._opened is None:
            for attempt in (1, 2):
                self._start()
                if not self._suspect or self._healthy():
                    break
                self._drop(suspect=True)
                if attempt == 2:
                    raise WorkerLost(
                        f"{self.device} does not pass its health check after a fault",
                        problem="health-check",
                        hint="run `evo doctor`; a GPU may need a reset by its administrator",
                    )
                time.sleep(1.0)  # the driver tears a killed context down after the process is gone
            self._suspect = False
        assert self._opened is not None
        return self._opened

    def _start(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None and not spare.child.is_running:  # killed from outside meanwhile
            spare.child.close()
            spare = None
        self._opened = opened = spare or OpenedObject(self.device, self._opener, self._on_wait)
        self.starts += 1
        try:
            answer = opened.opened(STARTUP_LIMIT_S)
        except (TimeoutError, ChildDied) as error:
            self._drop()
            if isinstance(error, ChildDied) and error.code == -signal.SIGKILL:
                raise  # from outside; `_called` tries once more
            what = error.words if isinstance(error, ChildDied) else f"no answer in {STARTUP_LIMIT_S:g} s"
            raise WorkerLost(f"the {self._kind} child did not start: {what}", hint="run `evo doctor`") from None
        except BaseException:
            self._drop()
            raise
        if isinstance(answer, Raised):
            self._drop()
        _value_of(answer)

    def _healthy(self) -> bool:
        assert self._opened is not None
        try:
            answer = self._opened.call(RemoteCall(Device.health.__name__), HEALTH_LIMIT_S)
        except (TimeoutError, ChildDied):
            return False
        return not isinstance(answer, Raised)

    def _drop(self, *, suspect: bool = False) -> None:
        opened, self._opened = self._opened, None
        self._seen = set()
        self._suspect = self._suspect or suspect
        if opened is not None:
            opened.child.close()


def _value_of(answer: Answer) -> Any:
    if isinstance(answer, Raised):
        raise answer.error
    return answer.value


class RemoteDevice(DeviceProcess, Device):
    """What every device can do, in its child process. Each method raises as `DeviceProcess._ask` or `_run` does."""

    def describe(self, *, time_limit_s: float = _DESCRIBE_LIMIT_S) -> dict[str, str]:
        return self._ask(Device.describe, time_limit_s)

    def health(self, *, time_limit_s: float = HEALTH_LIMIT_S) -> None:
        self._ask(Device.health, time_limit_s)

    def run(self, request: RunRequest, *, time_limit_s: float = _RUN_LIMIT_S) -> RunResult:
        return self._run(Device.run, time_limit_s, [request.program], request)

    def output_extremes(self, request: ExtremesRequest, *, time_limit_s: float = _RUN_LIMIT_S) -> OutputExtremes:
        return self._run(Device.output_extremes, time_limit_s, [request.case.program], request)


class RemoteSimulator(RemoteDevice, ModellingDevice):
    """A simulator in its child process."""

    def estimate(
        self, cases: Sequence[BenchCase], *, time_limit_s: float = _TIMING_LIMIT_S
    ) -> tuple[CaseBench, ...] | Fault:
        return self._run(ModellingDevice.estimate, time_limit_s, [case.program for case in cases], cases)

    def screen(
        self, cases: Sequence[BenchCase], *, time_limit_s: float = _RUN_LIMIT_S
    ) -> tuple[CaseBench, ...] | Fault:
        return self._run(ModellingDevice.screen, time_limit_s, [case.program for case in cases], cases)

    def translate(self, program: Program) -> None:
        self._ask(ModellingDevice.translate, _RUN_LIMIT_S, program)

    def rehearse(self, request: RehearsalRequest) -> NDArray[np.uint8]:
        return self._run(ModellingDevice.rehearse, _RUN_LIMIT_S, [request.program], request)

    def run_sample(self, request: SampleRequest, *, time_limit_s: float = _RUN_LIMIT_S) -> SampledRun:
        return self._run(ModellingDevice.run_sample, time_limit_s, [request.case.program], request)


class RemoteGpu(RemoteDevice, TimingDevice):
    """A GPU in its child process."""

    def bench(self, request: BenchRequest, *, time_limit_s: float = _TIMING_LIMIT_S) -> BenchResult:
        return self._run(TimingDevice.bench, time_limit_s, [], request)

    def time_library(
        self,
        library: LibraryCase,
        options: BenchOptions,
        thorough: bool = False,
        *,
        time_limit_s: float = _TIMING_LIMIT_S,
    ) -> dict[str, LibraryTimes | str]:
        return self._ask(TimingDevice.time_library, time_limit_s, library, options, thorough)

    def compare_with_library(
        self, request: BenchRequest, library: LibraryCase, pairs: int, *, time_limit_s: float = _TIMING_LIMIT_S
    ) -> dict[str, LibraryPairs | str]:
        return self._run(TimingDevice.compare_with_library, time_limit_s, [], request, library, pairs)

    def calibrate(self, kernels: Binary, quick: bool, *, time_limit_s: float = _RUN_LIMIT_S) -> dict[str, Rate]:
        return self._ask(TimingDevice.calibrate, time_limit_s, kernels, quick)


def open_remote(
    device: DeviceName, *, opener: str = OPENER, on_wait: Callable[[], object] = lambda: None
) -> RemoteSimulator | RemoteGpu:
    """The device of that name, in a child process that starts with the first call."""
    if device.kind == "sim":
        return RemoteSimulator(device, opener=opener, on_wait=on_wait)
    if device.kind != "gpu" and hasattr(plugin_device(device), "estimate"):  # a class that models times
        return RemoteSimulator(device, opener=opener, on_wait=on_wait)
    return RemoteGpu(device, opener=opener, on_wait=on_wait)
