"""A reference that hangs or eats memory ends with an error that names it, on any thread."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from task_folders import task_folder
from tiny import evo_here, new_repository

from evo.errors import TaskInvalid
from evo.spec.deadline import Deadline, DeadlineExceeded

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


def test_memory_has_a_limit():
    with pytest.raises(DeadlineExceeded, match="GiB of memory"), Deadline(20, memory_bytes=1):
        time.sleep(20)


def test_a_call_in_time_is_left_alone():
    with Deadline(5):
        value = sum(range(1000))
    assert value == 499500
    time.sleep(0)
    assert not [t for t in threading.enumerate() if t.name == "evo-deadline"]


def test_code_that_cannot_be_interrupted_ends_the_process():
    code = (
        "import evo.spec.deadline, signal, time\n"
        "evo.spec.deadline.GRACE_S = 1.0\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})\n"
        "with evo.spec.deadline.Deadline(0.2): time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith("error: ")
    assert "reference" in done.stderr
    assert "hint: " in done.stderr


def test_a_hole_in_a_task_is_exit_code_3(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "r")
    yaml = root / "kernels" / "scale" / "task.yaml"
    yaml.write_text(yaml.read_text().replace("atol: 1e-6", "atol: 50"))
    ran = evo_here("check", "kernels/scale/ladder/10_fast.cu", "--device", "sim:l4", cwd=root)
    assert ran.code == 3
    assert "task.yaml: " in ran.err
    assert "hint: " in ran.err
