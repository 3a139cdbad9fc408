"""`evo profile` and metric gates from outside, in a temporary repository with one small task."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tiny import BROKEN, FAST, SLOW, TASK_YAML, UNSAFE, evo, fails, new_repository

SIM = ("--device", "sim:l4")
# Column reads of a 32 x 32 tile: all lanes in one bank. The padded twin is free of conflicts.
CONFLICTED = """\
// evo: task   scale
// evo: launch turn grid (ceil_div(N, 1024)) block (32, 32) shared 0
// evo: launch copy grid (ceil_div(N, 1024)) block (1024) shared 0

extern "C" __global__ void turn(const float* x, float* y, int n) {
    __shared__ float tile[32][32];
    const int i = blockIdx.x * 1024 + threadIdx.y * 32 + threadIdx.x;
    tile[threadIdx.y][threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    const float mine = tile[threadIdx.x][threadIdx.y];
    if (i < n) y[i] = mine;
}
extern "C" __global__ void copy(const float* x, float* y, int n) {
    const int i = blockIdx.x * 1024 + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""
READ = 1 + next(n for n, line in enumerate(CONFLICTED.splitlines()) if "const float mine" in line)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = new_repository(tmp_path_factory.mktemp("profile") / "mine")
    (root / "conflicted.cu").write_text(CONFLICTED)
    (root / "padded.cu").write_text(CONFLICTED.replace("tile[32][32]", "tile[32][33]"))
    return root


def test_lines_are_ranked_and_say_what_is_lost(repository: Path) -> None:
    ran = evo("profile", "conflicted.cu", *SIM, "--json", cwd=repository)
    assert ran.code == 0
    shape = ran.json
    assert (shape["status"], shape["profile"], shape["counted_by"]) == ("profiled", "counted", "simulator")
    assert [kernel["name"] for kernel in shape["kernels"]] == ["turn", "copy"]
    turn = shape["kernels"][0]
    # 128 blocks of 32 warps: each stores one row (1 wavefront) and reads one column (32).
    assert turn["counters"]["shared_wavefronts"] == 128 * 32 * (1 + 32)
    assert turn["metrics"]["bank_conflicts"] == 128 * 32 * 31
    assert turn["pipes"]["limiter"] == "lsu"
    assert turn["shared_bytes"] == 4096
    assert turn["occupancy"] == {
        "blocks_per_sm": 1,
        "warps_per_sm": 32,
        "warps_per_sm_limit": 48,
        "limited_by": ["threads"],
        "limits": {"registers": turn["occupancy"]["limits"]["registers"], "shared": 20, "threads": 1, "blocks": 24},
    }
    hottest = shape["lines"][0]
    assert (hottest["kernel"], hottest["line"]) == ("turn", READ)
    assert hottest["source"] == "const float mine = tile[threadIdx.x][threadIdx.y];"
    assert any("31 of 32" in remark and f"line {READ}" in remark for remark in hottest["remarks"])
    for one, two in itertools.pairwise(line for line in shape["lines"] if line["kernel"] == "turn"):
        assert one["share"] >= two["share"]
    (cold,) = [row for row in shape["expected"] if row["metric"] == "cold_bytes"]
    assert cold["expected"] == 2 * 4 * 131072  # x and y, once


def test_people_read_the_same(repository: Path) -> None:
    ran = evo("profile", "conflicted.cu", *SIM, "--case", "even", "--kernel", "turn", cwd=repository)
    assert ran.code == 0
    assert "31 of 32" in ran.out
    assert f"line {READ}" in ran.out
    assert "even, exact" in ran.out
    assert "modelled" in ran.out
    assert "copy" not in ran.out
    clean = evo("profile", "padded.cu", *SIM, "--case", "even", cwd=repository)
    assert "ways lost" not in clean.out


def test_uncoalesced_lines_and_work_done_twice_show(repository: Path) -> None:
    shape = evo("profile", "kernels/scale/ladder/00_slow.cu", *SIM, "--json", cwd=repository).json
    (line,) = [row for row in shape["lines"] if row["metrics"].get("excess_sectors")]
    assert SLOW.splitlines()[line["line"] - 1].strip() == line["source"]
    assert any("32 sectors per request" in remark and "4 would do" in remark for remark in line["remarks"])
    assert shape["kernels"][0]["counters"]["global_sectors"] == 2 * 131072  # each access a sector of its own


def test_static_alone(repository: Path) -> None:
    shape = evo("profile", "padded.cu", *SIM, "--no-count", "--json", cwd=repository).json
    assert shape["profile"] == "unavailable (--no-count)"
    assert "counters" not in shape["kernels"][0]
    assert "counted_by" not in shape
    assert shape["lines"] == []
    assert shape["kernels"][0]["sass"]["LDS"] >= 1


def test_code_that_is_not_inlined_counts_in_the_instruction_mix(repository: Path) -> None:
    helper = "__device__ __noinline__ float twice(float x) { return __sinf(x) * 0.0f + 2.0f * x; }\n"
    text = FAST.replace('extern "C"', f'{helper}extern "C"').replace("2.0f * x[i];", "twice(x[i]);")
    (repository / "called.cu").write_text(text)
    (kernel,) = evo("profile", "called.cu", *SIM, "--no-count", "--json", cwd=repository).json["kernels"]
    assert kernel["sass"]["CALL"] == 1
    assert kernel["sass"]["MUFU"] == 1  # it stands in the called function alone


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["wrong.cu", "--case", "b9"], 2, ["b9", "even, ragged"]),
        (["conflicted.cu", "--kernel", "twist"], 2, ["twist", "turn, copy"]),
        (["nowhere.cu"], 3, ["nowhere.cu"]),
    ],
)
def test_bad_input(repository: Path, arguments: list[str], code: int, words: list[str]) -> None:
    fails(evo("profile", *arguments, cwd=repository), code, *words)


def test_a_variant_that_does_not_compile_or_faults(repository: Path) -> None:
    assert "blockIdx.w" in BROKEN
    broken = evo("profile", "broken.cu", *SIM, "--json", cwd=repository)
    assert (broken.code, broken.json["status"], broken.json["kernels"]) == (1, "uncompiled", [])
    (repository / "unsafe.cu").write_text(UNSAFE)
    unsafe = evo("profile", "unsafe.cu", *SIM, "--case", "ragged", "--json", cwd=repository)
    assert (unsafe.code, unsafe.json["status"]) == (1, "unsafe")
    assert unsafe.json["faults"][0]["kind"] == "out_of_bounds"
    assert unsafe.json["lines"] == []  # half a run's counts would mislead


def test_a_metric_gate_refuses_a_correct_variant(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")
    task = root / "kernels" / "scale" / "task.yaml"
    task.write_text(f"{TASK_YAML}gates: {{coalesced: sectors_per_request <= 4}}\n")
    ran = evo("check", "kernels/scale/ladder/00_slow.cu", *SIM, cwd=root)
    assert ran.code == 1
    assert "refused: gate coalesced: `sectors_per_request <= 4` does not hold" in ran.out
    task.write_text(f"{TASK_YAML}gates: {{coalesced: sectors_per_requests <= 4}}\n")
    fails(evo("check", "kernels/scale/ladder/00_slow.cu", *SIM, cwd=root), 3, "task.yaml:13:", "gates.coalesced")
