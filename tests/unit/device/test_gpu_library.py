"""Library calls timed with a stand-in for torch: long ones end too, and the sample after a rest is not counted."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest
from long_cases import long

from evo.device.gpu_library import captured, timing_samples
from evo.device.timing_types import BenchOptions


class StandIn:
    """As much of torch.cuda as the timing of a call uses; a call takes `us` of a clock of its own."""

    def __init__(self, us: float) -> None:
        self.us, self.now_us, self.calls = us, 0.0, 0
        self.inside: list[int] | None = None
        clock = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                self.at = 0.0

            def record(self) -> None:
                self.at = clock.now_us

            def elapsed_time(self, later: Event) -> float:
                return (later.at - self.at) / 1000

        class Graph:
            def __init__(self) -> None:
                self.length = 0

            def replay(self) -> None:
                clock.now_us += self.length * clock.us

        @contextlib.contextmanager
        def graph(made: Graph, stream: object):
            before, self.calls = self.calls, 0
            yield
            made.length, self.calls = self.calls, before

        stream = SimpleNamespace(synchronize=lambda: None)
        self.cuda = SimpleNamespace(
            Event=Event,
            CUDAGraph=Graph,
            graph=graph,
            Stream=lambda: stream,
            stream=lambda _: contextlib.nullcontext(),
        )

    def call(self, tensors: object, axes: object) -> None:
        self.calls += 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("us", "per_graph"), [(2.0, 150), long(40_000.0, 1)])
def test_short_and_long_calls_are_timed_to_the_end(us: float, per_graph: int) -> None:
    torch = StandIn(us)
    graphs, count, stream = captured(torch, torch.call, [{}, {}, {}], {})
    assert count == per_graph
    options = BenchOptions(samples=8, warm_up_s=0.0)
    assert timing_samples(torch, graphs, count, stream, options) == pytest.approx([us] * 8)
