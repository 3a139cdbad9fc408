"""A GPU that remembers its calls: what a measurement gave beyond the decision, and how long the GPU was held."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evo.device import ExtremesRequest, OutputExtremes, RunRequest, RunResult
    from evo.device.remote_device import RemoteGpu
    from evo.device.timing_types import BenchRequest, BenchResult


class Recorder:
    """Stands in for a GPU. results: of `bench`, in order. By method, over the calls since the last `clear`:

    seconds: wall time of calls, with what goes through the socket; held_s: how long the GPU's lock was held for them.
    """

    def __init__(self, gpu: RemoteGpu) -> None:
        self.gpu = gpu
        self.results: list[BenchResult] = []
        self.seconds: dict[str, float] = {}
        self.held_s: dict[str, float] = {}

    def run(self, request: RunRequest, *, time_limit_s: float) -> RunResult:
        with self._timed("run"):
            found = self.gpu.run(request, time_limit_s=time_limit_s)
        self._held("run", found.held_s)
        return found

    def output_extremes(self, request: ExtremesRequest, *, time_limit_s: float) -> OutputExtremes:
        with self._timed("output_extremes"):
            return self.gpu.output_extremes(request, time_limit_s=time_limit_s)

    def bench(self, request: BenchRequest, *, time_limit_s: float) -> BenchResult:
        with self._timed("bench"):
            found = self.gpu.bench(request, time_limit_s=time_limit_s)
        self._held("bench", found.held_s)
        self.results.append(found)
        return found

    @contextmanager
    def _timed(self, method: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[method] = self.seconds.get(method, 0.0) + time.perf_counter() - started

    def _held(self, method: str, seconds: float | None) -> None:
        if seconds is not None:
            self.held_s[method] = self.held_s.get(method, 0.0) + seconds

    def clear(self) -> None:
        self.results.clear()
        self.seconds.clear()
        self.held_s.clear()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.gpu, name)
