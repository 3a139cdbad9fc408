"""Small calls of several threads, each in a process that is free."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from evo.errors import TaskInvalid, WorkerLost
from evo.spec.reference_process import ReferenceProcess, ReferenceProcesses

SLOW = """
import os, time
def expected(inputs, case):
    time.sleep(0.05)
    return {"pid": os.getpid(), "errors": [1.0] if case["N"] > 0 else case["none"]}
"""


@pytest.fixture
def several(tmp_path: Path) -> Iterator[ReferenceProcesses]:
    (tmp_path / "reference.py").write_text(SLOW)
    made = ReferenceProcesses(tmp_path / "reference.py", most=3)
    yield made
    made.close()


def pids(process: ReferenceProcess, count: int, inputs: dict[str, np.ndarray]) -> set[int]:
    def called(_: int) -> int:
        return int(process.call("expected", (inputs, {"N": 1}), limit_s=60.0).value["pid"])

    with ThreadPoolExecutor(count) as threads:
        return set(threads.map(called, range(count)))


def test_calls_that_find_it_busy_get_processes_of_their_own(several: ReferenceProcesses) -> None:
    small, end = {"x": np.zeros(4)}, time.monotonic() + 60.0
    found: set[int] = set()
    while len(found) < 3 and time.monotonic() < end:
        found = pids(several, 6, small)
    assert len(found) == 3
    assert len(pids(several, 6, {"x": np.zeros(1 << 20)})) == 1  # one process at a time has large arrays
    with pytest.raises(TaskInvalid, match="KeyError"):
        several.call("expected", (small, {"N": 0}), limit_s=60.0)
    several.close()
    assert len(pids(several, 1, small)) == 1  # a later call begins anew


def test_one_process_where_the_machine_has_no_cores_for_more(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(SLOW)
    one = ReferenceProcesses(tmp_path / "reference.py", most=1)
    assert len(pids(one, 4, {"x": np.zeros(4)})) == 1
    one.close()


def test_what_has_ended_for_good_begins_no_process(several: ReferenceProcesses) -> None:
    small = {"x": np.zeros(4)}
    assert pids(several, 1, small)
    several.end()
    with pytest.raises(WorkerLost):
        several.call("expected", (small, {"N": 1}), limit_s=60.0)
