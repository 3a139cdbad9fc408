"""The order of runs: distributions, poisons, placements and repeats, on a device that computes in numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest
from task_folders import task_folder

from evo.device import POISON_LARGE, POISON_NAN, RunRequest, RunResult
from evo.evaluate import gate
from evo.results import MismatchKind, Stage, Status
from evo.spec.input_distributions import FLOATS, SPECIAL

NO_LAUNCHES = SimpleNamespace(binary=SimpleNamespace(kernels=()), launches=())
Kernel = Callable[[RunRequest, int], np.ndarray]


@dataclass
class StandIn:
    """A device whose kernel is a Python function of the request and the number of the launch."""

    kernel: Kernel
    more: dict = field(default_factory=dict)
    requests: list[RunRequest] = field(default_factory=list)

    def run(self, request: RunRequest, *, time_limit_s: float) -> RunResult:
        self.requests.append(request)
        outputs = tuple({"y": self.kernel(request, number)} for number in range(request.repeats))
        return replace(RunResult(outputs=outputs, counters={"runs": 1}), **self.more)


def honest(request: RunRequest, _: int = 0) -> np.ndarray:
    return np.tanh(request.inputs["x"].astype(np.float64)).astype(np.float16)


@pytest.fixture
def task(tmp_path):
    return task_folder(tmp_path / "t", "np.tanh(x)", tensor=", specials: true")


def run(task, kernel: Kernel, *, gpu: bool = False, seed: int = 4, **more):
    device, checker = StandIn(kernel, more), StandIn(honest)
    places = gate.GateDevices(checker=checker if gpu else device, target=device if gpu else None)
    names = [case.name for case in (*task[0].check, *task[0].bench)]
    return gate.run_gate(task[0], dict.fromkeys(names, NO_LAUNCHES), task[1], places, seed), device


@pytest.mark.parametrize("gpu", [False, True])
def test_every_distribution_is_run_once(task, gpu):
    check, _ = run(task, honest, gpu=gpu)
    assert check.status is Status.CORRECT, check.reason
    given = [name for row in check.cases for name in row.inputs if name != "drawn"]
    assert sorted(given) == sorted(FLOATS)
    assert check.to_json()["seed"] == 4


def test_the_simulator_runs_a_case_twice_and_the_plain_one_once_more(task):
    _, device = run(task, honest)
    assert len(device.requests) <= 2 * len(task[0].check) + len(FLOATS)
    first, *others = [r for r in device.requests if r.inputs["x"].shape == (64, 96)]
    assert (first.poison, first.offset_bytes, first.check_races) == (POISON_NAN, 0, True)
    assert {(r.poison, r.offset_bytes) for r in others} == {(POISON_LARGE, 16)}
    assert any(np.array_equal(r.inputs["x"], first.inputs["x"]) for r in others)


def test_a_gpu_repeats_ten_times_and_every_case_under_both_poisons(task):
    _, device = run(task, honest, gpu=True)
    drawn = [r for r in device.requests if r.poison == POISON_NAN]
    assert [r.repeats for r in drawn] == [10, 2, 2, 10]  # the first check case, two more, the headline
    moved = [r for r in device.requests if r.poison == POISON_LARGE and r.repeats == 1]
    for first in drawn:
        assert any(r.inputs["x"] is first.inputs["x"] and r.offset_bytes == 16 for r in moved)


def shortcut(wanted: Callable[[np.ndarray], bool], factor: float) -> Kernel:
    """Honest but for inputs of one kind."""

    def kernel(request: RunRequest, _: int) -> np.ndarray:
        x = np.nan_to_num(request.inputs["x"].astype(np.float64))
        return honest(request) * np.float16(factor if wanted(x) else 1)

    return kernel


@pytest.mark.parametrize(
    ("kernel", "under"),
    [
        (shortcut(lambda x: np.abs(x).max() > 500, 0), "large"),
        (shortcut(lambda x: np.abs(x).max() < 2.0**-13, 0), "tiny"),
        (shortcut(lambda x: np.ptp(x) == 0, 1.5), "equal"),
        (shortcut(lambda x: (x > 0).all(), 0.9), "positive"),
        (lambda request, _: np.nan_to_num(honest(request)), SPECIAL),
    ],
)
def test_a_shortcut_for_drawn_inputs_is_refused_under_others(task, kernel, under):
    check, _ = run(task, kernel)
    assert check.status is Status.WRONG
    assert check.stage is Stage.GATE
    assert check.failed.inputs[-1] == under
    again, _ = run(task, kernel, seed=check.seed)
    assert again.reason == check.reason


def test_a_launch_that_differs_is_unstable(task):
    def third_time_other(request, number):
        return honest(request) * np.float16(1 if number < 3 else 1.001)

    check, _ = run(task, third_time_other, gpu=True)
    assert check.status is Status.UNSTABLE
    assert check.mismatch.kind is MismatchKind.UNREPEATABLE


def test_declared_atomics_may_differ_within_the_budget(tmp_path):
    task = task_folder(tmp_path / "t", "np.tanh(x)", more="nondeterministic: atomics")

    def last_bit(request, number):
        values = honest(request)
        values[::2, number] = np.nextafter(values[::2, number], np.float16(0))
        return values

    def far(request, number):
        return honest(request) * np.float16(2 if number > 3 else 1)

    assert run(task, last_bit, gpu=True)[0].status is Status.CORRECT
    assert run(task, far, gpu=True)[0].status is Status.UNSTABLE
    undeclared = task_folder(tmp_path / "u", "np.tanh(x)")
    assert run(undeclared, last_bit, gpu=True)[0].status is Status.UNSTABLE


def test_what_memory_held_before_must_not_matter(task):
    def poison_leaks(request, _):
        values = honest(request)
        if request.poison == POISON_LARGE:
            values[0, 0] = np.nextafter(values[0, 0], np.float16(2))
        return values

    check, _ = run(task, poison_leaks)
    assert check.status is Status.UNSTABLE
    assert (check.mismatch.kind, check.mismatch.index) == (MismatchKind.UNREPEATABLE, (0, 0))


@pytest.mark.parametrize(
    ("more", "words"),
    [({"overwritten": ("x",)}, "input overwritten: x"), ({"broken_guards": ("y",)}, "past the ends of y")],
)
def test_touching_what_is_not_its_own_is_unsafe(task, more, words):
    check, _ = run(task, honest, gpu=True, **more)
    assert check.status is Status.UNSAFE
    assert words in check.reason


def test_unwritten_outputs_are_told_by_the_poison(task):
    def half(request, _):
        values = honest(request)
        values[len(values) // 2 :] = np.frombuffer(bytes([request.poison] * 2), np.float16)[0]
        return values

    check, _ = run(task, half)
    assert check.status is Status.WRONG
    assert check.mismatch.kind is MismatchKind.UNWRITTEN
