"""The first look at many variants, with a stand-in for the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny import BROKEN, FAST, SLOW, UNSAFE, WRONG, write_task

from evo.device import DeviceName
from evo.errors import UsageError
from evo.evaluate.screening import screen_all, screened_gains
from evo.evaluate.session import EvaluationSession
from evo.results import Status
from evo.spec.task import Task, load_task


@pytest.fixture(scope="module")
def gpu() -> Iterator[EvaluationSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "support"))
        with EvaluationSession(DeviceName("gpu", "0"), arch="native", opener="stand_in_gpu:StandInGpu") as bench:
            yield bench


def test_each_variant_gets_its_time_or_the_reason_it_has_none(scale: Task, gpu: EvaluationSession) -> None:
    texts = [SLOW, WRONG, FAST, BROKEN, UNSAFE]
    found = list(screen_all(scale, texts, gpu, case=scale.case("ragged")))
    assert [row.status for row in found] == [
        Status.MEASURED,
        Status.WRONG,
        Status.MEASURED,
        Status.UNCOMPILED,
        Status.UNSAFE,
    ]
    assert [row.p50_us for row in found] == [32.0, None, 128.0, None, None]
    assert all(row.reason for row in found if row.p50_us is None)
    assert len({row.variant for row in found if row.variant}) >= 4
    assert set(found[0].stages_s) == {"compile", "check", "bench"}


def test_gains_are_over_the_parent_and_absent_where_there_is_no_time(scale: Task, gpu: EvaluationSession) -> None:
    headline = [row.p50_us for row in screen_all(scale, [SLOW, FAST], gpu)]
    assert headline[0] is not None
    assert headline[1] is not None
    expected = headline[0] / headline[1]
    assert screened_gains(gpu, scale, SLOW, [FAST, BROKEN, WRONG, SLOW], 0) == [expected, None, None, 1.0]
    assert screened_gains(gpu, scale, BROKEN, [FAST], 0) == [None]


def test_texts_are_taken_as_they_are_needed(scale: Task, gpu: EvaluationSession) -> None:
    drawn = 0

    def endless() -> Iterator[str]:
        nonlocal drawn
        while True:
            drawn += 1
            yield FAST

    looks = screen_all(scale, endless(), gpu, case=scale.case("ragged"))
    assert next(looks).status is Status.MEASURED
    looks.close()
    assert drawn < 20


def test_a_first_look_needs_a_gpu(scale: Task) -> None:
    with EvaluationSession(DeviceName("sim", "l4")) as bench, pytest.raises(UsageError, match="needs a GPU"):
        next(screen_all(scale, [FAST], bench))


LARGE = """\
// Blocks of 64 threads; at large sizes of as many as its launch line says.
// evo: task   scale
// evo: launch scale grid (64) block ({block}) shared 0
extern "C" __global__ void scale(const float* x, float* y, int n) {{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = 2.0f * x[i];
}}
"""


def of_four_sizes(tmp_path: Path) -> Task:
    write_task(tmp_path)
    described = tmp_path / "kernels" / "scale" / "task.yaml"
    text = described.read_text(encoding="utf-8")
    cases = "  small: {N: 8192}\n  double: {N: 16384}\n  large: {N: 65536}\n  huge: {N: 131072}\nheadline: small\n"
    described.write_text(text.replace("  small: {N: 131072}\n", cases), encoding="utf-8")
    return load_task(tmp_path, "scale")


def test_a_gain_that_only_a_larger_case_has_is_seen(tmp_path: Path, gpu: EvaluationSession) -> None:
    task = of_four_sizes(tmp_path)
    parent, *texts = (
        LARGE.format(block=block)
        for block in (
            "64",
            "64 * 8192 // N",
            "64 * N // 8192",
            "ceil_div(16 * N, 8192)",
            "ceil_div(2097152, N)",
            "64 if N < 131072 else 32",
        )
    )
    gains = screened_gains(gpu, task, parent, texts, 0)  # the stand-in takes a microsecond for each thread of a block
    assert gains[0] == pytest.approx(8**0.5)  # as fast at the headline, 8 times as fast at `large`
    assert gains[1] == pytest.approx(1 / 8)  # slower there, which is the answer by itself
    assert gains[2] == pytest.approx(0.5)  # four times as fast at the headline, half as fast at `large`
    assert gains[3] == pytest.approx(0.25)  # what loses at the headline is looked at there alone
    assert gains[4] == pytest.approx(2 ** (1 / 3))  # what is the parent's at both is looked at where the most is to do


def test_what_is_close_is_told_apart_where_the_most_is_to_do(tmp_path: Path, gpu: EvaluationSession) -> None:
    task = of_four_sizes(tmp_path)
    blocks = ("512", "64 if N < 131072 else 128", "64", "60 if N < 131072 else 480", "128")
    parent, *texts = (LARGE.format(block=block) for block in blocks)
    gains = screened_gains(gpu, task, parent, texts, 0)
    assert gains[0] == pytest.approx(8 * 0.5 ** (1 / 3))  # half as fast there as the next
    assert gains[1] == pytest.approx(8)
    assert gains[2] == pytest.approx(512 / 60 * (64 / 480) ** (1 / 3))  # the best of the first looks
    assert gains[3] == pytest.approx(4)  # too far behind to be looked at there


ONE_WRONG = FAST.replace("y[i] = 2.0f * x[i]", "y[i] = i % 7 == 3 ? 3.0f * x[i] : 2.0f * x[i]")


def test_large_outputs_are_compared_at_some_places(scale: Task, gpu: EvaluationSession) -> None:
    assert [row.status for row in screen_all(scale, [FAST, ONE_WRONG, WRONG], gpu)] == [
        Status.MEASURED,
        Status.WRONG,
        Status.WRONG,
    ]
