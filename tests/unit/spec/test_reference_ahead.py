"""Expectations of large cases are worked out in advance, in further processes."""

from pathlib import Path

import numpy as np
import pytest

from evo.errors import TaskInvalid
from evo.spec.reference import Reference, load_reference
from evo.spec.task import Task, load_task
from evo.spec.tensor_arrays import DrawnInputs

SHIPPED = Path(__file__).parents[3] / "kernels"


@pytest.fixture
def task() -> Task:
    return load_task(SHIPPED.parent, "softmax")


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)


def counted(reference: Reference, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions that the reference's own process is asked for from now on."""
    asked: list[str] = []
    call = type(reference.process).call

    def noted(self, function, args, **more):  # type: ignore[no-untyped-def]
        if self is reference.process:
            asked.append(function)
        return call(self, function, args, **more)

    monkeypatch.setattr(type(reference.process), "call", noted)
    return asked


def test_what_is_worked_out_ahead_is_what_would_be_worked_out_here(
    task: Task, cores: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, other = load_reference(task), load_reference(task)
    asked = counted(other, monkeypatch)
    other.ahead(task.check[:2], 7)
    for case in task.check[:2]:
        mine, found = here.expectation(case, 7), other.expectation(case, 7)
        for name in mine.inputs:
            assert np.array_equal(mine.inputs[name], found.inputs[name])
        for name in mine.expected:
            assert np.array_equal(mine.expected[name], found.expected[name])
        assert other.inputs(case, 7) is found.inputs
    assert asked == []
    for one in (here, other):  # what honest implementations err is drawn from the same
        drawn = one.expectation(task.check[0], 7).honest
        assert drawn is not None
        assert drawn.at_each() is not None
    other.expectation(task.check[0], 8)  # was not begun
    assert "inputs" in asked
    here.close()
    other.close()


def test_a_reference_that_breaks_its_contract_is_told_when_it_is_asked(
    task: Task, cores: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = load_reference(task)
    monkeypatch.setattr(reference.process, "path", tmp_path / "reference.py")
    (tmp_path / "reference.py").write_text(
        "def inputs(case, rng):\n    return 3\n\n\ndef expected(inputs, case):\n    return 3\n"
    )
    reference.ahead(task.check[:1], 7)
    with pytest.raises(TaskInvalid):
        reference.expectation(task.check[0], 7)
    reference.close()


def test_few_cores_work_nothing_out_ahead(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    reference = load_reference(task)
    asked = counted(reference, monkeypatch)
    reference.ahead(task.check[:1], 7)
    reference.expectation(task.check[0], 7)
    assert asked
    reference.close()


def test_the_inputs_of_all_timed_cases_of_a_task_are_drawn_once() -> None:
    """Looks ask for them case after case: held would otherwise be the cases that are not asked for next."""
    for folder in sorted(SHIPPED.glob("*/task.yaml")):
        task = load_task(SHIPPED.parent, folder.parent.name)
        sizes = [sum(tensor.size_bytes(case) for tensor in task.inputs) for case in task.bench]
        held = load_reference(task)._inputs
        for number, size in enumerate(sizes):
            held.put((task.name, number), DrawnInputs.of({}), size)
        assert held.held_bytes == sum(sizes)
