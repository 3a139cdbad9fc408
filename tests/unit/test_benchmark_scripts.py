"""The benchmark scripts' own logic, with a simulated sampler where a GPU would be."""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from long_cases import long

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "clock")]

import dataset  # noqa: E402
import decisions  # noqa: E402
import judge  # noqa: E402
import loop as loop_benchmark  # noqa: E402
import peak  # noqa: E402
import peer_extension  # noqa: E402
import peer_kernel_tuner  # noqa: E402
import public  # noqa: E402
import report  # noqa: E402
import rule_evidence  # noqa: E402
import throughput  # noqa: E402
from recorder import Recorder  # noqa: E402

from evo.decide.sequential import CaptureScatter, NoiseFloor, Sequential  # noqa: E402
from evo.device.timing_types import BenchRequest, BenchResult, timing_of  # noqa: E402
from evo.evaluate.screening import ScreeningResult  # noqa: E402
from evo.operators import RULES  # noqa: E402
from evo.results import (  # noqa: E402
    CaseBench,
    Rate,
    Status,
    Verdict,
)
from evo.spec.chips import chip  # noqa: E402
from evo.spec.task import load_task  # noqa: E402
from evo.spec.variant import parse_variant  # noqa: E402

FIXED_US, EACH_US = 1.7, 0.035


class SimulatedSampler:
    """A GPU whose times are a line in the trips, with noise on each block and a difference that each capture has."""

    def __init__(self, *, noise: float = 0.0006, bias: float = 0.0, between: float = 0.0004, seed: int = 1) -> None:
        self.noise, self.bias, self.between, self.random = noise, bias, between, random.Random(seed)
        self.fresh = 0

    def recycle(self) -> None:
        self.fresh += 1

    def reserved(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def bench(self, request: BenchRequest, *, time_limit_s: float) -> BenchResult:
        assert time_limit_s > 0
        if not request.parent:
            return BenchResult(child=self._rows(request.child, request))
        stop = Sequential({case.program.case: 1.0 for case in request.child}, request.options.rule)
        pairs: list[dict[str, float]] = []
        captures: list[int] = []
        each = math.ceil(request.options.rule.max_pairs / request.options.captures)
        while len(pairs) < request.options.rule.max_pairs:
            if len(pairs) % each == 0:
                shift = self.random.gauss(0, self.between) - self.bias
            both = zip(request.child, request.parent, strict=True)
            captures.append(len(pairs) // each)
            pairs.append({c.program.case: math.log(self._block(c) / self._block(p)) + shift for c, p in both})
            if stop.add(pairs[-1]) is not None:
                break
        child, parent = self._rows(request.child, request), self._rows(request.parent, request)
        samples = {row.name: np.full(4, row.time_us, np.float32) for row in child}
        return BenchResult(
            child=child, parent=parent, pairs=tuple(pairs), captures=tuple(captures), samples=samples, timer_step=1e-5
        )

    def _block(self, case: Any) -> float:
        trips = int(case.program.variant.rpartition("-")[2])
        return (FIXED_US + trips * EACH_US) * math.exp(self.random.gauss(0, self.noise))

    def _rows(self, cases: Any, request: BenchRequest) -> tuple[CaseBench, ...]:
        def row(case: Any) -> CaseBench:
            warm = timing_of([self._block(case) for _ in range(max(request.options.samples, 8))])
            cold = timing_of([1.3 * self._block(case)]) if request.options.cold_samples else None
            return CaseBench(name=case.program.case, warm=warm, cold=cold)

        return tuple(row(case) for case in cases)


def run(sampler: SimulatedSampler, *, quick: bool = True, seconds: float = 600.0) -> tuple[dict[str, Any], bool]:
    recorder = Recorder(cast(Any, sampler))
    clock = report.Clock(seconds)
    return decisions.trial_run(recorder, chip("l4"), "sm_89", [], quick=quick, clock=clock, seed=3)


def met(figures: dict[str, Any]) -> dict[str, bool | None]:
    return {row["aim"]: row["met"] for row in figures["aims"]}


@pytest.mark.long
def test_an_honest_sampler_meets_every_aim(capsys: pytest.CaptureFixture[str]) -> None:
    sampler = SimulatedSampler()
    figures, good = run(sampler)
    shown = capsys.readouterr().out
    assert good, shown
    assert figures["line"]["each_us"] == pytest.approx(EACH_US, rel=0.01)
    assert figures["line"]["fixed_us"] == pytest.approx(FIXED_US, abs=0.1)
    kept = [trial for trial in figures["trials"] if trial["verdict"] == "keep"]
    assert {trial["share"] for trial in kept} == {4, 6, 10}
    assert all(trial["stages"] == 2 for trial in kept)
    assert sampler.fresh == len(kept)
    assert "A/A" in shown
    assert "10 % speed-up" in shown
    assert json.dumps(figures)


def test_coverage_is_that_of_the_records_and_says_what_pairs_alone_would_have_covered() -> None:
    figures, _ = run(SimulatedSampler(noise=0.0001, between=0.001))
    trials = figures["trials"]
    assert sum(trial["covered95"] for trial in trials) >= 0.9 * len(trials)
    assert sum(trial["alone95"] for trial in trials) < 0.5 * len(trials)
    between = next(iter(figures["controls"].values()))["between_captures"]
    assert between["captures"] == 4  # the short control: it is quiet
    assert between["sd"] == pytest.approx(0.001, rel=0.6)
    assert all(trial["half_width"] > between["sd"] for trial in trials)


def test_a_sampler_that_flatters_the_child_is_found_out() -> None:
    figures, good = run(SimulatedSampler(bias=0.04))
    assert not good
    aims = met(figures)
    assert aims["no A/A trial kept"] is False
    assert aims["every gain of 2 % reverted"] is False
    # The control sees the bias too, and a ratio of 1 has no business outside the intervals that it widens.
    assert min(trial["half_width"] for trial in figures["trials"]) > 0.04


def test_a_run_that_is_cut_short_claims_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    figures, good = run(SimulatedSampler(), seconds=0.0)
    assert not good
    assert figures["trials"] == []
    assert all(value is None for value in met(figures).values())
    assert "not measured" in capsys.readouterr().out


def test_the_full_plan_is_two_hundred_a_a_trials_and_a_hundred_planted_ones() -> None:
    line = decisions.Line(FIXED_US, EACH_US, 0.0)
    bases = [decisions.whole_trips(line, wanted) for wanted in decisions.BASES_US]
    subjects, floors = [decisions.work_subject(bases[0], "sm_89")], [NoiseFloor(sd=0.001, pairs=30)]
    trials = decisions.planned(subjects, floors, bases, line, "sm_89", tenth=False, seed=0)
    planted = [trial for trial in trials if trial.share is not None]
    assert (len(trials) - len(planted), len(planted)) == (200, 100)
    for trial in planted:
        more = 1 + abs(trial.share or 0) / 100
        assert 1 < trial.truth ** math.copysign(1, trial.share or 0) < more  # the fixed part takes its share
        assert all(base % decisions.STEP == 0 for base in bases)


def test_the_interval_is_absent_with_too_few_pairs() -> None:
    pairs = [{"c": 0.001 * i} for i in range(6)]
    assert decisions.covers(pairs, math.exp(-0.0025), 0.05) is True
    assert decisions.covers(pairs, 1.5, 0.05) is False
    assert decisions.covers(pairs, 1.0, 0.01) is None
    assert decisions.covers(pairs, 1.001, 0.05) is False
    assert decisions.covers(pairs, 1.001, 0.05, CaptureScatter(sd=0.002, captures=10)) is True
    assert decisions.covers(pairs, 1.001, 0.05, unsure=0.004) is True


def test_what_a_calibration_leaves_open_of_a_ratio() -> None:
    rng = np.random.default_rng(2)
    points = [(n, (FIXED_US + EACH_US * n) * math.exp(rng.normal(0, 2e-4))) for n in range(700, 1300, 75)]
    line = decisions.fitted(points)
    assert 0.5e-4 < line.scatter < 4e-4
    assert line.uncertainty(0.05) == pytest.approx(2.447 * line.scatter * math.sqrt(2), rel=1e-3)
    assert decisions.fitted([(500, 19.2), (1000, 36.7)]).uncertainty(0.05) == 0.0


def test_peak_puts_measured_rates_beside_the_table() -> None:
    row = chip("l4")
    rate = Rate(value=row.dram_bytes_per_s * 0.9, unit="B/s", condition="copy")
    power = Rate(value=70.0, unit="W", condition="NVML")
    (copy, watts) = peak.rows({"sm_89": {"dram_copy_bytes_per_s": rate, "power_w": power}}, row)
    assert copy[1] == "GB/s"
    assert copy[-1] == "0.90"
    assert watts == ["power_w", "W", "70", None, None]
    assert report.table(["a", "b"], [["x", None]]).splitlines()[1].split() == ["x", "-"]


def test_a_json_file_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(report.UsageError, match="cannot be written"):
        report.write_json(tmp_path / "no" / "such.json", {})


@pytest.mark.parametrize("name", ["peak", *(long(name) for name in ("decisions", "throughput"))])
def test_without_a_gpu_a_script_says_so_and_exits_4(name: str) -> None:
    if report.gpu_present():
        pytest.skip("this machine has one")
    script = str(ROOT / "benchmarks" / f"{name}.py")
    done = subprocess.run([sys.executable, script, "--quick"], capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert "error: no GPU 0" in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("script", sorted((ROOT / "benchmarks").rglob("*.py")), ids=lambda path: path.stem)
def test_what_a_script_imports_of_evo_is_there(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "evo":
            room = importlib.import_module(node.module)
            for name in (alias.name for alias in node.names if not hasattr(room, alias.name)):
                importlib.import_module(f"{node.module}.{name}")


def test_outcomes_are_counted_by_kind() -> None:
    subject = decisions.work_subject(900, "sm_89")
    common: dict[str, Any] = {"reason": "", "pairs": 6, "stages": 1, "dropped": 0, "elapsed_s": 0.1, "ratio": 1.0}
    covered: dict[str, Any] = {"covered95": True, "covered99": None, "strict95": False, "alone95": None}
    covered["half_width"] = 0.0004
    trial = decisions.Trial(subject, subject, -2, 0.98)
    rows = [decisions.Outcome(trial=trial, verdict=Verdict.REVERT, **common, **covered)]
    text = decisions.summary(rows)
    assert "2 % slowdown" in text
    assert "1/1" in text
    assert "0/1" in text
    assert "0.040 %" in text


def swept(
    name: str, wall_s: float, ratio: float, gpu_s: float, verdict: Verdict = Verdict.REVERT
) -> throughput.Candidate:
    return throughput.Candidate(
        name=name,
        status="measured",
        verdict=verdict.value,
        ratio=ratio,
        pairs=6,
        wall_s=wall_s,
        latency_s=2 * wall_s,
        gpu_s={"run": gpu_s / 2, "bench": gpu_s / 2},
        calls_s={"run": gpu_s, "bench": gpu_s},
        stages_s={"compile": 0.2, "bench": gpu_s / 2},
    )


FIGURES: dict[str, Any] = {
    "sweep": [swept("a", 0.5, 0.8, 0.1), swept("b", 0.7, 0.99, 0.3), swept("c", 0.6, 1.1, 0.4, Verdict.KEEP)],
    "extensions": [{"process_s": 42.0}, {"error": "no nvcc"}],
    "screening_s": 0.08,
    "kernel_tuner_s": 0.14,
}


def test_the_recorder_adds_up_how_long_the_gpu_was_held() -> None:
    class Held:
        def bench(self, request: BenchRequest, *, time_limit_s: float) -> BenchResult:
            return BenchResult(child=(), held_s=0.25)

    recorder = Recorder(cast(Any, Held()))
    for _ in range(2):
        recorder.bench(BenchRequest(child=()), time_limit_s=1.0)
    assert recorder.held_s == {"bench": 0.5}
    assert recorder.seconds["bench"] < 0.25
    recorder.clear()
    assert recorder.held_s == {}


def test_throughput_aims_are_read_off_the_figures() -> None:
    assert [met for _, met, _ in throughput.aims(FIGURES)] == [True, True, True, True]
    slow = FIGURES | {"sweep": [swept("a", 1.5, 0.8, 0.3)], "screening_s": 0.2}
    assert [met for _, met, _ in throughput.aims(slow)] == [False, False, False, False]
    bare = FIGURES | {"extensions": [{"error": "no nvcc"}], "kernel_tuner_s": None}
    assert [met for _, met, _ in throughput.aims(bare)] == [True, True, None, None]
    text = throughput.sweep_report(FIGURES["sweep"])
    assert "0.600 / 0.680" in text
    assert "clear losers, 1.1x and slower" in text


def test_a_peer_that_cannot_run_says_why_beside_the_table() -> None:
    looks = [
        ScreeningResult(
            variant="v", status=Status.MEASURED, p50_us=80.0, stages_s={"compile": 0.1, "check": 0.0, "bench": 0.1}
        )
    ]
    assert "no driver" in throughput.screening_report(looks, 0.2, {"error": "no driver"})
    parts = {"compile": 0.1, "verification": 0.01, "benchmark": 0.02}
    tuner = {"configurations": 1, "timed": 1, "wall_s": 0.15, "parts_s": [parts], "best_us": 81.0}
    assert "0.150" in throughput.screening_report(looks, 0.2, tuner)
    assert "no nvcc" in throughput.extension_report([{"error": "no nvcc"}])


def test_a_knob_space_holds_what_its_requires_and_the_chip_allow() -> None:
    task = throughput.narrowed(load_task(ROOT, "attention"), ("b2", "b4"))
    assert [case.name for case in task.bench] == ["b2", "b4"]
    text = (task.folder / "ladder" / "40_mma.cu").read_text()
    cases = (*task.check, *task.bench)
    large = throughput.knob_space(task, text, cases, chip("h200"))
    small = throughput.knob_space(task, text, cases, chip("l4"))
    assert 0 < len(small) < len(large) < 48
    assert len(throughput.drawn(large, 24, 1)) == 24
    assert {tuple(s.items()) for s in small} < {tuple(s.items()) for s in large}


def test_the_peers_get_the_same_kernel_text() -> None:
    attention = (ROOT / "kernels/attention/ladder/40_mma.cu").read_text()
    source = peer_extension.extension_source(attention, 64)
    assert attention in source
    assert source.index("torch/extension.h") < source.index("#define D 64") < source.index("__global__")
    assert peer_extension.axes_of("B=2,HQ=8") == {"B": 2, "HQ": 8}
    matmul = (ROOT / "kernels/matmul/ladder/20_register.cu").read_text()
    knobs = list(parse_variant(matmul).knob_values)
    bare = peer_kernel_tuner.tunable_source(matmul, knobs)
    assert "// evo:" not in bare
    assert "#define" not in bare
    assert "constexpr int SIDE = BLOCK / PATCH" in bare


def test_kernel_tuners_space_is_the_configurations_asked_for() -> None:
    asked = [{"BLOCK": 32, "PATCH": 4}, {"BLOCK": 64, "PATCH": 8}]
    parameters, legal = peer_kernel_tuner.space(asked)
    assert parameters == {"BLOCK": [32, 64], "PATCH": [4, 8], "block_size_x": [64]}
    assert legal({"BLOCK": 32, "PATCH": 4, "block_size_x": 64})
    assert not legal({"BLOCK": 64, "PATCH": 4, "block_size_x": 64})


def test_a_peer_script_that_fails_gives_its_last_words() -> None:
    failed = throughput.peer(["-c", "raise SystemExit('no such thing')"], {}, None)
    assert failed["error"] == "no such thing"
    good = throughput.peer(["-c", "print('x'); print('{\"a\": 1}')"], {}, None)
    assert good["a"] == 1
    assert good["process_s"] > 0


# --- the loop that people run


def test_the_row_of_a_run_has_every_column_and_its_waits_fill_the_clock() -> None:
    def line(at_s: float, **more: Any) -> dict[str, Any]:
        return {"at_s": at_s, "trial": 1, "status": "measured", "variant": f"v{at_s:g}", **more}

    def look(variant: str, **more: Any) -> dict[str, Any]:
        return {"variant": variant, "elapsed_s": 0.25, **more}

    done = {"done": True, "elapsed_s": 11.0, "start": {"a": {"warm": {"p50_us": 8.0}}}, "at_s": 12.0}
    done |= {"end": {"a": {"warm": {"p50_us": 2.0}}}, "waits_s": {"bench": 6.0, "A/A control": 1.5, "open": 3.5}}
    lines = [line(5.0), line(6.0, decision="revert"), line(9.0, decision="keep"), done]
    seen = loop_benchmark.Watched()
    seen.see(os.getpid(), {os.getpid(): loop_benchmark.resident_bytes(os.getpid())})
    looks = [look("v9", ratio=2.0), look("slower", ratio=0.9), look("same", ratio=1.0), look("failed")]
    ran = {"task": "t", "exit": 0, "wall_s": 12.0, "lines": lines, "looks": looks, "stages_s": {}, "gpu_busy": 0.5}
    ran |= {"driver_bytes": seen.driver, "all_bytes": seen.everything}
    row = loop_benchmark.figures(ran | {"in_driver": seen.in_driver, "by_process": seen.by_process})
    assert (row["start_s"], row["control_s"], row["kept_s"]) == (5.0, 1.5, 3.0)
    assert (row["rejected_s"], row["rejected_in_full_s"]) == (0.25, 1.0)
    assert (row["edits"], row["valid"], row["edit_s"]) == (5, 0.8, 1.4)
    assert sum(row["waits_s"].values()) == pytest.approx(row["wall_s"])
    assert sum(row["in_driver"].values()) == pytest.approx(seen.driver, rel=0.2)
    assert row["by_process"] == {"driver": seen.everything}
    assert len(loop_benchmark.shown(row)) == len(loop_benchmark.HEAD)
    clock, *_ = loop_benchmark.below(row)
    assert clock == "t: bench 6.0, open 3.5, A/A control 1.5, process 1.0 s; 100% of the clock"
    row |= {"driver_gb": 0.5, "all_gb": 2.0}  # this process may hold more than a driver should
    assert sum("MISSED" in each for each in loop_benchmark.aims([row])) == 1  # one of five edits failed


# --- the evidence for rules


def test_every_rule_has_its_row_of_evidence_and_no_other_has_one() -> None:
    rows = json.loads(rule_evidence.OUT.read_text(encoding="utf-8"))["rules"]
    missing = [rule.name for rule in RULES if rule.name not in rows]
    assert not missing, f"python benchmarks/rule_evidence.py --rules {','.join(missing)}"
    assert not rows.keys() - {rule.name for rule in RULES}, "rows of rules that are gone"


@pytest.mark.long
def test_the_evidence_counts_what_a_rule_does_to_a_kernel(tmp_path: Path) -> None:
    out = tmp_path / "evidence.json"
    asked = ["--only", "transpose_shared", "--rules", "row_pad,compile_in,lone_walks", "--most", "1", "--out", str(out)]
    assert rule_evidence.main(asked) == 0
    rows = json.loads(out.read_text(encoding="utf-8"))["rules"]
    assert rows.keys() == {"row_pad", "compile_in", "lone_walks"}
    assert rows["row_pad"]["gains"] == rows["row_pad"]["correct"] == 1  # it takes the bank conflicts away
    assert rows["row_pad"]["best"] > 1.2
    assert rows["row_pad"]["where"] == ["transpose/transpose_shared.cu"]
    assert (rows["compile_in"]["kernels"], rows["compile_in"]["gains"]) == (1, 0)
    assert rows["lone_walks"]["kernels"] == 0


def test_the_present_clock_reads_what_was_counted_for_it() -> None:
    """The data hold what launches ask of a chip; a change to that would otherwise be noticed by nobody."""
    rows = [row for row in dataset.read() if row.family in ("pool2d", "others/rmsnorm_while@rows2k")]
    assert {name: len(of) for name, of in dataset.by_family(rows).items()}.keys() == {row.family for row in rows}
    modelled = np.array([row.modelled(dataset.H200)[0] for row in rows if row.family == "pool2d"])
    found = judge.judged("pool2d", [row for row in rows if row.family == "pool2d"], modelled, None)
    assert found.variants == len(modelled) > 20
    assert found.told_10 > 0.9
    needed = {"unit_passes", "load_misses"}
    assert all(needed <= work.extra.keys() for row in rows for work in row.works)
    assert "nan" not in public.public()
