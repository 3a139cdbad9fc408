"""Cheats that behave while they are checked: caught among the timed launches, and the shipped attacks on a GPU."""

from pathlib import Path

import pytest
from gpu_programs import case_of, inputs, program

from evo.audit.redteam import NaiveHarness, load_attacks, planted_file, run_attack
from evo.device import DeviceName
from evo.device.remote_device import RemoteGpu
from evo.evaluate.measure import BenchOptions, BenchRequest, Measurement, measure
from evo.evaluate.pipeline import EvaluationSession
from evo.spec.chips import CHIPS
from evo.spec.launch import Workspace

pytestmark = pytest.mark.gpu

TASKS = Path(__file__).resolve().parents[2] / "kernels"
SLOTS = 4
COUNT = "int* calls = (int*)s; int call = calls[i]; if (call < 0 || call > 1000000) call = 0; calls[i] = call + 1; "
REMEMBER = """
    unsigned* keys = (unsigned*)s;
    float* kept = s + 4 * n;
    unsigned key = (unsigned)(unsigned long long)x;
    int slot = 0;
    while (slot < 3 && keys[slot * n + i] != key && keys[slot * n + i] != 0xffffffffu) ++slot;
    if (keys[slot * n + i] != key) { kept[slot * n + i] = 2.0f * x[i]; keys[slot * n + i] = key; }
    y[i] = kept[slot * n + i];
"""
CHEATS = {
    "stops after forty launches": COUNT + "if (call >= 40) return; y[i] = 2.0f * x[i];",
    "works on every sixth launch": COUNT + "if (call % 6 != 0) return; y[i] = 2.0f * x[i];",
    "replays its first result": COUNT + "if (call == 0) s[n + i] = 2.0f * x[i]; y[i] = s[n + i];",
    "remembers results by address": REMEMBER,
}


def timed(gpu: RemoteGpu, body: str) -> Measurement:
    elements = 1 << 16
    space = Workspace(name="s", size_bytes=2 * SLOTS * 4 * elements, init="poison")
    case = case_of(program(body, name="cheat", scratch=space))
    options = BenchOptions(budget_s=20, warm_up_s=1.0)
    request = BenchRequest(child=(case,), others={"c": (inputs(1), inputs(2))}, options=options)
    chip = CHIPS[gpu.describe(time_limit_s=60)["chip"]]
    return measure(gpu, request, chip=chip)


@pytest.mark.parametrize("name", CHEATS)
def test_the_timing_audit_catches_what_the_gate_cannot_see(gpu, name):
    found = timed(gpu, CHEATS[name])
    assert found.divergence is not None
    assert found.divergence.kind == "timing_divergence"
    assert found.child == ()


def test_an_honest_use_of_a_workspace_is_timed(gpu):
    found = timed(gpu, "s[i] = 2.0f * x[i]; y[i] = s[i];")
    assert found.divergence is None
    assert found.child[0].warm is not None


@pytest.mark.parametrize("name", ["replay_output_large", "remembered_values", "near_zero_time", "missing_barrier"])
def test_a_shipped_attack_loses_on_a_gpu(gpu, name):
    del gpu  # there is a GPU
    device = DeviceName("gpu", "0")
    attack = next(attack for attack in load_attacks() if attack.name == name)
    with (
        planted_file() as planted,
        EvaluationSession(device) as bench,
        NaiveHarness(device, chip=bench.chip, arch=bench.arch, planted=planted) as naive,
    ):
        outcome = run_attack(attack, TASKS, bench, naive)
    assert outcome.verdict == "lost", f"{outcome.naive}; {outcome.found}"
    assert outcome.as_expected, outcome.found
