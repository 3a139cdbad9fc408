"""The gate's last step on hardware: compute-sanitizer passes the rungs and names what is wrong with wrong kernels."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from evo.device import RunRequest, parse_device
from evo.evaluate import gate
from evo.evaluate.gate.sanitize import find_sanitizer
from evo.evaluate.pipeline import EvaluationSession
from evo.evaluate.prepare import Prepared
from evo.spec.task import load_task, task_names

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(find_sanitizer() is None, reason="compute-sanitizer is not installed"),
]
ROOT = Path(__file__).parents[2]
RUNGS = [(name, path) for name in task_names(ROOT) for path in load_task(ROOT, name).ladder()]


def label(value: object) -> str:
    return value.stem if isinstance(value, Path) else str(value)


@pytest.fixture(scope="module")
def bench():
    with EvaluationSession(parse_device("gpu:0")) as bench:
        yield bench


def sanitized(bench: EvaluationSession, name: str, path: Path) -> gate.Sanitized:
    task = load_task(ROOT, name)
    prepared = bench.prepare(task, path.read_text(), path=str(path))
    assert isinstance(prepared, Prepared), prepared
    reference = bench.reference(task)
    requests = [RunRequest(program=prepared.programs[c.name], inputs=reference.inputs(c, 5)) for c in task.check]
    started = time.monotonic()
    found = gate.sanitize(requests, bench.device.which)
    print(
        f"{name} {path.stem}: {len(requests)} cases under {len(found.tools)} tools, {time.monotonic() - started:.1f} s"
    )
    return found


@pytest.mark.parametrize(("name", "path"), RUNGS, ids=label)
def test_a_rung_is_clean(bench, name, path):
    found = sanitized(bench, name, path)
    if found.state == "unavailable":
        pytest.skip(str(found.reason))
    assert found.fault is None, f"{found.reason}\n{found.report}"


@pytest.mark.parametrize(
    ("name", "stem", "kinds"),
    [
        ("softmax", "past_end", {"out_of_bounds"}),
        ("matmul", "past_end", {"out_of_bounds"}),
        ("matmul", "race", {"race"}),
        ("rmsnorm", "misaligned", {"misaligned", "out_of_bounds"}),
    ],
)
def test_a_wrong_kernel_is_found(bench, name, stem, kinds):
    found = sanitized(bench, name, ROOT / "kernels" / name / "wrong" / f"{stem}.cu")
    if found.state == "unavailable":
        pytest.skip(str(found.reason))
    assert found.fault is not None, found
    assert found.fault.kind in kinds, found.report
    assert found.fault.kernel == name, found.report
