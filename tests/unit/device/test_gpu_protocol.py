"""The order of a GPU measurement, on made-up blocks: what is dropped, when it stops, what it tells."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy")

from evo.decide.sequential import Comparison, DecisionRule, judge
from evo.device import gpu_timing
from evo.device.gpu_timing import TimingRun
from evo.device.nvml import Reading
from evo.device.timing_types import BenchOptions, BenchRequest, BenchResult, Side
from evo.results import Ground, Verdict

OPTIONS = BenchOptions(budget_s=20, warm_up_s=0.2, samples=64, cold_samples=8)
STEADY = Reading(sm_mhz=1980, throttle=0, power_w=300.04, temperature_c=40)


class Timed(SimpleNamespace):
    """Enough of a TimedVariant: one variant at one case."""


class Timer:
    """Blocks of up to eight samples: 10 us for the parent, `ratio` times that for the child."""

    ratio = 1.0
    ratios: dict[str, float] = {}  # noqa: RUF012 of some cases
    timed: list[int] = []  # noqa: RUF012 the cases that buffers were made for
    clocks: Callable[[Side], float | None] = staticmethod(lambda which: 1975.0)
    shift: Callable[[int], float] = staticmethod(lambda capture: 1.0 + capture / 1000)
    drift = 1.0  # of a block over the one before

    def __init__(
        self,
        device: Any,
        request: BenchRequest,
        index: int,
        stages: Any,
        *,
        capture: int = 0,
        before: Any = None,
        aside: Any = None,
    ) -> None:
        self.capture = capture
        self.timed.append(index)
        self.name = f"case{index}"
        self.clock_mhz: float | None = None
        self.noise = itertools.cycle([0.999, 1.0, 1.001])
        self.blocks = dict.fromkeys(Side, 0)
        self.arena = SimpleNamespace(broken=lambda: ())
        program = SimpleNamespace(flop=1e6, case=self.name)
        self.sides = {
            which: Timed(
                which=which, warm=[], cold=[], per_graph=6, block_samples=8, case=SimpleNamespace(program=program)
            )
            for which in ([Side.CANDIDATE, Side.PARENT] if request.parent else [Side.CANDIDATE])
        }
        for which, side in (before or {}).items():
            self.sides[which].warm = side.warm

    def block(self, side: Side, most: int = 8) -> list[float]:
        self.clock_mhz = self.clocks(side.which)
        ratio = self.ratios.get(self.name, self.ratio)
        us = 10.0 * (ratio * self.shift(self.capture) if side.which is Side.CANDIDATE else 1.0)
        us *= self.drift ** (self.blocks[side.which] % 100)
        self.blocks[side.which] += 1
        return [us * next(self.noise) for _ in range(min(most, 8))]

    def cold_block(self, side: Side, count: int) -> list[float]:
        return [20.0] * count


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., BenchResult]:
    def call(
        ratio: float = 1.0,
        *,
        cases: int = 1,
        alone: bool = False,
        reading: Reading = STEADY,
        options: BenchOptions = OPTIONS,
        clocks: Callable[[Side], float | None] = lambda which: 1975.0,
        ratios: dict[str, float] | None = None,
        timed: list[int] | None = None,
        drift: float = 1.0,
    ) -> BenchResult:
        kind = {"ratio": ratio, "ratios": ratios or {}, "timed": [] if timed is None else timed, "drift": drift}
        monkeypatch.setattr(gpu_timing, "CaseTimer", type("T", (Timer,), {**kind, "clocks": staticmethod(clocks)}))
        monitor = SimpleNamespace(read=lambda: reading, others=lambda: 1)
        device: Any = SimpleNamespace(monitor=monitor, load=lambda program: SimpleNamespace(how="cubin"))
        each: Any = tuple(
            SimpleNamespace(program=SimpleNamespace(case=f"case{n}"), inputs={"x": np.zeros(100 - n, np.uint8)})
            for n in range(cases)
        )
        return TimingRun(device, BenchRequest(child=each, parent=() if alone else each, options=options)).measure()

    return call


def test_a_loser_is_left_after_six_pairs_without_tails_or_cold_samples(run: Callable[..., BenchResult]) -> None:
    result = run(1.5, cases=2)
    assert len(result.pairs) == 6
    assert result.child[0].warm is not None
    assert result.child[0].warm.samples == 6 * 3  # blocks are short while the loss is plain to see
    assert result.child[0].cold is None
    assert {"warm_up", "pairs", "nvml"} <= result.stages_s.keys()
    assert not {"top_up", "cold"} & result.stages_s.keys()


UNSETTLED = 1.006  # five blocks never agree within 1 %, three do within 3 %
WARMING = dataclasses.replace(OPTIONS, warm_up_s=0.5)


@pytest.mark.parametrize(("ratio", "is_short"), [(0.5, True), (0.9, False)])
def test_a_plain_gain_needs_no_settled_blocks(run: Callable[..., BenchResult], ratio: float, is_short: bool) -> None:
    taken_s = run(ratio, options=WARMING, drift=UNSETTLED).stages_s["warm_up"]
    assert (taken_s < 0.25) is is_short


def test_a_gain_in_one_case_alone_is_not_plain(run: Callable[..., BenchResult]) -> None:
    result = run(0.5, cases=2, ratios={"case1": 1.0}, options=WARMING, drift=UNSETTLED)
    assert result.stages_s["warm_up"] > 0.25


EARLY = dataclasses.replace(OPTIONS, stop_at_loss=True)


def test_a_candidate_that_plainly_loses_the_smallest_case_is_timed_at_no_other(
    run: Callable[..., BenchResult],
) -> None:
    timed: list[int] = []
    result = run(0.5, cases=3, ratios={"case2": 1.5}, options=EARLY, timed=timed)
    assert timed == [2]
    assert result.lost_at == "case2"
    assert [row.name for row in result.child] == ["case2"]
    assert [set(pair) for pair in result.pairs] == [{"case2"}] * 6


@pytest.mark.parametrize("smallest", [1.0, 1.05, 0.5])
def test_anything_but_a_plain_loss_at_the_smallest_case_leaves_the_decision_to_all(
    run: Callable[..., BenchResult], smallest: float
) -> None:
    timed: list[int] = []
    result = run(1.5, cases=3, ratios={"case2": smallest}, options=EARLY, timed=timed)
    assert timed == [2, 0, 1]  # what was made for the smallest case is used again
    assert result.lost_at is None
    assert all(len(pair) == 3 for pair in result.pairs)
    assert [row.name for row in result.child] == ["case0", "case1", "case2"]


def test_a_single_case_needs_no_look_of_its_own(run: Callable[..., BenchResult]) -> None:
    assert run(1.5, options=EARLY).lost_at is None


def test_a_winner_gets_its_samples_and_its_cold_times(run: Callable[..., BenchResult]) -> None:
    result = run(0.8, options=BenchOptions(budget_s=20, warm_up_s=0.2, samples=1000, cold_samples=8))
    assert len(result.pairs) == 8
    assert result.child[0].warm is not None
    assert result.child[0].warm.samples >= 1000
    assert result.parent[0].warm is not None
    assert result.parent[0].warm.samples == 64  # its fastest is slower than the child's slowest: no tail can be longer
    assert result.child[0].cold is not None
    assert result.clocks is not None
    assert result.clocks.blocks == 16 + 117  # of the pairs, and those that only fill up


def test_a_parent_that_is_not_outrun_gets_what_its_tail_takes(run: Callable[..., BenchResult]) -> None:
    undecided = dataclasses.replace(BenchOptions().rule, futility=float("inf"), max_pairs=8)
    options = BenchOptions(rule=undecided, budget_s=20, warm_up_s=0.2, samples=1000, cold_samples=0)
    result = run(1.0, options=options)
    assert result.parent[0].warm is not None
    assert 300 <= result.parent[0].warm.samples < 420


def test_every_block_of_a_pair_has_its_readings(run: Callable[..., BenchResult]) -> None:
    clocks = run(0.8, cases=2).clocks
    assert clocks is not None
    assert clocks.each_sm_mhz == (1980,) * 32
    assert clocks.each_counted_mhz == (1975,) * 32
    assert clocks.each_power_w == (300.0,) * 32
    assert clocks.each_temperature_c == (40,) * 32
    assert (clocks.sm_mhz_median, clocks.throttle_reasons, clocks.other_processes) == (1975, (), 1)
    bare = run(0.8, reading=Reading(), clocks=lambda which: None).clocks
    assert bare is not None
    assert bare.sm_mhz == "unavailable"
    assert not any(name.startswith("each_") for name in bare.to_json())


def test_pairs_that_the_clock_moved_in_are_dropped_and_counted(run: Callable[..., BenchResult]) -> None:
    turn = itertools.count()
    result = run(0.8, clocks=lambda which: 1900.0 if which is Side.CANDIDATE and next(turn) % 2 else 1980.0)
    assert result.dropped > 0
    assert len(result.pairs) == len(result.cycles) == 8
    assert result.at_own_clocks == 0
    mood = random.Random(5)
    never = run(0.8, clocks=lambda which: mood.choice([1500.0, 1600.0]) if which is Side.CANDIDATE else 1980.0)
    assert never.pairs == ()
    assert never.dropped == 2 * DecisionRule().max_pairs
    # Without counters, NVML's clock decides; without that, nothing can be told and nothing is dropped.
    assert run(0.8, clocks=lambda which: None).dropped == 0
    assert run(0.8, clocks=lambda which: None, reading=Reading()).cycles == ()


def test_a_kernel_that_runs_at_a_clock_of_its_own_is_measured(run: Callable[..., BenchResult]) -> None:
    """An H200 clocks down for dense mma: no pair of a scalar parent and a tensor-core child is at one clock."""
    result = run(0.2, clocks=lambda which: 1795.0 if which is Side.CANDIDATE else 1978.0)
    assert len(result.pairs) == len(result.cycles) == result.at_own_clocks == 8
    assert result.dropped <= 6  # until it is known which clock each side keeps to
    assert judge(_compared(result), {"case0": 1.0}).verdict is Verdict.KEEP


def test_a_gain_that_only_a_higher_clock_makes_is_not_kept(run: Callable[..., BenchResult]) -> None:
    result = run(0.9, clocks=lambda which: 1980.0 if which is Side.CANDIDATE else 1780.0)
    decision = judge(_compared(result), {"case0": 1.0})
    assert (decision.verdict, decision.ground) == (Verdict.INCONCLUSIVE, Ground.CLOCK)


def _compared(result: BenchResult) -> Comparison:
    return Comparison(
        pairs=result.pairs,
        cycles=result.cycles,
        child=result.child,
        parent=result.parent,
        at_own_clocks=result.at_own_clocks,
    )


def test_cycles_are_times_at_the_clock_that_was_seen(run: Callable[..., BenchResult]) -> None:
    result = run(0.9, clocks=lambda which: 1980.0 if which is Side.CANDIDATE else 1960.0)
    for pair, cycles in zip(result.pairs, result.cycles, strict=True):
        assert cycles["case0"] - pair["case0"] == pytest.approx(0.01015, abs=1e-4)


def test_a_small_loss_is_looked_at_with_whole_blocks(run: Callable[..., BenchResult]) -> None:
    result = run(1.05)
    assert result.child[0].warm is not None
    assert result.child[0].warm.samples == 6 * 8


def test_pairs_are_spread_over_captures_and_their_samples_kept(run: Callable[..., BenchResult]) -> None:
    rule = DecisionRule(futility=float("inf"), max_pairs=30)
    result = run(options=BenchOptions(budget_s=20, warm_up_s=0.2, samples=8, cold_samples=0, captures=10, rule=rule))
    assert result.captures == tuple(number // 3 for number in range(30))
    assert [pair["case0"] for pair in result.pairs[::3]] == pytest.approx([n / 1000 for n in range(10)], abs=1e-4)
    assert result.child[0].warm is not None
    assert result.child[0].warm.samples == 30 * 8
    assert 0 < result.timer_step <= 0.5 / 60


def test_alone_there_are_samples_and_no_pairs(run: Callable[..., BenchResult]) -> None:
    result = run(alone=True)
    assert result.pairs == ()
    assert result.parent == ()
    assert result.child[0].warm is not None
    assert result.child[0].warm.samples == 64


def test_tails_of_slow_launches_are_cut_short(run: Callable[..., BenchResult]) -> None:
    result = run(0.8, options=BenchOptions(budget_s=20, warm_up_s=0.2, samples=1000, cold_samples=8, tail_s=0.0))
    for side in (result.child[0].warm, result.parent[0].warm):
        assert side is not None
        assert 64 <= side.samples < 100
