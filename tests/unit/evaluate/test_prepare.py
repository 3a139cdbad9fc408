"""What a candidate's text may not do to a run: whatever it is, it comes back prepared or failed, in time."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from long_cases import long
from mutants import MUTATIONS
from tiny import FAST

from evo.evaluate.prepare import Prepared, PrepareFailure, prepare
from evo.results import Status
from evo.spec.chips import chip
from evo.spec.proc_files import memory_limit
from evo.spec.task import Task


def prepared(scale: Task, text: str) -> Prepared | PrepareFailure:
    return prepare(scale, text, chip=chip("l4"), arch="sm_89", path="k.cu")


def test_an_honest_kernel_is_prepared(scale: Task) -> None:
    assert isinstance(prepared(scale, FAST), Prepared)


@pytest.mark.parametrize(
    ("define", "words"),
    [
        ("#define n n, int extra", "takes 4 parameters as compiled"),
        ("#define int long long", "parameter 3"),
    ],
)
def test_a_macro_that_changes_the_parameters_is_its_own_failure(scale: Task, define: str, words: str) -> None:
    text = FAST.replace("#define THREADS 128\n", f"#define THREADS 128\n{define}\n")
    found = prepared(scale, text.replace("const int i =", "const auto i =").replace("i < n", "i < 7"))
    assert isinstance(found, PrepareFailure)
    assert found.status is Status.REFUSED
    assert words in found.reason


@pytest.mark.parametrize("size", [str(memory_limit()), "1 << 40"])
def test_more_scratch_than_the_machine_has_is_its_own_failure(scale: Task, size: str) -> None:
    text = FAST.replace("// evo: launch", f"// evo: scratch room float32 [{size}]\n// evo: launch")
    found = prepared(scale, text.replace("float* y, int n", "float* y, float* room, int n"))
    assert isinstance(found, PrepareFailure)
    assert found.status is Status.REFUSED


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [0, *(long(seed) for seed in (1, 2))])
def test_a_careless_or_hostile_text_fails_and_no_more(scale: Task, seed: int) -> None:
    """Once every kind of damage per seed: no exception, no hang, no reason longer than a screen."""
    started, kinds = time.monotonic(), 0
    for made in random.Random(seed).sample(MUTATIONS, len(MUTATIONS) // 3):
        rng = random.Random(f"{seed}/{made.__name__}")
        found = prepared(scale, made(rng, FAST))
        kinds += 1
        if isinstance(found, PrepareFailure):
            assert found.status not in (Status.CORRECT, Status.MEASURED), made.__name__
            assert 0 < len(found.reason) < 1100, made.__name__
    assert kinds > 5
    assert time.monotonic() - started < 280


def test_no_such_file_is_read(scale: Task, tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("#error found it\n")
    found = prepared(scale, FAST.replace("extern", f'#include "{secret}"\nextern', 1))
    assert isinstance(found, PrepareFailure)
    assert "found it" not in found.reason


SWAPPED = """\
// evo: task   scale
// evo: launch scale grid (ceil_div(N, 128)) block (128) args (N, y, x, 2 * 0.5, N // 2)
extern "C" __global__ void scale(size_t n, float* y, const float* x, float a, unsigned half) {
    const size_t i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) y[i] = a * 2.0f * x[i] + (half > n ? 1.0f : 0.0f);
}
"""


def test_a_launch_lines_arguments_are_bound_by_name_in_the_parameters_types(scale: Task) -> None:
    found = prepared(scale, SWAPPED)
    assert isinstance(found, Prepared)
    (bound,) = found.programs["ragged"].launches
    assert [(a.name, a.dtype, a.value) for a in bound.arguments] == [
        ("N", "uint64", 77),
        ("y", "float32", None),
        ("x", "float32", None),
        ("2 * 0.5", "float32", 1.0),
        ("N // 2", "uint32", 38),
    ]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("N, y, x, 1", "takes 5 parameters"),
        ("y, N, x, 1, N", "passes the tensor y"),
        ("N, N, x, 1, N", "passes the value N"),
        ("N, y, x, M, N", "names M"),
        ("N, y, x, 1, N // 0", "division"),
    ],
)
def test_arguments_that_do_not_fit_the_parameters_are_named(scale: Task, args: str, words: str) -> None:
    found = prepared(scale, SWAPPED.replace("N, y, x, 2 * 0.5, N // 2", args))
    assert isinstance(found, PrepareFailure)
    assert found.status is Status.REFUSED
    assert words in found.reason
