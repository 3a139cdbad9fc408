"""One suite for every worker of a cluster: in process, in a child, as a Ray actor; a real GPU's rows are marked."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from in_process_site import InProcessSite
from long_cases import long
from simulator_session import simulator
from tiny import BROKEN, FAST, SLOW, WRONG, new_repository

from evo.device import DeviceName, gpu_present
from evo.errors import HarnessFault, WorkerUnreachable
from evo.evaluate.harness import harness_version
from evo.evaluate.pipeline import Job, evaluate
from evo.results import Status
from evo.search.cluster import Cluster, RemoteWorker
from evo.search.cluster.sites import ProcessSite
from evo.search.cluster.task_archive import pack
from evo.spec.task import Task, load_task

SIM, GPU = DeviceName("sim", "l4"), DeviceName("gpu", "0")
HERE, CHILD, RAY, CHILD_GPU = "in process", "process", "ray", "process with a GPU"
ALL = [HERE, CHILD, long(RAY), pytest.param(CHILD_GPU, marks=pytest.mark.gpu)]
ELSEWHERE = [CHILD, long(RAY), pytest.param(CHILD_GPU, marks=pytest.mark.gpu)]


@contextlib.contextmanager
def opened(kind: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A site of that kind."""
    if kind == HERE:
        yield InProcessSite(Cluster("processes", 1), SIM)
    elif kind == CHILD:
        yield ProcessSite(SIM, measuring=1, compiling=1)
    elif kind == CHILD_GPU:
        if not gpu_present():
            pytest.skip("no GPU")
        yield ProcessSite(GPU, measuring=1, compiling=1)
    else:
        monkeypatch.setenv("RAY_DEDUP_LOGS_SKIP_REGEX", ".*")  # as evo sets it, before Ray is imported
        pytest.importorskip("ray", reason="needs the extra [cluster]")
        from ray.cluster_utils import Cluster as RunningRay

        from evo.search.cluster.ray_backend import RaySite

        running = RunningRay(
            initialize_head=True,
            head_node_args={"num_cpus": 3, "include_dashboard": False, "object_store_memory": 100 * 2**20},
        )
        monkeypatch.setenv("RAY_ADDRESS", running.address)
        site = RaySite(Cluster("ray", address="ray:auto"), SIM)
        try:
            yield site
        finally:
            site.close()
            running.shutdown()


@pytest.fixture
def worker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteWorker]:
    with opened(request.param, monkeypatch) as site:
        made = site.open("measure", 0)
        try:
            yield made
        finally:
            made.close()


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return load_task(new_repository(tmp_path_factory.mktemp("workers") / "mine"), "scale")


def job(task: Task, text: str) -> Job:
    return Job(task=task, text=text, rival=SLOW, seed=5)


@pytest.mark.parametrize(
    "worker",
    [long(name) if name == HERE else name for name in ALL],
    indirect=True,
)
def test_it_introduces_itself_learns_a_task_and_evaluates_as_here(worker: RemoteWorker, task: Task) -> None:
    found = worker.join("sm_89", None)
    assert found.harness == harness_version()
    assert found.host
    assert found.about
    worker.learn(pack(task))
    statuses = []
    for text in (FAST, WRONG, BROKEN):
        started = worker.start(job(task, text))
        statuses.append(worker.finish(started).status)
    passed = Status.CORRECT if found.chip.startswith("sim") else Status.MEASURED
    assert statuses == [passed, Status.WRONG, Status.UNCOMPILED]
    (gain,) = worker.gains(task.hash, SLOW, [FAST], 5)
    assert gain is not None
    assert gain > 1.1


@pytest.mark.parametrize("worker", [CHILD, *(long(name) for name in (HERE, RAY))], indirect=True)
def test_its_evaluation_is_that_of_this_process(worker: RemoteWorker, task: Task) -> None:
    with simulator() as bench:
        alone = evaluate(job(task, FAST), bench)
    worker.join("sm_89", None)
    worker.learn(pack(task))
    found = worker.finish(worker.start(job(task, FAST)))
    assert (found.variant, found.status, found.bench, found.decision) == (
        alone.variant,
        alone.status,
        alone.bench,
        alone.decision,
    )
    assert found.environment == alone.environment


@pytest.mark.parametrize("worker", ALL, indirect=True)
def test_what_the_worker_raises_arrives_with_its_hint(worker: RemoteWorker, task: Task) -> None:
    with pytest.raises(HarnessFault) as raised:
        worker.start(job(task, FAST))
    assert raised.value.hint
    worker.join("sm_89", None)  # and it lives on


@pytest.mark.parametrize("worker", ELSEWHERE, indirect=True)
def test_one_that_is_killed_is_unreachable(worker: RemoteWorker, task: Task) -> None:
    found = worker.join("sm_89", None)
    os.kill(found.pid, signal.SIGKILL)
    with pytest.raises(WorkerUnreachable):
        worker.learn(pack(task))


@pytest.mark.parametrize("worker", ELSEWHERE, indirect=True)
def test_one_that_does_not_answer_in_time_is_unreachable(worker: RemoteWorker) -> None:
    found = worker.join("sm_89", None)
    os.kill(found.pid, signal.SIGSTOP)
    try:
        with pytest.raises(WorkerUnreachable, match="no answer"):
            worker.join("sm_89", None, time_limit_s=0.1)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(found.pid, signal.SIGCONT)


@pytest.mark.parametrize("worker", ELSEWHERE, indirect=True)
def test_closing_ends_a_call_in_flight(worker: RemoteWorker, task: Task) -> None:
    worker.join("sm_89", None)
    worker.learn(pack(task))
    ended: list[Exception] = []

    def evaluating() -> None:
        try:
            for number in range(1000):
                worker.finish(worker.start(job(task, FAST + f"int unused_{number};\n")))
        except WorkerUnreachable as error:
            ended.append(error)

    thread = threading.Thread(target=evaluating)
    thread.start()
    threading.Timer(0.5, worker.close).start()
    thread.join(timeout=30)
    assert ended


def test_secrets_do_not_reach_a_worker_in_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVO_TEST_API_KEY", "hush")
    worker = ProcessSite(SIM, measuring=1, compiling=1).open("measure", 0)
    try:
        found = worker.join("sm_89", None)
        assert b"EVO_TEST_API_KEY" not in Path(f"/proc/{found.pid}/environ").read_bytes()
    finally:
        worker.close()
