"""A reference.py that leaves, hangs, eats memory or closes its files: told with the file's name."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
from process_ends import is_alive, is_gone
from refusals import refused
from tiny import write_task

from evo.errors import TaskInvalid
from evo.spec.array_message import packed, unpacked
from evo.spec.connection import Connection
from evo.spec.reference import Reference, load_reference
from evo.spec.reference_process import ReferenceProcess
from evo.spec.task import load_task

GOOD = """
import numpy as np
def inputs(case, rng): return {"x": rng.standard_normal(case["N"]).astype(np.float32)}
def expected(inputs, case): return {"y": inputs["x"].astype(np.float64) * 2}
"""


def reference(folder: Path, code: str) -> Reference:
    write_task(folder)
    (folder / "kernels/scale/reference.py").write_text(code)
    return load_reference(load_task(folder, "scale"))


def expect_first_case(found: Reference) -> None:
    found.expectation(found.task.check[0], 0)


def test_a_good_reference(tmp_path: Path) -> None:
    found = reference(tmp_path, GOOD)
    case = found.task.check[0]
    expectation = found.expectation(case, 3)
    np.testing.assert_array_equal(expectation.expected["y"], expectation.inputs["x"].astype(np.float64) * 2)
    assert expectation.inputs["x"].flags.writeable
    assert not found.has("trusted")
    found.close()
    assert found.expectation(case, 4) is not None  # a process of its own again


def test_a_text_that_is_no_python_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(TaskInvalid) as caught:
        expect_first_case(reference(tmp_path, "import numpy as np\n\ndef inputs(case, rng) return {}\n"))
    assert "reference.py:3:" in caught.value.message


@pytest.mark.parametrize("function", ["import", "inputs", "expected"])
@pytest.mark.parametrize(
    ("deed", "words"),
    [
        ("__import__('os')._exit(0)", "exit code 0"),
        ("__import__('os')._exit(7)", "exit code 7"),
        ("__import__('sys').exit(0)", "SystemExit"),
        ("__import__('os').kill(__import__('os').getpid(), 9)", "SIGKILL"),
        ("__import__('os').abort()", "SIGABRT"),
        ("__import__('os').kill(__import__('os').getpid(), __import__('signal').SIGSTOP)", "SIGSTOP"),
        ("__import__('os').closerange(3, 99)", ""),
        ("[0][1]", "IndexError"),
    ],
)
def test_whatever_ends_it_is_told_with_the_file(tmp_path: Path, deed: str, words: str, function: str) -> None:
    code = f"{deed}\n{GOOD}"
    if function == "inputs":
        code = GOOD.replace("rng): return", f"rng): return {deed} and")
    elif function == "expected":
        code = GOOD.replace("case): return", f"case): return {deed} and")
    started = time.monotonic()
    with pytest.raises(TaskInvalid) as caught:
        expect_first_case(reference(tmp_path, code))
    assert str(tmp_path / "kernels/scale/reference.py") in caught.value.message
    assert words in caught.value.message
    assert caught.value.hint
    assert time.monotonic() - started < 30


def test_one_that_hangs_has_a_limit(tmp_path: Path) -> None:
    found = reference(tmp_path, GOOD.replace("case): return", "case):\n    while True: pass\n    return"))
    found.limit_s = 1.0
    with refused(TaskInvalid, "over-limit"):
        found.expectation(found.task.check[0], 0)


def test_one_that_eats_memory_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evo.spec.reference_process.memory_limit", lambda: 1 << 30)
    found = reference(tmp_path, GOOD.replace("case): return", "case):\n    a = np.ones((1 << 29,))\n    return"))
    with pytest.raises(TaskInvalid, match=r"expected\(\) .*[Mm]emory"):
        found.expectation(found.task.check[0], 0)


def test_one_that_leaves_the_machine_no_memory_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the system ends it, or something else."""
    found = reference(tmp_path, GOOD.replace("case): return", "case):\n    while True: pass\n    return"))
    monkeypatch.setattr("evo.spec.reference_process.memory_left", lambda: 1 << 20)
    with refused(TaskInvalid, "over-limit") as caught:
        found.expectation(found.task.check[0], 0)
    assert "left" in caught.value.message


@pytest.mark.parametrize(
    "deed", ["[Popen(['sleep', '60']) for _ in range(20)]", "[Popen(['sleep', '60']) for _ in range(20)] and sleep(60)"]
)
def test_one_that_starts_many_processes_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deed: str) -> None:
    monkeypatch.setattr("evo.spec.reference_process._MOST_PROCESSES", 10)
    imports = "from subprocess import Popen\nfrom time import sleep\n"
    found = reference(tmp_path, imports + GOOD.replace("case): return", f"case):\n    {deed}\n    return"))
    with refused(TaskInvalid, "over-limit"):
        found.expectation(found.task.check[0], 0)


def test_processes_in_a_session_of_their_own_end_with_it(tmp_path: Path) -> None:
    path = tmp_path / "reference.py"
    start = "subprocess.Popen(['sleep', '60'], start_new_session=True).pid"
    path.write_text(f"import subprocess\ndef literal(): return {start}\n")
    process = ReferenceProcess(path)
    pid = int(process.call("literal", [], limit_s=10).value)
    assert is_alive(pid)
    process.close()
    assert is_gone(pid)


def test_the_system_ends_a_child_first(tmp_path: Path) -> None:
    path = tmp_path / "reference.py"
    path.write_text("def literal(): return int(open('/proc/self/oom_score_adj').read())\n")
    process = ReferenceProcess(path)
    assert process.call("literal", [], limit_s=10).value == 800
    process.close()


def test_what_it_prints_is_for_people(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = reference(tmp_path, GOOD.replace("case): return", "case):\n    print('hello from it')\n    return"))
    found.expectation(found.task.check[0], 0)
    out, err = capfd.readouterr()
    assert "hello from it" in err
    assert out == ""


def test_it_keeps_no_process_when_it_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "reference.py"
    path.write_text("import os\ndef literal(): return os.getpid()\n")
    process = ReferenceProcess(path)
    pid = int(process.call("literal", [], limit_s=10).value)
    assert pid != os.getpid()
    process.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, 2.5, float("inf"), "text", [], {}, [1, "a"], {"a": {"b": [None]}},
        np.arange(6, dtype=np.int64).reshape(2, 3), np.array(2.5), np.zeros((0, 4), np.float16),
        np.array([1, 2], ">f4"),
    ],
    ids=repr,
)  # fmt: skip
def test_messages_keep_their_values(value: object) -> None:
    import socket

    left, right = socket.socketpair()
    Connection(left, plain=True).send(packed(value))
    found = unpacked(Connection(right, plain=True).receive())
    np.testing.assert_equal(found, value)
    if isinstance(value, np.ndarray):
        assert found.shape == value.shape
        assert found.dtype == value.dtype.newbyteorder("=")


def test_narrow_floats_go_through() -> None:
    import socket

    from evo.spec.dtypes import NUMPY

    for name, kind in NUMPY.items():
        left, right = socket.socketpair()
        Connection(left, plain=True).send(packed({"x": np.ones(3, kind)}))
        found = unpacked(Connection(right, plain=True).receive())
        assert found["x"].dtype == np.dtype(kind), name


@pytest.mark.parametrize(("name", "told"), [("evo-spawner_0", False), ("mine", True)])
def test_a_thread_that_goes_on_is_told_unless_evo_started_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, told: bool
) -> None:
    start = f"__import__('threading').Thread(target=__import__('time').sleep, args=(9,), name='{name}', daemon=True)"
    found = reference(tmp_path, GOOD.replace("case): return", f"case):\n    {start}.start()\n    return"))
    found.expectation(found.task.check[0], 0)
    assert (f"left a thread running: {name}" in capfd.readouterr().err) is told
    found.close()
