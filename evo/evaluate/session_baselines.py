"""The library's times beside those of variants, taken once for each task and seed of a session."""

from __future__ import annotations

from evo.device.remote_calls import LIBRARY_OPENER
from evo.device.remote_device import RemoteGpu
from evo.device.timing_types import BenchOptions
from evo.errors import HarnessFault
from evo.evaluate.counted_stage import Tell
from evo.evaluate.library_baselines import fastest
from evo.results import Baseline
from evo.spec.reference import Reference
from evo.spec.task import Task

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
