"""Eight candidates on several simulators with one worker killed, and the loop on stations that die."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import fake_gpu
import pytest
from in_process_site import InProcessSite, InProcessTransport
from run_killer import problems
from tiny import BROKEN, FAST, SLOW, UNSAFE, WRONG, environment, evo, git, named, new_repository

from evo.device import DeviceName
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.records.trials import load_records
from evo.search.cluster import Cluster, WorkerPool, open_site, parse_cluster
from evo.search.loop import Event, Settings, evolve
from evo.spec.task import Task, load_task

pytestmark = [pytest.mark.long, pytest.mark.timeout(280)]

SIM = DeviceName("sim", "l4")
TEXTS = [WRONG, SLOW, BROKEN, FAST, UNSAFE, FAST.replace("128\n", "64\n"), SLOW.replace("2.0f", "2.5f"), FAST + "//\n"]


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return load_task(new_repository(tmp_path_factory.mktemp("cluster") / "mine"), "scale")


@pytest.fixture
def spec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """`processes:2`, or `ray:auto` with a Ray cluster of three cores that runs meanwhile."""
    if request.param != "ray:auto":
        yield request.param
        return
    monkeypatch.setenv("RAY_DEDUP_LOGS_SKIP_REGEX", ".*")  # as evo sets it, before Ray is imported
    pytest.importorskip("ray", reason="needs the extra [cluster]")
    from ray.cluster_utils import Cluster as RunningRay

    head = {"num_cpus": 3, "include_dashboard": False, "object_store_memory": 100 * 2**20}
    ray = RunningRay(initialize_head=True, head_node_args=head)
    monkeypatch.setenv("RAY_ADDRESS", ray.address)
    yield request.param
    ray.shutdown()


@pytest.mark.parametrize("spec", ["processes:2", "ray:auto"], indirect=True)
def test_eight_candidates_with_one_of_two_workers_killed_give_eight_right_results(
    task: Task, spec: str, capfd: pytest.CaptureFixture[str]
) -> None:
    jobs = [Job(task=task, text=text, rival=SLOW, seed=5) for text in TEXTS]
    with EvaluationSession(SIM) as bench:
        alone = [evaluate(job, bench) for job in jobs]
    notes: list[str] = []
    with WorkerPool(open_site(parse_cluster(spec), SIM), note=notes.append) as pool:
        found = pool.evaluate_all(jobs)
        first = next(found)
        os.kill(_pid_of(pool, "measure"), signal.SIGKILL)
        together = [first, *found]
    assert [job for job, _ in together] == jobs
    for (_, ours), theirs in zip(together, alone, strict=True):
        assert (ours.variant, ours.status, ours.reason) == (theirs.variant, theirs.status, theirs.reason)
        assert (ours.bench, ours.decision, ours.check) == (theirs.bench, theirs.decision, theirs.check)
        assert ours.environment == theirs.environment
    assert len({evaluation.status for evaluation in alone}) == 5
    assert capfd.readouterr().out == ""  # stdout is data
    assert any("is lost" in note or "died" in note.lower() for note in notes), notes


def _pid_of(pool: WorkerPool, role: str) -> int:
    """The process of a worker that is at work, so that its loss is felt."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for slot in pool.slots():
            if slot.role == role and slot.busy and (match := re.search(r"pid (\d+)", slot.name)):
                return int(match[1])
        time.sleep(0.001)
    raise AssertionError("no worker was ever at work")


def test_the_loop_keeps_the_same_whatever_workers_die(tmp_path: Path) -> None:
    lines: dict[str, list[dict[str, object]]] = {}
    for name in ("calm", "killed"):
        root = new_repository(tmp_path / name)
        command = [
            "iterate",
            "scale",
            "--device",
            "sim:l4",
            "--cluster",
            "processes:2",
            "--iterations",
            "8",
            "--json",
            "--keep-neutral",
        ]
        with subprocess.Popen(
            [sys.executable, "-m", "evo", *command],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        ) as run:
            assert run.stdout is not None
            first = run.stdout.readline()
            if name == "killed":
                os.kill(_workers_of(run.pid)[0], signal.SIGKILL)
            rest, errors = run.communicate(timeout=200)
        assert run.returncode == 0, errors
        lines[name] = [json.loads(line) for line in (first + rest).splitlines()]
        assert problems(root, load_records(root, settled=True)) == []
        replayed = next(line for line in lines[name] if line.get("decision") == "keep")
        assert evo("replay", replayed["id"], "--json", cwd=root).json["same"] is True
    calm, killed = ([_told(line) for line in lines[name][:-1]] for name in ("calm", "killed"))
    assert killed == calm
    assert len(calm) >= 5  # then the tiny task has no proposal left
    assert "keep" in [line[3] for line in calm]


def _told(line: dict[str, object]) -> tuple[object, ...]:
    return tuple(line.get(name) for name in ("operator", "summary", "status", "decision", "variant", "parent", "cases"))


def _workers_of(parent: int) -> list[int]:
    """The workers among a process's children, by what they were told to open."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_text()
                above = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if above == parent and "evo.search.cluster.local_worker" in command:
                found.append(int(folder.name))
    return sorted(found)


def test_on_gpus_every_worker_has_its_control_and_measures_a_first_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gpu").mkdir()
    monkeypatch.setenv("FAKE_GPU", str(tmp_path / "gpu"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[1] / "support"))
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    two = functools.partial(InProcessSite, measuring=2)
    monkeypatch.setattr("evo.search.pipelined.open_site", two)
    faked = functools.partial(EvaluationSession, opener=fake_gpu.OPENER)
    monkeypatch.setattr("evo.search.cluster.local_worker.EvaluationSession", faked)
    root = new_repository(tmp_path / "mine")
    ladder = root / "kernels" / "scale" / "ladder"
    for file, text, kernel in (("00_slow.cu", SLOW, "slow_20"), ("10_fast.cu", FAST, "fast_10")):
        (ladder / file).write_text(named(text, kernel))
    git(root, "commit", "--all", "--quiet", "--message", "names that say times")
    events: list[Event] = []
    settings = Settings(task="scale", device=DeviceName("gpu", "0"), iterations=5, cluster=Cluster("processes", 2))
    evolve(settings, root, events.append)
    notes = [event.note for event in events if event.note]
    assert len([note for note in notes if note.startswith("A/A control at measure")]) == 2, notes
    assert not [note for note in notes if "is lost" in note or "not used" in note], notes
    records = load_records(root, settled=True)
    assert [record.kept for record in records].count(True) == 2
    assert all(record.evaluation.control for record in records[1:] if record.status.value == "measured")
    assert "fast_10" in (root / "kernels" / "scale" / "champions" / "h200-sm_89.cu").read_text()
    assert git(root, "status", "--porcelain") == ""
    assert {"start", "finish", "control", "gains"} <= InProcessTransport.asked
