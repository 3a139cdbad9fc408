"""The library's backends of a task, forced one by one: times of three kinds, errors, and which one is to be beaten.

Each is called as reference.py's rivals() gives it, on the inputs that variants get. A rival whose outputs are not
within the task's tolerance is shown, and is not the one to beat.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from evo.analysis.calibration import CallTimes
from evo.device import BenchCase
from evo.device.remote_calls import LIBRARY_OPENER
from evo.device.remote_device import RemoteGpu
from evo.device.timing_types import BenchOptions, BenchRequest, LibraryCase, LibraryPairs, LibraryTimes
from evo.errors import HarnessFault, TaskInvalid
from evo.evaluate.counted_stage import Tell
from evo.results import Baseline, Timing
from evo.results.codec import ALWAYS, Serializable
from evo.spec.reference import Reference
from evo.spec.task import Case, Task

_SLACK_S = 120.0
_RIVALS = 8  # as many may use up their whole budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival(Serializable):
    """One backend at one case."""

    COMPUTED: ClassVar = ("status",)

    name: str  # the backend
    reason: str | None = None  # why it cannot run here; all figures are then absent
    warm: Timing | None = None  # with inputs and code in the caches
    cold: Timing | None = None  # with the L2 cache flushed
    eager: Timing | None = None  # called from Python, wall clock
    max_error: float | None = None  # the largest error of an element against the float64 reference
    rms_error: float | None = None  # relative to the root mean square of what is expected
    within_tolerance: bool | None = None  # of the task

    @property
    def status(self) -> Literal["refused", "measured"]:
        """Whether it could run here."""
        return "refused" if self.reason is not None else "measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseBaseline(Serializable):
    """The rivals of one case, in the order of reference.py."""

    COMPUTED: ClassVar = ("beat",)

    name: str  # the case
    rivals: Annotated[tuple[Rival, ...], ALWAYS]  # the backends

    @property
    def to_beat(self) -> Rival | None:
        """The fastest one, warm, among those that are right."""
        able = [rival for rival in self.rivals if rival.warm is not None and rival.within_tolerance is not False]
        return min(able, key=lambda rival: cast(Timing, rival.warm).p50_us, default=None)

    @property
    def beat(self) -> str | None:
        """The backend to beat: the fastest one, warm, among those that are right."""
        return self.to_beat.name if self.to_beat is not None else None

    def kept(self) -> dict[str, CallTimes]:
        """What is kept for `evo limits`: the times of those that ran, by name."""
        return {
            rival.name: CallTimes(warm=rival.warm, cold=rival.cold) for rival in self.rivals if rival.warm is not None
        }


def baseline(
    gpu: RemoteGpu, reference: Reference, case: Case, *, seed: int = 0, options: BenchOptions | None = None
) -> CaseBaseline:
    """Measure the rivals of one case. Raises TaskInvalid if reference.py names none, EvoError for the harness."""
    task = reference.task
    if not reference.has("rivals"):
        raise TaskInvalid(
            f"{task.folder / 'reference.py'}: no rivals()",
            problem="no-rivals",
            hint="add `def rivals()` returning {name: call(tensors, case)}, e.g. library calls of torch",
        )
    options = options or BenchOptions()
    library = library_case(reference, case, seed)
    limit = _RIVALS * options.budget_s + _SLACK_S
    found = gpu.time_library(library, options, thorough=True, time_limit_s=limit)
    expected = reference.expected(library.inputs, case)
    rivals = tuple(_judged(reference, expected, name, figures) for name, figures in found.items())
    return CaseBaseline(name=case.name, rivals=rivals)


def fastest(gpu: RemoteGpu, reference: Reference, case: Case, *, seed: int, options: BenchOptions) -> Baseline | None:
    """The fastest library call of one case, warm, and the others; None if none can run here."""
    limit = options.budget_s + _SLACK_S
    found = gpu.time_library(library_case(reference, case, seed), options, time_limit_s=limit)
    times = {name: times.warm.p50_us for name, times in found.items() if not isinstance(times, str)}
    if not times:
        return None
    name = min(times, key=lambda name: times[name])
    return Baseline(name=name, p50_us=times.pop(name), others=times)


def against_library(
    gpu: RemoteGpu, reference: Reference, bench: BenchCase, *, pairs: int, limit_s: float
) -> dict[str, LibraryPairs | str]:
    """A variant at one bench case in interleaved pairs with each library call, or why one cannot run here.

    Raises TimedOut or Crashed for the variant, EvoError for the harness.
    """
    task = reference.task
    case = task.case(bench.program.case)
    request = BenchRequest(child=(bench,), options=BenchOptions(warm_up_s=0.2, budget_s=limit_s / 2))
    library = LibraryCase(folder=str(task.folder), axes=dict(case.axes), inputs=bench.inputs)
    return gpu.compare_with_library(request, library, pairs, time_limit_s=limit_s)


def library_case(reference: Reference, case: Case, seed: int) -> LibraryCase:
    """The library calls of a case, on the inputs that a variant gets."""
    folder, inputs = str(reference.task.folder), reference.inputs(case, seed)
    return LibraryCase(folder=folder, axes=dict(case.axes), inputs=inputs)


def _judged(
    reference: Reference, expected: dict[str, NDArray[np.generic]], name: str, figures: LibraryTimes | str
) -> Rival:
    if isinstance(figures, str):
        return Rival(name=name, reason=figures)
    rival = Rival(name=name, warm=figures.warm, cold=figures.cold, eager=figures.eager)
    outputs = reference.task.outputs
    if len(figures.outputs) != len(outputs):
        return rival  # a call that returns something else, or works in place, has no error to show
    largest, squares, wanted, count, within = 0.0, 0.0, 0.0, 0, True
    tolerance = reference.task.tolerance
    for tensor, got in zip(outputs, figures.outputs, strict=True):
        exact = np.asarray(expected[tensor.name], np.float64)
        if got.size != exact.size:
            return rival
        error = np.abs(np.asarray(got, np.float64).reshape(exact.shape) - exact)
        within = within and bool((error <= tolerance.atol + tolerance.rtol * np.abs(exact)).all())
        if not np.isfinite(error).all():
            return replace(rival, within_tolerance=False)
        largest = max(largest, float(error.max()))
        squares += float(np.square(error).sum())
        wanted += float(np.square(exact).sum())
        count += exact.size
    relative = float(np.sqrt(squares / wanted)) if wanted else None
    return replace(rival, max_error=largest, rms_error=relative, within_tolerance=within)


_OPTIONS = BenchOptions(samples=64, warm_up_s=0.2, budget_s=10.0)


class SessionBaselines:
    """Times library calls in a process that has imported torch ahead, which takes seconds."""

    def __init__(self, target: RemoteGpu | None, *, apart: bool, tell: Tell) -> None:
        """target: the GPU; None if nothing is timed. apart: whether its library calls get a process of their own."""
        self._target = RemoteGpu(target.device, opener=LIBRARY_OPENER) if target is not None and apart else target
        self._apart, self._tell = apart, tell
        self._found: dict[tuple[str, int], dict[str, Baseline]] = {}

    def begin(self, reference: Reference) -> None:
        """Start the process if it will be wanted; it leaves the GPU alone until then."""
        if self._target is not None and self._apart and not self._found and reference.has("rivals"):
            self._target.prepare_spare()

    def close(self) -> None:
        if self._target is not None and self._apart:
            self._target.close()

    def of(self, task: Task, reference: Reference, seed: int) -> dict[str, Baseline]:
        """The fastest library implementation of each bench case; {} if none can be.

        A library that fails, or takes its process along, costs its figures and never the variant beside it.
        """
        key = (task.hash, seed)
        if key in self._found:
            return self._found[key]
        found = self._found[key] = {}
        if self._target is None or not reference.has("rivals"):
            return found
        try:
            for case in task.bench:
                if (best := fastest(self._target, reference, case, seed=seed, options=_OPTIONS)) is not None:
                    found[case.name] = best
        except HarnessFault as fault:
            self._tell(f"no baseline: {fault.message}")
        finally:
            self._target.recycle()  # torch has left its memory pools and handles in there
        return found
