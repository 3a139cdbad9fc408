"""Kernels that leave something out of an adopted original, or of a formula, are refused by the gate's defaults.

Each lie is right on what the original's own program would pass; each original passes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import evo_here

from evo.device import parse_device
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.interop.adopt import Options, adopt
from evo.results import Evaluation, Status
from evo.spec.task import load_task

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

FILES = Path(__file__).parents[1] / "data" / "adopt" / "fourth"
STORE = "residual[blockIdx.x * hidden_size + idx] = ("
LIES = {
    "ten_blocks": ("scan_managed", "sums[i / ELEMS]", "sums[min(i / ELEMS, 130)]"),
    "sums_of_24_bits": ("scan_managed", "int x = temp[ai];", "int x = (temp[ai] << 8) >> 8;"),
    "few_centroids": ("kmeans_assign", "c < k; ++c", "c < min(k, 24); ++c"),
    "nearly_nearest": ("kmeans_assign", "if (d < best)", "if (d < best * 1.001f)"),
    "few_counted": ("kmeans_assign", "atomicAdd(&counts[c], 1);", "if (i < 6000) atomicAdd(&counts[c], 1);"),
    "no_source": ("jacobi_blog", " + h2 * f[IDX(i, j)]", ""),
    "least_byte": ("int8_matvec", "static_cast<int>(x[c])", "max(static_cast<int>(x[c]), -127)"),
    "short_sum": ("int8_matvec", "    int acc = 0;", "    short acc = 0;"),
    "no_epsilon": ("rms_ext", " + epsilon", ""),
    "stale_residual": ("rms_ext", STORE, f"if (x != 0) {STORE}"),
    "far_tail": ("black_scholes", "if (d > 0) cnd", "if (d > 5.0f) cnd = 1e-6f; if (d > 0) cnd"),
    "other_gain": ("stretch_image", "c_gain[c]", "c_gain[in[idx] > 250 && c == 2 ? 1 : c]"),
}
WRAPS = "int b = blockIdx.x;", "int b = blockIdx.x; A -= (b & ~1023) * 256;"  # at the timed size alone
COUNTS = """\
// evo: task counts
// evo: scratch c int32 [B] init=zero
// evo: launch count grid (ceil_div(N, 256)) block (256) args (v, c, N, B)
// evo: launch finish grid (ceil_div(B, 256)) block (256) args (c, h, B)
extern "C" __global__ void count(const unsigned char* v, int* c, int N, int B) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < N && v[i] < B) atomicAdd(&c[v[i]], 1);
}
extern "C" __global__ void finish(const int* c, int* h, int B) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < B) h[i] = c[i];
}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("adopted")
    for name in sorted({"batched_gemm", *(source for source, _, _ in LIES.values())}):
        adopt(made, FILES / f"{name}.cu", Options(name=name))
    return made


@pytest.fixture(scope="module")
def bench():
    with EvaluationSession(parse_device("sim:l4")) as bench:
        yield bench


def check(bench: EvaluationSession, root: Path, name: str, text: str, upto: str = "check") -> Evaluation:
    return evaluate(Job(task=load_task(root, name), text=text, path=f"{name}.cu", seed=11, upto=upto), bench)


@pytest.mark.parametrize("name", sorted({source for source, _, _ in LIES.values()}))
def test_the_original_passes(bench, root, name):
    found = check(bench, root, name, (root / f"{name}.cu").read_text())
    assert found.status.passed, found.reason


@pytest.mark.parametrize("lie", LIES)
def test_what_leaves_something_out_is_wrong(bench, root, lie):
    name, old, new = LIES[lie]
    text = (root / f"{name}.cu").read_text()
    assert old in text
    assert check(bench, root, name, text.replace(old, new)).status is Status.WRONG


def test_what_wraps_beyond_the_check_cases_is_wrong_where_it_is_timed(bench, root):
    text = (root / "batched_gemm.cu").read_text()
    assert WRAPS[0] in text
    assert check(bench, root, "batched_gemm", text, "timed").status.passed
    assert check(bench, root, "batched_gemm", text.replace(*WRAPS), "timed").status is Status.WRONG


def test_of_equal_distances_either_place_is_right(bench, root):
    """A distance in another order of sums differs by a rounding: which of two equal ones is less is chance."""
    text = (root / "kmeans_assign.cu").read_text()
    assert check(bench, root, "kmeans_assign", text.replace("if (d < best)", "if (d <= best)")).status.passed


def test_counts_that_stop_at_a_number_are_wrong_at_timed_sizes(tmp_path):
    """No check case is so long: at timed sizes whole numbers are all equal once."""
    sizes = ("--axis", "N=4096,B=256", "--in", "v:uint8[N]", "--out", "h:int32[B]")
    made = evo_here("new", "counts", *sizes, "--compute", "h = bincount(v, minlength=B)", cwd=tmp_path)
    assert made.code == 0
    for text, code in ((COUNTS, 0), (COUNTS.replace("= c[i]", "= min(c[i], 2047)"), 1)):
        (tmp_path / "counts.cu").write_text(text)
        assert evo_here("check", "counts.cu", "--timed", "--device", "sim:l4", cwd=tmp_path).code == code
