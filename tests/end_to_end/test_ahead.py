"""Several candidates under way on one GPU: the order stays that of the seed, whatever runs beside what."""

from __future__ import annotations

import functools
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny import FAST, SLOW, commit_all, new_repository, own_cache

from evo.device import DeviceName
from evo.errors import WorkerLost
from evo.evaluate import pipeline
from evo.evaluate.pipeline import EvaluationSession, Job
from evo.records.trials import Record, load_records
from evo.results import Evaluation, Status
from evo.search import ahead as ahead_module
from evo.search import pipelined
from evo.search.ahead import IN_FLIGHT, LookAhead, Overtaken
from evo.search.cluster import KnownCode
from evo.search.events import Event
from evo.search.loop import Settings, evolve
from evo.spec.task import Task, load_task

SUPPORT = Path(__file__).resolve().parents[1] / "support"
OPENER = "stand_in_gpu:StandInGpu"  # a microsecond for each thread of a block
SETTINGS = Settings(task="scale", device=DeviceName("gpu", "0"), iterations=6, operators=("rules",), seed=3)


@pytest.fixture(autouse=True)
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    monkeypatch.setenv("EVO_CACHE", own_cache(tmp_path))
    monkeypatch.setattr(pipelined, "EvaluationSession", functools.partial(EvaluationSession, opener=OPENER))


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return load_task(new_repository(tmp_path / "task"), "scale")


def run(folder: Path, **more: Any) -> list[Record]:
    root = new_repository(folder)
    rung = root / "kernels" / "scale" / "ladder" / "00_slow.cu"
    rung.write_text(SLOW.replace("#define THREADS 32", "#define THREADS 128"))
    commit_all(root)
    events: list[Event] = []
    evolve(replace(SETTINGS, **more), root, events.append)
    return load_records(root, settled=True)


def shown(records: list[Record]) -> list[tuple[str, bool, str]]:
    return [(record.variant, record.kept, record.status) for record in records]


@pytest.mark.long
def test_a_seed_gives_the_same_trials_however_long_each_half_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(tmp_path / "first")
    assert any(record.kept for record in first if record.proposed)
    assert len({record.variant for record in first}) > 4
    begin = pipeline.start
    waits = iter([0.4, 0.0, 0.3, 0.0, 0.2, 0.0] * 20)

    def slowly(*arguments: Any) -> Any:
        time.sleep(next(waits))  # later ones are ready before earlier ones
        return begin(*arguments)

    monkeypatch.setattr(ahead_module, "start", slowly)
    assert shown(run(tmp_path / "second")) == shown(first)


@pytest.mark.long
def test_what_is_kept_has_beaten_the_champion_that_it_replaces(tmp_path: Path) -> None:
    champion = None
    for record in run(tmp_path / "mine", iterations=8):
        if record.kept and record.proposed:
            assert record.parent == champion
        champion = record.variant if record.kept else champion


@pytest.mark.long
def test_while_one_is_on_the_device_the_next_are_prepared(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    enough = threading.Event()
    begin, end = pipeline.start, pipeline.finish

    def started(job: Job, *more: Any) -> Any:
        found = begin(job, *more)
        begun.append(job.text)
        if len(begun) >= 3:
            enough.set()
        return found

    def finished(*arguments: Any) -> Evaluation:
        assert enough.wait(60)  # the first ends only when others have been prepared meanwhile
        return end(*arguments)

    monkeypatch.setattr(ahead_module, "start", started)
    monkeypatch.setattr(ahead_module, "finish", finished)
    with EvaluationSession(DeviceName("gpu", "0"), opener=OPENER) as bench, LookAhead(bench) as ahead:
        known: set[str] = set()
        texts = [FAST.replace("#define THREADS 128", f"#define THREADS {n}") for n in (32, 64, 128)]
        found = [
            ahead.submit_new(Job(task=task, text=text, rival=SLOW + "\n" * number, full=False), known)
            for number, text in enumerate(texts)
        ]
        assert all(isinstance(future.result(timeout=120), Evaluation) for future in found)
        assert isinstance(ahead.submit_new(Job(task=task, text=texts[0] + "\n", rival=SLOW), known).result(), KnownCode)


@pytest.mark.long
def test_nothing_is_held_against_what_one_before_it_replaces(task: Task) -> None:
    wide = SLOW.replace("#define THREADS 32", "#define THREADS 128")
    texts = [FAST.replace("#define THREADS 128", f"#define THREADS {n}") for n in (64, 32)]
    with EvaluationSession(DeviceName("gpu", "0"), opener=OPENER) as bench, LookAhead(bench) as ahead:
        first, second = (
            ahead.submit_new(Job(task=task, text=text, rival=wide, full=False), set()).result(timeout=120)
            for text in texts
        )
        other = ahead.submit_new(Job(task=task, text=texts[1], rival=texts[0], full=False), set()).result(timeout=120)
    assert isinstance(first, Evaluation)
    assert first.kept
    assert isinstance(second, Overtaken)
    assert isinstance(other, Evaluation)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (FAST, Status.CORRECT),
        (FAST.replace("2.0f * x[i]", "(n > 5000 ? 3.0f : 2.0f) * x[i]"), Status.WRONG),
    ],
)
def test_a_hunt_beside_the_check_cases_changes_no_verdict(task: Task, text: str, status: Status) -> None:
    with EvaluationSession(DeviceName("gpu", "0"), opener=OPENER) as bench:
        job = Job(task=task, text=text, rival=SLOW, full=False)
        checkers = bench.more_checkers(3)[1:]
        alone, beside = (pipeline.start(job, bench, *some).check for some in (checkers[:1], checkers))
    assert beside == alone
    assert beside is not None
    assert beside.status is status


def test_leaving_early_waits_for_nothing_and_leaves_no_result(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def held(*arguments: Any) -> Any:
        release.wait(60)
        raise WorkerLost("held", hint="")

    monkeypatch.setattr(ahead_module, "start", held)
    with EvaluationSession(DeviceName("gpu", "0"), opener=OPENER) as bench:
        with LookAhead(bench) as ahead:
            futures = [ahead.submit_new(Job(task=task, text=FAST, rival=SLOW), set()) for _ in range(IN_FLIGHT)]
            began = time.monotonic()
        assert time.monotonic() - began < 5
        assert bench.on_stage("x") is None
    release.set()
    assert not any(future.done() and not future.cancelled() and future.exception() is None for future in futures)


def test_one_after_the_other_if_a_model_writes(tmp_path: Path, task: Task) -> None:
    settings = replace(SETTINGS, operators=("ladder", "rules", "llm"))
    with (
        EvaluationSession(DeviceName("gpu", "0"), opener=OPENER) as bench,
        pipelined.open_ahead(settings, bench, None) as found,
    ):
        assert found is None


@pytest.mark.long
@pytest.mark.parametrize("device", [DeviceName("gpu", "0"), DeviceName("sim", "l4")])
def test_a_seed_gives_the_same_trials_with_any_number_of_jobs(
    device: DeviceName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more: dict[str, Any] = {"device": device, "operators": ("ladder", "rules"), "iterations": 4}
    if device.kind == "sim":
        monkeypatch.setattr(pipelined, "EvaluationSession", EvaluationSession)
        more["neutral"] = True  # or a look has to promise a gain before there is a trial
    told = [shown(run(tmp_path / f"jobs-{jobs}", jobs=jobs, **more)) for jobs in (None, 1, 2)]
    assert told[0] == told[1] == told[2]
    assert any(kept for _, kept, _ in told[0][1:])
    assert len({variant for variant, _, _ in told[0]}) > 2
