"""measure(): two stages in two processes and one decision, on made-up measurements."""

import contextlib
import weakref
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pytest
from refusals import refused

from evo.decide.sequential import require_margin
from evo.device import BenchCase
from evo.device.remote_device import RemoteGpu
from evo.device.timing_types import BenchResult, sequences_per_sample, settled, timing_of
from evo.errors import Crashed, HarnessFault, UsageError
from evo.evaluate.measure import CHAMPION_SAMPLES, BenchOptions, BenchRequest, control, measure, require_quiet
from evo.results import CaseBench, Fault, FaultKind, Ground, Verdict
from evo.spec.chips import L4


@dataclass
class FakeProgram:
    case: str = "a"
    variant: str = "v"
    flop: float | None = None
    bytes: float | None = None


@dataclass
class FakeGpu:
    """Answers `bench` from a list of ratios (child / parent), one a call, and notes what it was asked."""

    ratios: list[float]
    requests: list[BenchRequest] = field(default_factory=list)
    recycled: int = 0
    divergence: Fault | None = None
    dropped: int = 0
    stages_s: dict[str, float] = field(default_factory=dict)
    lost_at: str | None = None

    def recycle(self) -> None:
        self.recycled += 1

    def reserved(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def bench(self, request: BenchRequest, *, time_limit_s: float) -> BenchResult:
        assert time_limit_s > request.options.budget_s
        self.requests.append(request)
        if self.divergence:
            return BenchResult(child=(), divergence=self.divergence)
        ratio = self.ratios[len(self.requests) - 1]
        rng = np.random.default_rng(len(self.requests))
        samples = np.asarray(10 * ratio * np.exp(rng.normal(0, 0.004, request.options.samples)), np.float32)
        names = [case.program.case for case in request.child]
        pairs = tuple(dict.fromkeys(names, float(np.log(ratio) + d)) for d in rng.normal(0, 0.003, 30))
        row = CaseBench(name="a", warm=timing_of(samples), tflop_per_s=None)
        parent = (replace(row, warm=timing_of(samples / ratio)),) if request.parent else ()
        return BenchResult(
            child=(row,),
            parent=parent,
            pairs=pairs,
            samples={"a": samples},
            launches_per_sample={"a": 6},
            dropped=self.dropped,
            stages_s=self.stages_s,
            lost_at=self.lost_at,
        )


def cases(**work: Any) -> tuple[BenchCase, ...]:
    return (BenchCase(program=cast(Any, FakeProgram(**cast(Any, work))), inputs={"x": np.zeros(4, np.float32)}),)


def run(gpu: FakeGpu, request: BenchRequest, **more: Any) -> Any:
    return measure(cast(RemoteGpu, gpu), request, chip=L4, **more)


PAIRED = BenchRequest(child=cases(), parent=cases(), score={"a": 1.0, "another": 2.0})


def test_without_a_parent_there_are_figures_and_no_decision() -> None:
    gpu = FakeGpu([0.9])
    result = run(gpu, BenchRequest(child=cases()))
    assert result.decision is None
    assert result.child[0].warm.samples == 64
    assert gpu.recycled == 0


def test_a_gain_is_confirmed_in_a_fresh_process_with_the_order_swapped() -> None:
    gpu = FakeGpu([0.8, 0.85])
    fresh = replace(PAIRED, child=cases(), parent=cases())
    result = run(gpu, PAIRED, fresh=lambda: fresh)
    assert result.decision.verdict is Verdict.KEEP
    assert result.decision.gain.confirmed
    assert result.decision.gain.ratio == pytest.approx(1 / 0.85, rel=0.01)
    assert gpu.recycled == 1
    first, second = gpu.requests
    assert second.child is fresh.child
    assert (first.options.swap, second.options.swap) == (False, True)
    assert second.options.rule.alpha == 0.05
    assert second.options.samples == CHAMPION_SAMPLES
    assert result.child[0].warm.samples == CHAMPION_SAMPLES + 64  # both processes, none trimmed


def test_the_first_inputs_are_gone_before_others_are_drawn() -> None:
    gpu = FakeGpu([0.8, 0.85])
    given = [replace(PAIRED, child=cases(), parent=cases())]
    held = [weakref.ref(case.inputs["x"]) for case in (*given[0].child, *given[0].parent)]

    def fresh() -> BenchRequest:
        gpu.requests = [PAIRED]  # the fake holds on to no inputs
        assert all(one() is None for one in held)
        return PAIRED

    found = measure(cast(RemoteGpu, gpu), given.pop(), chip=L4, fresh=fresh)
    assert found.decision is not None
    assert found.decision.kept


def test_no_gain_ends_after_one_stage_and_a_lucky_one_after_two() -> None:
    gpu = FakeGpu([1.0])
    assert run(gpu, PAIRED).decision.verdict is Verdict.REVERT
    assert gpu.recycled == 0
    gpu = FakeGpu([0.9, 1.0])
    decision = run(gpu, PAIRED).decision
    assert decision.verdict is Verdict.REVERT
    assert decision.evidence.first_stage is not None


def test_what_is_still_to_be_shown_comes_before_the_second_stage_and_only_for_what_would_be_kept() -> None:
    asked: list[int] = []

    def prove(answer: bool, gpu: FakeGpu) -> Any:
        def shown() -> bool:
            asked.append(len(gpu.requests))
            return answer

        return run(gpu, PAIRED, prove=shown)

    kept, refuted, slow = FakeGpu([0.8, 0.8]), FakeGpu([0.8, 0.8]), FakeGpu([1.2])
    assert prove(True, kept).decision.verdict is Verdict.KEEP
    found = prove(False, refuted)
    assert (found.decision, found.child, len(refuted.requests)) == (None, (), 1)
    assert prove(True, slow).decision.verdict is Verdict.REVERT
    assert asked == [1, 1]


def test_a_loss_at_one_case_reverts_and_says_that_no_other_was_timed() -> None:
    gpu = FakeGpu([1.4], lost_at="a")
    both = replace(PAIRED, child=(*cases(case="a"), *cases(case="b")), parent=(*cases(case="a"), *cases(case="b")))
    decision = run(gpu, both).decision
    assert decision.verdict is Verdict.REVERT
    assert set(decision.evidence.cases) == {"a"}
    assert decision.gain.ratio == pytest.approx(1 / 1.4, rel=0.01)
    assert decision.evidence.e_value_against >= 20
    assert gpu.recycled == 0


def test_the_guards_against_long_tails_get_their_samples_of_a_gain_whatever_is_asked() -> None:
    gpu = FakeGpu([0.8, 0.8])
    run(gpu, replace(PAIRED, options=BenchOptions(samples=64, confirming_samples=300, stop_at_loss=True)))
    first, second = (request.options for request in gpu.requests)
    assert (first.samples, second.samples) == (64, 300)
    assert (first.stop_at_loss, second.stop_at_loss) == (True, False)  # what is confirmed is timed at every case


def test_a_time_that_cannot_be_true_is_never_kept() -> None:
    decision = run(FakeGpu([0.5, 0.5]), replace(PAIRED, child=cases(flop=1e12))).decision
    assert decision.verdict is Verdict.REVERT
    assert decision.ground is Ground.TOO_FAST
    alone = run(FakeGpu([0.5]), BenchRequest(child=cases(flop=1e12))).decision
    assert alone.ground is Ground.TOO_FAST


def test_divergence_leaves_no_figures() -> None:
    fault = Fault(kind=FaultKind.TIMING_DIVERGENCE, kernel="k", message="case a: child: other outputs")
    result = run(FakeGpu([], divergence=fault), PAIRED)
    assert result.divergence is fault
    assert result.child == ()
    assert result.decision is None


def test_a_control_run_gives_the_noise_floor_and_no_keep() -> None:
    gpu = FakeGpu([1.0])
    floor, decision = control(cast(RemoteGpu, gpu), cases(), options=BenchOptions())
    assert floor.pairs == 30
    assert floor.sd == pytest.approx(0.003, rel=0.5)
    assert decision.verdict is Verdict.REVERT
    asked = [(r.options.rule.max_pairs, r.options.captures, r.options.rule.futility) for r in gpu.requests]
    assert asked == [(12, 4, float("inf"))]


def test_a_control_leaves_out_cases_whose_launches_take_longer_than_it_is_given() -> None:
    three = tuple(BenchCase(program=cast(Any, FakeProgram(case=name)), inputs={}) for name in ("a", "b", "c"))
    for known_us, wanted in (
        ({}, ["a", "b", "c"]),
        ({"a": 40_000.0, "b": 300.0, "c": 3600.0}, ["b", "c"]),
        ({"a": 40_000.0, "b": 60_000.0, "c": 90_000.0}, ["a"]),  # one at least
    ):
        gpu = FakeGpu([1.0])
        control(cast(RemoteGpu, gpu), three, options=BenchOptions(), known_us=known_us)
        request = gpu.requests[0]
        assert [case.program.case for case in request.child] == wanted
        assert request.parent == request.child


def test_a_control_is_longer_if_the_margin_is_near_the_noise() -> None:
    gpu = FakeGpu([1.0, 1.0])
    strict = BenchOptions(rule=replace(BenchOptions().rule, margin=0.005))
    floor, _ = control(cast(RemoteGpu, gpu), cases(), options=strict)
    assert [(r.options.rule.max_pairs, r.options.captures) for r in gpu.requests] == [(12, 4), (18, 6)]
    assert floor.pairs == 60  # of both, each 30 here


def test_a_control_that_finds_a_gain_stops_the_run() -> None:
    floor, decision = control(cast(RemoteGpu, FakeGpu([0.9])), cases(), options=BenchOptions())
    with refused(HarnessFault, "false-gain"):
        require_quiet(decision)
    floor, decision = control(cast(RemoteGpu, FakeGpu([1.0, 1.0])), cases(), options=BenchOptions())
    require_quiet(decision)
    with refused(UsageError, "margin-below-noise-floor"):
        require_margin(floor, replace(BenchOptions().rule, margin=0.001))


def test_a_control_of_a_program_that_differs_from_itself_is_a_fault() -> None:
    fault = Fault(kind=FaultKind.TIMING_DIVERGENCE, kernel="k", message="case a: child: other outputs")
    with pytest.raises(HarnessFault, match="A/A control: case a"):
        control(cast(RemoteGpu, FakeGpu([], divergence=fault)), cases(), options=BenchOptions())


def test_dropped_pairs_and_stage_times_of_both_stages_are_added_up() -> None:
    result = run(FakeGpu([0.8, 0.85], dropped=3, stages_s={"pairs": 0.5}), PAIRED)
    assert result.dropped == 6
    assert result.stages_s == {"pairs": 1.0}
    assert result.decision.evidence is not None
    assert result.decision.evidence.dropped_pairs == 3


def test_neutral_is_kept_after_two_stages_when_asked() -> None:
    gpu = FakeGpu([1.0, 1.0])
    asked = replace(PAIRED, options=replace(PAIRED.options, rule=replace(PAIRED.options.rule, simpler="2 fewer lines")))
    result = run(gpu, asked)
    assert result.decision.verdict is Verdict.KEEP_NEUTRAL
    assert gpu.recycled == 1
    assert result.child[0].warm.samples == CHAMPION_SAMPLES + 64


def test_crashes_pass_through() -> None:
    class Crashing(FakeGpu):
        def bench(self, request: BenchRequest, *, time_limit_s: float) -> BenchResult:
            raise Crashed("illegal memory access in k")

    with pytest.raises(Crashed):
        run(Crashing([]), PAIRED)


@pytest.mark.parametrize(
    ("child", "parent"), [(149.0, 152.0), (24.9, 25.1), (120.0, 170.0), (10.0, 10.0), (400.0, 390.0)]
)
def test_the_start_of_a_graph_is_shared_out_alike_over_both_sides(child: float, parent: float) -> None:
    start_us, cycle = 2.8, 6
    ours, theirs = sequences_per_sample([child, parent], cycle)
    measured = (child + start_us / ours) / (parent + start_us / theirs)
    assert ours == theirs
    assert measured == pytest.approx(child / parent, rel=0.005)


def test_sides_that_differ_widely_keep_their_own_sample_size() -> None:
    assert sequences_per_sample([10.0, 1000.0], 6) == [30, 1]
    assert sequences_per_sample([0.7], 6) == [432]
    assert sequences_per_sample([0.01], 6) == [1200]


@pytest.mark.parametrize(
    ("medians", "busy_us", "warm"),
    [
        ([100.0] * 5, 1_000.0, True),
        ([100.0, 100.0, 100.5], 200_000.0, True),
        ([100.0, 103.0, 98.0, 101.0] * 2, 400_000.0, True),  # it scatters, and does not move
        ([100.0, 103.0, 98.0, 101.0] * 2, 200_000.0, False),  # too soon to tell
        ([110.0, 113.0, 108.0, 111.0, 104.0, 107.0, 102.0, 105.0], 400_000.0, False),  # it still gets faster
    ],
)
def test_blocks_that_agree_or_only_scatter_are_warm(medians: list[float], busy_us: float, warm: bool) -> None:
    assert settled(medians, busy_us) is warm
