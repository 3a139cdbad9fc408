"""A reference that hangs or eats memory ends with an error that names it, on any thread."""

import threading
import time
from pathlib import Path

import pytest
from task_folders import task_folder
from tiny import evo_here, new_repository

from evo.errors import TaskInvalid

HANGS = {
    "a loop": "while True: pass",
    "a sleep": "import time; time.sleep(60)",
    "a loop that swallows errors": "while True:\n        try: pass\n        except Exception: pass",
}


@pytest.mark.parametrize("name", HANGS)
def test_a_reference_that_hangs_is_named(tmp_path, name):
    task, reference = task_folder(tmp_path / "t", "x", python=f"def expected(inputs):\n    {HANGS[name]}")
    reference.limit_s = 0.3
    started = time.monotonic()
    with pytest.raises(TaskInvalid) as refused:
        reference.expectation(task.check[0], 1)
    assert time.monotonic() - started < 5
    assert refused.value.problem == "over-limit"
    assert "reference.py: expected()" in refused.value.message


def test_a_hang_on_another_thread_ends_too(tmp_path):
    task, reference = task_folder(tmp_path / "t", "x", python="def expected(inputs):\n    while True: pass")
    reference.limit_s = 0.3
    caught = []

    def call():
        try:
            reference.expectation(task.check[0], 1)
        except TaskInvalid as error:
            caught.append(error.problem)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join(20)
    assert caught == ["over-limit"]


def test_a_hole_in_a_task_is_exit_code_3(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "r")
    yaml = root / "kernels" / "scale" / "task.yaml"
    yaml.write_text(yaml.read_text().replace("atol: 1e-6", "atol: 50"))
    ran = evo_here("check", "kernels/scale/ladder/10_fast.cu", "--device", "sim:l4", cwd=root)
    assert ran.code == 3
    assert "task.yaml: " in ran.err
    assert "hint: " in ran.err
