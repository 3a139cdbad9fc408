"""A worker that remembers its calls: what a measurement gave beyond the decision, and how long the GPU was held."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evo.device.timing_types import BenchResult


class Recorder:
    """Stands in for a worker. results: of `bench`, in order. By method, over the calls since the last `clear`:

    seconds: wall time of calls, with what goes through the pipe; held_s: how long the GPU's lock was held for them.
    """

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.results: list[BenchResult] = []
        self.seconds: dict[str, float] = {}
        self.held_s: dict[str, float] = {}

    def call(self, method: str, *arguments: object, time_limit_s: float) -> Any:
        started = time.perf_counter()
        try:
            result = self.worker.call(method, *arguments, time_limit_s=time_limit_s)
        finally:
            self.seconds[method] = self.seconds.get(method, 0.0) + time.perf_counter() - started
        if (held := getattr(result, "held_s", None)) is not None:
            self.held_s[method] = self.held_s.get(method, 0.0) + held
        if method == "bench":
            self.results.append(result)
        return result

    def clear(self) -> None:
        self.results.clear()
        self.seconds.clear()
        self.held_s.clear()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.worker, name)
