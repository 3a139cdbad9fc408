"""A look in a process of its own shows what the same look shows here, and is taken again if the process is killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from tiny import FAST

from evo.device import parse_device
from evo.evaluate import before_keep, gate
from evo.evaluate.gate.looked import SteeredCases
from evo.evaluate.look_process import LookProcess
from evo.evaluate.looking_bench import LookSubject, inputs_hunted, sizes_hunted
from evo.evaluate.prepare import Prepared
from evo.evaluate.session import EvaluationSession
from evo.results import Status
from evo.spec.task import Task

SIM = parse_device("sim:l4")


@pytest.fixture(scope="module")
def process() -> Iterator[LookProcess]:
    with LookProcess(SIM) as found:
        yield found


def prepared_of(bench: EvaluationSession, task: Task, text: str) -> Prepared:
    found = bench.prepare(task, text)
    assert isinstance(found, Prepared)
    return found


def test_it_looks_at_what_is_looked_at_here(bench: EvaluationSession, process: LookProcess, scale: Task) -> None:
    prepared = prepared_of(bench, scale, FAST)
    here = gate.Looked({case.name for case in scale.check})
    assert sizes_hunted(LookSubject(bench, scale, prepared, 3, [bench.checker], here)) is None
    found, there = process.take(sizes_hunted, scale, prepared, 3, bench.arch)
    assert found is None
    assert (there.sizes, there.inputs, there.laws) == (here.sizes, here.inputs, here.laws)
    assert {case.name for case in there.cases} == {case.name for case in here.cases}


def test_two_parts_of_a_look_see_what_the_whole_sees(
    bench: EvaluationSession, process: LookProcess, scale: Task
) -> None:
    prepared = prepared_of(bench, scale, FAST)
    _, whole = process.take(sizes_hunted, scale, prepared, 3, bench.arch)
    parts = [
        process.take(partial(sizes_hunted, part=(number, 2)), scale, prepared, 3, bench.arch)[1] for number in (0, 1)
    ]
    assert parts[0].sizes | parts[1].sizes == whole.sizes
    assert parts[0].inputs | parts[1].inputs == whole.inputs
    _, little = process.take(partial(sizes_hunted, part=(0, 50)), scale, prepared, 3, bench.arch)
    assert little.sizes < whole.sizes


def test_a_wrong_size_is_found_by_one_part_of_a_look(
    bench: EvaluationSession, process: LookProcess, scale: Task
) -> None:
    prepared = prepared_of(bench, scale, FAST.replace("if (i < n)", "if (i < n && !(n > 3000 && i == n - 1))"))
    found = [
        process.take(partial(sizes_hunted, part=(number, 2)), scale, prepared, 3, bench.arch)[0] for number in (0, 1)
    ]
    assert any(check is not None and check.status is Status.WRONG for check in found)


def test_what_is_wrong_comes_back_as_data(bench: EvaluationSession, process: LookProcess, scale: Task) -> None:
    prepared = prepared_of(bench, scale, FAST.replace("if (i < n)", "if (i < n && !(n > 3000 && i == n - 1))"))
    found, _ = process.take(sizes_hunted, scale, prepared, 3, bench.arch)
    assert found is not None
    assert found.status is Status.WRONG
    assert found.failed is not None


def test_a_process_that_is_killed_from_outside_is_replaced(
    bench: EvaluationSession, process: LookProcess, scale: Task
) -> None:
    prepared = prepared_of(bench, scale, FAST)
    process.take(before_keep.covered, scale, prepared, 3, bench.arch)
    killed, starts = process.pid, process.starts
    assert killed is not None
    with ThreadPoolExecutor(1) as thread:
        look = thread.submit(process.take, inputs_hunted, scale, prepared, 3, bench.arch)
        time.sleep(0.2)
        os.kill(killed, signal.SIGKILL)
        assert look.result()[0] is None
    process.take(before_keep.covered, scale, prepared, 3, bench.arch)  # if the look was over before the kill
    assert process.starts == starts + 1
    assert process.pid != killed
    assert Path(f"/proc/{process.pid}").is_dir()


def test_sizes_that_one_look_has_worked_out_are_not_worked_out_by_the_next(
    bench: EvaluationSession, process: LookProcess, scale: Task
) -> None:
    prepared = prepared_of(bench, scale, FAST.replace("if (i < n)", "if (i < n && (n < 5000 || i < n))"))
    found, known = process.take(before_keep.steered, scale, prepared, 3, bench.arch)
    assert found.outcomes > 0

    def again() -> SteeredCases:
        raise AssertionError("worked out again")

    assert known.steered(again) == found
    check, seen = process.take(sizes_hunted, scale, prepared, 3, bench.arch, known)
    assert check is None
    assert {case.name for case in found.cheap} <= seen.sizes
    assert seen.steered(again) == found
