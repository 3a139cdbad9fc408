"""Workers on real GPUs: a killed one costs no result, and each decision names the one GPU that it was measured on."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from tiny import BROKEN, FAST, SLOW, UNSAFE, WRONG, new_repository

from evo.device import DeviceName, gpu_count
from evo.evaluate.pipeline import Job
from evo.results import Status
from evo.search.cluster import WorkerPool, open_site, parse_cluster
from evo.spec.task import load_task

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(280)]

TEXTS = [SLOW, WRONG, FAST, BROKEN, UNSAFE, FAST.replace("THREADS 128", "THREADS 64"), FAST + "//\n", SLOW + "//\n"]
EXPECTED = ["measured", "wrong", "measured", "uncompiled", "unsafe", "measured", "measured", "measured"]


def test_eight_candidates_with_a_worker_killed(tmp_path: Path) -> None:
    count = min(2, gpu_count())
    task = load_task(new_repository(tmp_path / "mine"), "scale")
    jobs = [Job(task=task, text=text, rival=SLOW, seed=5) for text in TEXTS]
    notes: list[str] = []
    with WorkerPool(open_site(parse_cluster(f"processes:{count}"), DeviceName("gpu", "0")), note=notes.append) as pool:
        figures = pool.control(task, SLOW, 5)
        found = pool.evaluate_all(jobs)
        first = next(found)
        worker = next(slot for slot in pool.slots() if slot.role == "measure" and slot.name)
        match = re.search(r"pid (\d+)", worker.name)
        assert match is not None
        os.kill(int(match[1]), signal.SIGKILL)
        evaluations = [evaluation for _, evaluation in (first, *found)]
    assert len(figures) == count
    assert [evaluation.status.value for evaluation in evaluations] == EXPECTED, notes
    measured = [evaluation for evaluation in evaluations if evaluation.status is Status.MEASURED]
    assert all(evaluation.control for evaluation in measured)  # the noise floor of the GPU that it was measured on
    places = {evaluation.environment.detail["uuid"] for evaluation in measured}
    assert 1 <= len(places) <= count
