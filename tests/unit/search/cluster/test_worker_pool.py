"""Who evaluates what when workers come, go, hang and break; without Ray, devices or compilers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from refusals import refused
from scripted_site import ScriptedSite, evaluation_of
from tiny import FAST, new_repository

from evo.errors import DeviceMissing, EvoError, HarnessFault, UsageError, WorkerLost, WorkerUnreachable
from evo.evaluate.harness import harness_version
from evo.evaluate.pipeline import CheckedJob, Job
from evo.results import Evaluation, Status
from evo.search.cluster import KnownCode, Limits, WorkerPool
from evo.search.cluster.protocol import WorkerDescription
from evo.spec.task import Task, load_task

QUICK = Limits(again_s=(0.01,), slow_s=5.0, patient_s=5.0, alone_s=0.2)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return load_task(new_repository(tmp_path_factory.mktemp("pool") / "mine"), "scale")


def jobs_of(task: Task, count: int) -> list[Job]:
    return [Job(task=task, text=FAST + f"int unused_{number};\n", rival=FAST, seed=1) for number in range(count)]


def once(answer: Callable[[], Any], *, method: str, role: str = "measure", at: int = 2) -> Any:
    """A script that gives its answer at one call of a method, the at-th of all."""
    seen: list[int] = []
    lock = threading.Lock()

    def script(where: str, number: int, called: str, args: tuple[Any, ...]) -> Any:
        with lock:
            if called == method and where == role:
                seen.append(1)
                if len(seen) == at:
                    return answer()
        return None

    return script


def lost() -> Any:
    raise WorkerUnreachable("killed")


def broken() -> Any:
    raise HarnessFault("the GPU does not pass its health check", hint="reset it")


@pytest.mark.parametrize(
    ("answer", "method", "role", "words"),
    [
        (lost, "finish", "measure", "killed"),
        (broken, "finish", "measure", "health check"),
        (lost, "start", "compile", "killed"),
        (lost, "learn", "measure", "killed"),
    ],
)
def test_a_lost_worker_costs_no_result(
    task: Task, answer: Callable[[], Any], method: str, role: str, words: str
) -> None:
    notes: list[str] = []
    site = ScriptedSite(once(answer, method=method, role=role))
    jobs = jobs_of(task, 8)
    with WorkerPool(site, note=notes.append, limits=QUICK) as pool:
        found = list(pool.evaluate_all(jobs))
        wait_for(lambda: sum(site.opened.values()) == 1)  # the slot is filled a second time
    assert [job for job, _ in found] == jobs
    assert [evaluation.variant for _, evaluation in found] == [evaluation_of(job, "").variant for job in jobs]
    assert {evaluation.status for _, evaluation in found} == {Status.CORRECT}
    (note,) = notes
    assert words in note
    assert ("evaluated again" in note) == (method in ("start", "finish"))
    assert site.closed


def test_a_worker_that_hangs_is_given_up_and_its_candidate_goes_elsewhere(task: Task) -> None:
    notes: list[str] = []
    site = ScriptedSite(once(lambda: "hang", method="finish"))
    limits = Limits(again_s=(0.01,), slow_s=0.1, patient_s=0.1)
    with WorkerPool(site, note=notes.append, limits=limits) as pool:
        found = list(pool.evaluate_all(jobs_of(task, 8)))
    assert {evaluation.status for _, evaluation in found} == {Status.CORRECT}
    assert len(notes) == 1
    assert "no answer" in notes[0]


def test_compiling_and_measuring_are_done_in_different_places_and_a_decision_in_one(task: Task) -> None:
    site = ScriptedSite()
    with WorkerPool(site, limits=QUICK) as pool:
        list(pool.evaluate_all(jobs_of(task, 6)))
    assert {place.split(":")[0] for place in site.served("start")} == {"compile"}
    assert {place.split(":")[0] for place in site.served("finish")} == {"measure"}
    measured = [args[0].job for _, method, args in site.calls if method == "finish"]
    assert len(measured) == 6
    assert all(job.rival == FAST for job in measured)  # the parent goes along, and is measured with its candidate


def test_a_job_that_costs_worker_after_worker_ends_the_run_without_a_verdict(task: Task) -> None:
    def script(role: str, number: int, method: str, args: tuple[Any, ...]) -> Any:
        if method == "finish" and "unused_2" in args[0].job.text:
            raise WorkerUnreachable("killed")

    with WorkerPool(ScriptedSite(script), limits=QUICK) as pool:
        futures = [pool.submit(job) for job in jobs_of(task, 4)]
        with refused(WorkerLost, "lost-again"):
            futures[2].result(timeout=10)
        assert [futures[number].result(timeout=10).status for number in (0, 1, 3)] == [Status.CORRECT] * 3


def test_what_is_asked_wrongly_goes_to_the_caller_and_costs_no_worker(task: Task) -> None:
    def refuse() -> Any:
        raise UsageError("the variant to compare with does not run", problem="rival-fails", hint="another")

    site = ScriptedSite(once(refuse, method="start", role="compile", at=1))
    with WorkerPool(site, limits=QUICK) as pool:
        first, second = (pool.submit(job) for job in jobs_of(task, 2))
        with refused(UsageError, "rival-fails"):
            first.result(timeout=10)
        assert second.result(timeout=10).status is Status.CORRECT
    assert sum(site.opened.values()) == 0


@pytest.mark.parametrize(("harness", "chip", "words"), [("0", "sim-l4", "has evo 0"), ("", "h200", "chip h200")])
def test_a_worker_of_another_kind_is_left_out(task: Task, harness: str, chip: str, words: str) -> None:
    begun = threading.Event()

    def script(role: str, number: int, method: str, args: tuple[Any, ...]) -> Any:
        if method == "join" and role == "measure":
            if begun.is_set():
                return WorkerDescription(host="odd", pid=2, harness=harness or harness_version(), chip=chip, about={})
            begun.set()
        return None

    notes: list[str] = []
    site = ScriptedSite(script)
    with WorkerPool(site, note=notes.append, limits=QUICK) as pool:
        wait_for(lambda: bool(notes))
        found = list(pool.evaluate_all(jobs_of(task, 4)))
    assert len(set(site.served("finish"))) == 1
    assert {evaluation.status for _, evaluation in found} == {Status.CORRECT}
    assert words in notes[0]
    assert "is not used" in notes[0]


def test_every_worker_has_its_own_control_before_it_measures(task: Task) -> None:
    site = ScriptedSite(once(lost, method="finish", at=3))
    with WorkerPool(site, limits=QUICK) as pool:
        figures = pool.control(task, FAST, 7)
        list(pool.evaluate_all(jobs_of(task, 8)))
        wait_for(lambda: len(site.served("control")) == 3)
    assert len(figures) == 2
    for place in set(site.served("finish")):
        calls = [(method, args) for where, method, args in site.calls if where == place]
        methods = [method for method, _ in calls]
        assert methods.index("control") < methods.index("finish")
        assert calls[methods.index("control")][1] == (task.hash, FAST, 7, None)


def test_a_gpu_that_is_too_noisy_is_left_out(task: Task) -> None:
    def noisy() -> Any:
        raise UsageError("--margin 1%", problem="margin-below-noise-floor", hint="a larger one")

    notes: list[str] = []
    with WorkerPool(ScriptedSite(once(noisy, method="control", at=1)), note=notes.append, limits=QUICK) as pool:
        assert len(pool.control(task, FAST, 7, margin=0.01)) == 1
    assert "--margin 1%" in notes[0]
    with WorkerPool(ScriptedSite(once(noisy, method="control", at=1), measuring=1), limits=QUICK) as pool:
        with refused(UsageError, "margin-below-noise-floor"):
            pool.control(task, FAST, 7, margin=0.01)
        with refused(UsageError, "margin-below-noise-floor"):
            pool.evaluate(jobs_of(task, 1)[0])


@pytest.mark.parametrize(
    ("error", "kind"),
    [(DeviceMissing("no GPU 0 here", hint="sim"), DeviceMissing), (WorkerUnreachable("gone"), WorkerLost)],
)
def test_a_cluster_with_no_worker_says_so(error: Exception, kind: type[EvoError]) -> None:
    def script(role: str, number: int, method: str, args: tuple[Any, ...]) -> Any:
        if method == "open":
            raise error
        return None

    site = ScriptedSite(script)
    with pytest.raises(kind) as raised:
        WorkerPool(site, limits=QUICK)
    assert raised.value.hint
    assert site.closed


def test_workers_that_all_go_for_good_end_the_run(task: Task) -> None:
    def script(role: str, number: int, method: str, args: tuple[Any, ...]) -> Any:
        if role == "measure" and (method == "finish" or (method == "open" and number > 0)):
            raise WorkerUnreachable("preempted")
        return None

    with WorkerPool(ScriptedSite(script), limits=QUICK) as pool:
        futures = [pool.submit(job) for job in jobs_of(task, 3)]
        for future in futures:
            with pytest.raises(WorkerLost, match="preempted"):
                future.result(timeout=10)


def test_known_machine_code_is_not_measured_and_the_first_submitted_is_the_one_that_is(task: Task) -> None:
    late = threading.Event()

    def script(role: str, number: int, method: str, args: tuple[Any, ...]) -> Any:
        if method != "start":
            return None
        if "unused_0" in args[0].text:
            late.wait(5)  # the first takes longest to compile
        code = "old" if "unused_3" in args[0].text else "twice" if "unused_2" not in args[0].text else "new"
        started = CheckedJob(job=args[0], base=evaluation_of(args[0], "compile"))
        started.prepared = SimpleNamespace(code_hash=code)  # type: ignore[assignment]
        return started

    site = ScriptedSite(script, compiling=4)
    known = {"old"}
    with WorkerPool(site, limits=QUICK) as pool:
        futures = [pool.submit_new(job, known) for job in jobs_of(task, 4)]
        wait_for(lambda: len(site.served("start")) == 4)
        late.set()
        found = [future.result(timeout=10) for future in futures]
    assert [type(one) for one in found] == [Evaluation, KnownCode, Evaluation, KnownCode]
    assert len(site.served("finish")) == 2
    assert known == {"old", "twice", "new"}


def test_an_urgent_job_goes_before_those_that_wait(task: Task) -> None:
    gate, begun = threading.Event(), threading.Event()

    def script(role: str, number: int, method: str, args: tuple[Any, ...]) -> Any:
        if method == "finish":
            begun.set()
            gate.wait(5)
        return None

    site = ScriptedSite(script, measuring=1)
    jobs = jobs_of(task, 6)
    with WorkerPool(site, limits=QUICK) as pool:
        futures = [pool.submit(job) for job in jobs[:5]]
        wait_for(lambda: len(site.served("start")) == 5 and begun.is_set())
        urgent = pool.submit(jobs[5], urgent=True)
        wait_for(lambda: len(site.served("start")) == 6)
        gate.set()
        for future in (*futures, urgent):
            future.result(timeout=10)
    order = [args[0].job.text for _, method, args in site.calls if method == "finish"]
    assert order.index(jobs[5].text) == 1  # one was on the device already


def test_a_first_look_is_shared_out_with_the_parent_and_survives_a_lost_worker(task: Task) -> None:
    dying = once(lost, method="gains", at=2)

    def script(role: str, number: int, method: str, args: tuple[Any, ...]) -> Any:
        if method == "gains":
            dying(role, number, method, args)
            return [float(text) for text in args[2]]
        return None

    site = ScriptedSite(script)
    with WorkerPool(site, limits=QUICK) as pool:
        assert pool.gains(task, FAST, [str(number) for number in range(5)], 1) == [0.0, 1.0, 2.0, 3.0, 4.0]
        assert pool.gains(task, FAST, [], 1) == []
    asked = [args for _, method, args in site.calls if method == "gains"]
    assert sorted(len(args[2]) for args in asked) in ([2, 2, 3], [2, 3, 3])
    assert {args[1] for args in asked} == {FAST}


def test_closing_ends_what_is_under_way(task: Task) -> None:
    site = ScriptedSite(lambda role, number, method, args: "hang" if method == "finish" else None)
    pool = WorkerPool(site, limits=QUICK)
    futures = [pool.submit(job) for job in jobs_of(task, 5)]
    wait_for(lambda: bool(site.served("finish")))
    pool.close()
    assert all(future.cancelled() for future in futures)
    assert pool.submit(jobs_of(task, 1)[0]).cancelled()


def test_a_task_arrives_byte_for_byte(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evo.search.cluster.task_archive import pack

    monkeypatch.setenv("EVO_CACHE", str(tmp_path))
    archive = pack(task)
    first, second = archive.unpack(), archive.unpack()
    assert first.hash == second.hash == task.hash
    assert first.folder == second.folder != task.folder
    assert [case.axes for case in first.bench] == [case.axes for case in task.bench]
    assert len(list((tmp_path / "tasks").iterdir())) == 1


def wait_for(done: Callable[[], bool], limit_s: float = 10.0) -> None:
    until = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.005)
