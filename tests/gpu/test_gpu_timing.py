"""Times that can be believed: resolution, no false keep, planted changes found, cheats caught."""

from pathlib import Path

import pytest
from gpu_programs import case_of, fma, inputs, program
from refusals import refused

from evo.device.remote_device import RemoteGpu
from evo.device.timing_types import LibraryCase, LibraryTimes
from evo.errors import Crashed, HarnessFault
from evo.evaluate.library_baselines import library_case
from evo.evaluate.measure import BenchOptions, BenchRequest, control, measure
from evo.results import Ground, Timing, Verdict
from evo.spec.chips import CHIPS, Chip
from evo.spec.launch import Workspace
from evo.spec.reference import load_reference
from evo.spec.task import load_task

pytestmark = pytest.mark.gpu

QUICK = BenchOptions(budget_s=20, warm_up_s=1.0)
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def chip(gpu: RemoteGpu) -> Chip:
    return CHIPS[gpu.describe(time_limit_s=60)["chip"]]


def shown(timing: Timing | None) -> str:
    assert timing is not None
    return (
        f"p50 {timing.p50_us:.3f} p90 {timing.p90_us:.3f} p99 {timing.p99_us:.3f} "
        f"sd {timing.std_us:.3f} us, {timing.samples} samples"
    )


def test_an_empty_kernel_takes_less_than_two_microseconds(gpu: RemoteGpu, chip: Chip) -> None:
    empty = program("if (n < 0) y[i] = x[i];", name="empty", grid=1, block=32)
    result = measure(gpu, BenchRequest(child=(case_of(empty),), options=QUICK), chip=chip)
    assert result.divergence is None
    row = result.child[0]
    print("empty warm:", shown(row.warm), "x", result.launches_per_sample, "| cold:", shown(row.cold), result.clocks)
    assert row.warm is not None
    assert row.warm.p50_us < 2.0


@pytest.mark.parametrize("iterations", [1_000, 10_000, 60_000, 100_000])
def test_time_grows_with_work(gpu: RemoteGpu, chip: Chip, iterations: int) -> None:
    result = measure(gpu, BenchRequest(child=(case_of(fma(iterations)),), options=QUICK), chip=chip)
    warm, per_sample = result.child[0].warm, result.launches_per_sample["c"]
    print(f"fma {iterations}:", shown(warm), "x", per_sample, result.loaded)
    assert warm is not None
    assert warm.p90_us <= 1.2 * warm.p50_us
    assert (per_sample == 1) == (warm.p50_us >= 150)


def test_cold_is_slower_than_warm_for_a_memory_bound_kernel(gpu: RemoteGpu, chip: Chip) -> None:
    n = 1 << 20
    copy = program("y[i] = x[i];", name="copy", n=n)
    row = measure(gpu, BenchRequest(child=(case_of(copy),), options=QUICK), chip=chip).child[0]
    print("copy 4 MiB warm:", shown(row.warm), "| cold:", shown(row.cold))
    assert row.warm is not None
    assert row.cold is not None
    assert row.cold.p50_us > row.warm.p50_us


def test_a_program_against_itself_is_not_kept_and_shows_the_noise_floor(gpu: RemoteGpu) -> None:
    for iterations in (1_000, 20_000):
        floor, decision = control(gpu, (case_of(fma(iterations)),), options=QUICK)
        print(f"A/A fma {iterations}: sd {floor.sd:.5f} over {floor.pairs} pairs;", floor.between, decision.reason)
        assert floor.between is not None
        assert (floor.pairs, floor.between.captures) in ((12, 4), (30, 10))  # short where it is quiet
        assert 0 < floor.between.sd < 0.005
        assert 0 < floor.between.timer_step < 0.002
        assert decision.verdict is not Verdict.KEEP
        assert floor.sd < 0.02


def test_repeated_a_a_trials_keep_nothing(gpu: RemoteGpu, chip: Chip) -> None:
    kept, pairs = 0, []
    cases = (case_of(fma(1_000)),)
    options = BenchOptions(budget_s=10, warm_up_s=0.1, cold_samples=0)
    for _ in range(12):
        decision = measure(gpu, BenchRequest(child=cases, parent=cases, options=options), chip=chip).decision
        assert decision is not None
        kept += decision.verdict is Verdict.KEEP
        assert decision.evidence is not None
        assert decision.evidence.pairs is not None
        pairs.append(decision.evidence.pairs)
    print("A/A trials: kept", kept, "pairs", pairs)
    assert kept == 0


def test_a_planted_slowdown_is_reverted_and_its_mirror_image_kept(gpu: RemoteGpu, chip: Chip) -> None:
    fast, slow = fma(10_000, name="fast"), fma(11_000, name="slow")
    more = {"c": (inputs(1), inputs(2))}
    request = BenchRequest(child=(case_of(slow),), parent=(case_of(fast),), others=more, options=QUICK)
    reverted = measure(gpu, request, chip=chip).decision
    assert reverted is not None
    print("slowdown:", reverted.verdict, reverted.reason)
    assert reverted.verdict is Verdict.REVERT

    def fresh() -> BenchRequest:
        return BenchRequest(child=(case_of(fast, 5),), parent=(case_of(slow, 5),), options=QUICK)

    request = BenchRequest(child=(case_of(fast),), parent=(case_of(slow),), others=more, options=QUICK)
    before = gpu.starts
    result = measure(gpu, request, chip=chip, fresh=fresh)
    assert result.decision is not None
    print("speed-up:", result.decision.verdict, result.decision.reason, shown(result.child[0].warm), result.clocks)
    assert result.decision.verdict is Verdict.KEEP
    assert result.decision.gain is not None
    assert result.decision.gain.confirmed
    assert 1.07 < result.decision.gain.ratio < 1.12
    assert gpu.starts == before + 1
    assert result.child[0].warm is not None
    assert result.child[0].warm.samples >= 1000


def test_two_cases_decide_together_and_a_losing_one_reverts(gpu: RemoteGpu, chip: Chip) -> None:
    parent = (case_of(fma(8_000, case="a")), case_of(fma(8_000, case="b")))
    child = (case_of(fma(4_000, case="a", name="w")), case_of(fma(8_800, case="b", name="w")))
    decision = measure(gpu, BenchRequest(child=child, parent=parent, options=QUICK), chip=chip).decision
    assert decision is not None
    print("two cases:", decision.reason)
    assert decision.verdict is Verdict.REVERT
    assert (decision.ground, decision.case) == (Ground.CASE_LOSS, "b")


def test_a_kernel_that_trusts_what_it_finds_in_its_output_is_caught(gpu: RemoteGpu, chip: Chip) -> None:
    lazy = program("if (y[i] == y[i]) return; y[i] = x[i] * 3.0f;", name="lazy")
    request = BenchRequest(child=(case_of(lazy),), others={"c": (inputs(1), inputs(2))}, options=QUICK)
    result = measure(gpu, request, chip=chip)
    assert result.divergence is not None
    print("divergence:", result.divergence.message)
    assert result.divergence.kind == "timing_divergence"
    assert result.child == ()


def test_outputs_unlike_the_verified_ones_are_caught(gpu: RemoteGpu, chip: Chip) -> None:
    good = program("y[i] = x[i];", name="good")
    wrong = {"c": {"y": inputs(9)["x"]}}
    result = measure(gpu, BenchRequest(child=(case_of(good),), expected=wrong, options=QUICK), chip=chip)
    assert result.divergence is not None
    right = {"c": {"y": inputs(0)["x"]}}
    result = measure(gpu, BenchRequest(child=(case_of(good),), expected=right, options=QUICK), chip=chip)
    assert result.divergence is None


def test_a_crash_while_timed_is_the_variants(gpu: RemoteGpu, chip: Chip) -> None:
    bad = program("y[i + (1LL << 40)] = x[i];", name="bad")
    with pytest.raises(Crashed, match="illegal memory access in k"):
        measure(gpu, BenchRequest(child=(case_of(bad),), options=QUICK), chip=chip)
    again = measure(gpu, BenchRequest(child=(case_of(fma(1_000)),), options=QUICK), chip=chip)
    assert again.child


def test_library_baselines_are_timed_or_explained(gpu: RemoteGpu, tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(
        "def rivals():\n"
        "    def broken(tensors, case): raise RuntimeError('not on this chip')\n"
        "    return {'add': lambda tensors, case: tensors['x'] + case['K'], 'broken': broken}\n"
    )
    times = gpu.time_library(LibraryCase(folder=str(tmp_path), axes={"K": 2}, inputs=inputs()), QUICK)
    print("library calls:", times)
    add = times["add"]
    assert isinstance(add, LibraryTimes)
    assert add.warm.p50_us < 10
    assert "not on this chip" in str(times["broken"])


def test_attention_baselines(gpu: RemoteGpu) -> None:
    if not (ROOT / "kernels/attention/task.yaml").exists():
        pytest.skip("no attention task here")
    task = load_task(ROOT, "attention")
    case = task.case(task.headline)
    times = gpu.time_library(library_case(load_reference(task), case, 0), QUICK)
    for name, timing in times.items():
        print(f"attention {case.name} {name}:", timing if isinstance(timing, str) else shown(timing.warm))
    assert any(isinstance(timing, LibraryTimes) for timing in times.values())


def test_native_machine_code_loads_as_a_cubin_and_never_meets_ptx(gpu: RemoteGpu, chip: Chip) -> None:
    native = case_of(fma(1_000, name="native", arch=chip.arch))
    result = measure(gpu, BenchRequest(child=(native,), options=QUICK), chip=chip)
    print("native:", result.loaded, shown(result.child[0].warm))
    assert result.loaded == "cubin"
    default = case_of(fma(1_000))
    other = measure(gpu, BenchRequest(child=(default,), options=QUICK), chip=chip).loaded
    assert other == ("cubin" if chip.capability == 89 else "ptx_jit")
    if other != "cubin":
        with refused(HarnessFault, "loaded-differently"):
            measure(gpu, BenchRequest(child=(native,), parent=(default,), options=QUICK), chip=chip)


def test_a_clear_loser_costs_little_and_its_stages_are_told(gpu: RemoteGpu, chip: Chip) -> None:
    fast, slow = fma(1_000, name="fast"), fma(1_500, name="slow")
    request = BenchRequest(child=(case_of(slow),), parent=(case_of(fast),), options=QUICK)
    result = measure(gpu, request, chip=chip)
    print("loser:", {name: round(seconds, 4) for name, seconds in result.stages_s.items()}, "dropped", result.dropped)
    assert result.decision is not None
    assert result.decision.verdict is Verdict.REVERT
    assert result.decision.evidence is not None
    assert result.decision.evidence.pairs == 6
    assert sum(result.stages_s.get(name, 0.0) for name in ("capture", "warm_up", "pairs")) < 0.2
    assert "top_up" not in result.stages_s


def test_clocks_are_read(gpu: RemoteGpu, chip: Chip) -> None:
    same = (case_of(fma(10_000)),)
    result = measure(gpu, BenchRequest(child=same, parent=same, options=QUICK), chip=chip)
    print("clocks:", result.clocks)
    assert result.clocks is not None
    assert isinstance(result.clocks.sm_mhz_median, int)
    columns = {name: value for name, value in result.clocks.to_json().items() if name.startswith("each_")}
    assert {"each_sm_mhz", "each_counted_mhz", "each_power_w", "each_temperature_c"} <= set(columns)
    assert {len(column) for column in columns.values()} == {result.clocks.blocks}
    for counted, read in zip(columns["each_counted_mhz"], columns["each_sm_mhz"], strict=True):
        assert counted == pytest.approx(read, rel=0.1)  # NVML's is a moment's, the counted one is over the block
    assert result.clocks.other_processes in (0, None)  # None in a container


def test_clearing_a_workspace_is_inside_the_timed_sequence(gpu: RemoteGpu, chip: Chip) -> None:
    size = 64 * 2**20
    zero, poison = (
        program("y[i] = s[i] + x[i];", name=init, scratch=Workspace(name="s", size_bytes=size, init=init))
        for init in ("zero", "poison")
    )
    times = [measure(gpu, BenchRequest(child=(case_of(p),), options=QUICK), chip=chip) for p in (zero, poison)]
    cleared, plain = (result.child[0].warm for result in times)
    print("with clearing of 64 MiB:", shown(cleared), "| without:", shown(plain))
    assert cleared is not None
    assert plain is not None
    assert cleared.p50_us - plain.p50_us > size / (2 * chip.dram_bytes_per_s) * 1e6


def test_inputs_kept_in_l2_give_a_time_and_leave_nothing(gpu: RemoteGpu) -> None:
    """A kernel that reads 4 MB: with L2 set aside it is not slower by more than a fifth, and a plain run follows."""
    case = case_of(program("if (i < n) y[i] = x[i] + x[n - 1 - i];", n=1 << 20))
    plain, kept, again = (
        gpu.bench(
            BenchRequest(child=(case,), options=BenchOptions(samples=32, cold_samples=0, l2_persist=persist)),
            time_limit_s=120,
        )
        for persist in (False, True, False)
    )
    times = [found.child[0].warm.p50_us for found in (plain, kept, again)]
    print(f"plain {times[0]:.3f} us, inputs kept in L2 {times[1]:.3f} us, plain again {times[2]:.3f} us")
    assert kept.divergence is None
    assert times[1] < 1.2 * times[0]
    assert times[2] == pytest.approx(times[0], rel=0.1)
