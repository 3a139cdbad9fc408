"""A judge works on large cases as NumPy does, or not at all."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import fake_judge
import numpy as np
import pytest
from long_cases import long
from task_folders import task_folder

from evo.device.judge import RemoteJudge
from evo.evaluate.gate.compare import compare
from evo.evaluate.judge_fitness import begin_judge, is_of_use, judge_where_asked
from evo.results import Status
from evo.spec.reference import Reference, load_reference
from evo.spec.task import Case, Task, read_task

KERNELS = Path(__file__).parents[3] / "kernels"
LARGE = Case(name="large", axes={"N": 1100, "M": 2048})
SOFTMAX = "np.exp(x - x.max(axis=1, keepdims=True)) / np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1)[:, None]"


@contextmanager
def judge_of(task: Task) -> Iterator[RemoteJudge]:
    judge = RemoteJudge(task, "0", entry=fake_judge.ENTRY)
    try:
        yield judge
    finally:
        judge.close()


@contextmanager
def judged(task: Task, reference: Reference) -> Iterator[Reference]:
    with judge_of(task) as judge:
        reference.coming = begin_judge(reference, judge)
        yield reference


SHIPPED = sorted(path.parent.name for path in KERNELS.glob("*/task.yaml"))


@pytest.mark.parametrize("name", [name if name in ("matmul", "softmax") else long(name) for name in SHIPPED])
def test_shipped_references_run_unchanged(name: str) -> None:
    task = read_task(KERNELS / name)
    reference = load_reference(task)
    with judge_of(task) as judge:
        useful = is_of_use(reference, judge)
        unfit = dict(judge.unfit)
    reference.close()
    assert useful
    assert unfit == {}


def test_a_judge_that_is_closed_is_not_complained_of(tmp_path: Path) -> None:
    task, reference = task_folder(tmp_path / "rows", SOFTMAX)
    told: list[str] = []
    judge = RemoteJudge(task, "0", entry=fake_judge.ENTRY, told=told.append)
    reference.coming = begin_judge(reference, judge)
    assert reference.coming is not None
    assert reference.coming() is judge
    judge.close()
    assert judge.inputs(LARGE.axes, [1]) is None
    reference.close()
    assert told == []


def test_other_processes_that_compile_for_a_judge_end_once_it_is_known_to_be_of_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, reference = task_folder(tmp_path / "rows", SOFTMAX)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    others: list[RemoteJudge] = []
    another = RemoteJudge.another
    monkeypatch.setattr(RemoteJudge, "another", lambda judge: others.append(another(judge)) or others[-1])
    with judged(task, reference):
        assert reference.coming is not None
        assert reference.coming() is not None
        assert others
        for thread in [thread for thread in threading.enumerate() if thread.name == "evo-judge"]:
            thread.join(60)
        assert all(other.inputs(LARGE.axes, [1]) is None for other in others)  # closed


def test_a_judge_for_one_job_at_a_time_is_opened_for_the_first_large_case_and_once(tmp_path: Path) -> None:
    task, reference = task_folder(tmp_path / "rows", SOFTMAX)
    opened: list[RemoteJudge] = []
    judge_where_asked(reference, lambda: opened.append(RemoteJudge(task, "0", entry=fake_judge.ENTRY)) or opened[-1])
    small = Case(name="small", axes={"N": 3, "M": 8})
    assert reference.expectation(small, 5).judged is None
    assert opened == []
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda seed: reference.expectation(LARGE, seed).judged, (5, 6)))
    assert None not in found
    assert len(opened) == 1
    opened[0].close()


def test_a_judge_that_cannot_be_opened_keeps_nobody_waiting(tmp_path: Path) -> None:
    _, reference = task_folder(tmp_path / "rows", SOFTMAX)

    def opened() -> RemoteJudge:
        raise ProcessLookupError

    judge_where_asked(reference, opened)
    with pytest.raises(ProcessLookupError):
        reference.expectation(LARGE, 5)
    assert reference.expectation(LARGE, 5).judged is None
    reference.close()


def outputs_of(reference: Reference, case: Case) -> dict[str, np.ndarray]:
    plain = Reference(reference.task, reference.process)
    found = plain.expectation_of(reference.inputs(case, 5), case)
    return {name: values.astype(np.float16) for name, values in found.expected.items()}


def test_right_and_wrong_outputs_get_numpys_verdict(tmp_path: Path) -> None:
    task, reference = task_folder(tmp_path / "rows", SOFTMAX)
    with judged(task, reference):
        expectation = reference.expectation(LARGE, 5)
        assert expectation.judged is not None
        outputs = outputs_of(reference, LARGE)
        fetched = expectation.fetched()
        right, known = compare(task, "large", outputs, expectation), compare(task, "large", outputs, fetched)
        assert right.status is known.status is Status.CORRECT
        assert right.max_error == pytest.approx(known.max_error)
        assert right.rms_error == pytest.approx(known.rms_error)
        assert right.budget == pytest.approx(known.budget)
        for change in (lambda y: y.__setitem__((700, 11), 1.0), lambda y: y.__setitem__((3, 3), np.nan)):
            wrong = {"y": outputs["y"].copy()}
            change(wrong["y"])
            row = compare(task, "large", wrong, expectation)
            assert row == compare(task, "large", wrong, fetched)
            assert row.status is Status.WRONG


def test_errors_that_lean_are_found(tmp_path: Path) -> None:
    task, reference = task_folder(tmp_path / "rows", "x * 3 + 1")
    with judged(task, reference):
        expectation = reference.expectation(LARGE, 5)
        truth = expectation.fetched().expected["y"]
        truncated = np.asarray(truth.astype(np.float16))
        over = truncated.astype(np.float64) > truth
        truncated[over] = np.nextafter(truncated[over], np.float16(-np.inf))
        row = compare(task, "large", {"y": truncated}, expectation)
        assert row.status is Status.WRONG
        assert row.mismatch is not None
        assert row.mismatch.kind == "bias"


def test_inputs_are_the_same_for_a_seed_and_shared(tmp_path: Path) -> None:
    task, reference = task_folder(tmp_path / "rows", "x * 2")
    with judged(task, reference):
        first = reference.inputs(LARGE, 1)["x"]
        again = Reference(task, reference.process, judge=reference.judge).inputs(LARGE, 1)["x"]
        assert np.array_equal(first, again)
        assert not np.array_equal(first, reference.inputs(LARGE, 2)["x"])
        assert not first.flags.writeable
        assert first.dtype == np.float16
        assert abs(first.astype(np.float64).mean()) < 0.01


@pytest.mark.parametrize(
    ("formula", "unfit"),
    [
        long("x * np.arange(x.shape[1]) + np.random.default_rng(3).random(x.shape[1])", {"expected"}),
        long("np.asarray(x).view(np.ndarray) * 2", set()),
        ("x * (2 if type(x) is np.ndarray else 3)", {"expected"}),
    ],
)
def test_what_the_judge_does_otherwise_stays_with_numpy(tmp_path: Path, formula: str, unfit: set[str]) -> None:
    task, reference = task_folder(tmp_path / "rows", formula)
    with judged(task, reference):
        expectation = reference.expectation(LARGE, 5)
        if unfit:
            assert expectation.judged is None
        plain = Reference(task, reference.process).expectation_of(expectation.inputs, LARGE)
        assert np.allclose(expectation.fetched().expected["y"], plain.expected["y"])


def test_a_judge_that_dies_is_done_without(tmp_path: Path) -> None:
    task, reference = task_folder(
        tmp_path / "rows",
        "x * 2",
        python="def trusted(inputs, case):\n"
        "    if type(inputs['x']) is not np.ndarray and case['N'] > 999:\n"
        "        __import__('os')._exit(3)\n"
        "    return {'y': (inputs['x'].astype(np.float32) * 2).astype(np.float16)}\n",
    )
    with judged(task, reference):
        expectation = reference.expectation(LARGE, 5)
        assert expectation.judged is None
        assert np.array_equal(expectation.expected["y"], expectation.inputs["x"].astype(np.float64) * 2)


def test_a_truth_that_the_judge_dropped_is_worked_out_again(tmp_path: Path) -> None:
    task, reference = task_folder(tmp_path / "rows", "x * 2")
    with judged(task, reference):
        expectation = reference.expectation(LARGE, 5)
        assert expectation.judged is not None
        other = replace(expectation, judged=replace(expectation.judged, key="unknown"))
        assert compare(task, "large", outputs_of(reference, LARGE), other).status is Status.CORRECT
