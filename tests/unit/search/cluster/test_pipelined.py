"""What becomes of a candidate that was overtaken: verdicts in order, and no keep against a champion of before."""

from __future__ import annotations

import time
from concurrent.futures import Future
from pathlib import Path

import pytest
from in_process_site import InProcessSite
from refusals import refused
from run_killer import problems
from scripted_site import evaluation_of
from tiny import FAST, SLOW, environment, new_repository

from evo.device import DeviceName
from evo.errors import UsageError
from evo.evaluate.pipeline import Job
from evo.operators import Proposal, carried
from evo.records.trials import load_records
from evo.results import Decision, Evaluation, Gain, Verdict
from evo.search.candidate import candidate_of
from evo.search.cluster import Cluster, KnownCode, open_site, parse_cluster
from evo.search.cluster.spec import compiling_beside
from evo.search.events import Event, TrialResult
from evo.search.loop import Settings, evolve
from evo.search.observers import InTime
from evo.search.pipelined import InFlight
from evo.search.single_trial import TrialJobs
from evo.spec.task import Task, load_task
from evo.spec.variant import parse_variant

PARENT = parse_variant(SLOW)
CHAMPION = parse_variant(SLOW.replace("#define THREADS 32", "#define THREADS 64"))  # what overtook it
UNROLLED = SLOW.replace("    for (int", "    #pragma unroll 4\n    for (int")
BOTH = CHAMPION.text.replace("    for (int", "    #pragma unroll 4\n    for (int")


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return load_task(new_repository(tmp_path_factory.mktemp("flight") / "mine"), "scale")


def proposal(text: str, kind: str = "mutation") -> Proposal:
    words = dict.fromkeys(("summary", "reason", "expected", "risk"), "")
    return Proposal(
        operator="rules.test", kind=kind, variant=parse_variant(text), arguments={"rung": "10_fast.cu"}, **words
    )


class Judge:
    """A pool that gives the verdicts it was told, and remembers what was held against what."""

    width = 2
    overtakes = False

    def __init__(self, *verdicts: Verdict) -> None:
        self.verdicts = list(verdicts)
        self.held: list[tuple[str, str | None]] = []

    def submit_new(self, job: Job, known: set[str]) -> Future[Evaluation | KnownCode]:
        future: Future[Evaluation | KnownCode] = Future()
        is_known = parse_variant(job.text).id in known  # as if that were its machine code
        future.set_result(KnownCode("known") if is_known else self.evaluate(job))
        return future

    def evaluate(self, job: Job) -> Evaluation:
        self.held.append((job.text, job.rival))
        found = evaluation_of(job, "gpu:0")
        decision = Decision(verdict=self.verdicts.pop(0), reason="told", gain=Gain(ratio=1.3))
        return Evaluation(
            variant=found.variant, status=found.status, reason=None, environment=found.environment, decision=decision
        )


def in_flight(task: Task, judge: Judge) -> InFlight:
    jobs = TrialJobs(task=task, path=Path("tried.cu"), seed=0)
    return InFlight(task, judge, jobs, InTime(lambda _: None, None, time.monotonic))  # type: ignore[arg-type]


def test_a_gain_over_a_replaced_champion_is_proved_anew_on_the_new_one(task: Task) -> None:
    judge = Judge(Verdict.KEEP, Verdict.KEEP)
    under_way = in_flight(task, judge)
    under_way.submit(candidate_of(task, proposal(UNROLLED), PARENT), PARENT)
    judged = under_way.next(CHAMPION, set())
    assert judged is not None
    assert judge.held == [(UNROLLED, PARENT.text), (BOTH, CHAMPION.text)]
    assert judged.candidate.proposal.text == BOTH
    assert judged.candidate.parent is CHAMPION
    assert judged.candidate.proposal.arguments["carried_from"] == PARENT.id
    assert judged.candidate.proposal.arguments["gain_before"] == 1.3


def test_the_second_verdict_counts(task: Task) -> None:
    under_way = in_flight(task, Judge(Verdict.KEEP, Verdict.REVERT))
    under_way.submit(candidate_of(task, proposal(UNROLLED), PARENT), PARENT)
    judged = under_way.next(CHAMPION, set())
    assert judged.evaluation is not None
    assert judged.evaluation.decision is not None
    assert judged.evaluation.decision.verdict is Verdict.REVERT


@pytest.mark.parametrize(
    ("text", "tried"), [(SLOW.replace("#define THREADS 32", "#define THREADS 128"), set()), (UNROLLED, {"known"})]
)
def test_what_does_not_fit_or_is_known_there_is_stale_and_not_kept(task: Task, text: str, tried: set[str]) -> None:
    judge = Judge(Verdict.KEEP)
    under_way = in_flight(task, judge)
    under_way.submit(candidate_of(task, proposal(text), PARENT), PARENT)
    judged = under_way.next(CHAMPION, {parse_variant(BOTH).id} if tried else set())
    assert len(judge.held) == 1
    assert judged.candidate.parent is PARENT  # the record names what it was really held against
    decision = judged.evaluation.decision if judged.evaluation else None
    assert decision is not None
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.reason.startswith("stale: ")
    assert CHAMPION.id in decision.reason


def test_what_was_not_to_be_kept_stays_as_it_was_judged(task: Task) -> None:
    judge = Judge(Verdict.REVERT)
    under_way = in_flight(task, judge)
    under_way.submit(candidate_of(task, proposal(UNROLLED), PARENT), PARENT)
    judged = under_way.next(CHAMPION, set())
    assert (judged.candidate.proposal.text, judged.candidate.parent, len(judge.held)) == (UNROLLED, PARENT, 1)


def test_on_one_device_what_a_keep_overtook_is_submitted_anew_at_once(task: Task) -> None:
    judge = Judge(*[Verdict.REVERT] * 6)
    judge.overtakes = True
    under_way = in_flight(task, judge)
    elsewhere = SLOW.replace("#define THREADS 32", "#define THREADS 128")  # where the champion differs
    for text in (elsewhere, UNROLLED):
        under_way.submit(candidate_of(task, proposal(text), PARENT), PARENT)
    assert under_way.follow(PARENT, set()) == 0
    assert len(judge.held) == 2
    assert under_way.follow(CHAMPION, set()) == 1  # the first does not fit
    assert judge.held[2:] == [(BOTH, CHAMPION.text)]
    judged = under_way.next(CHAMPION, set())
    assert judged.candidate.parent is CHAMPION
    assert judged.candidate.proposal.arguments["carried_from"] == PARENT.id
    assert not len(under_way)


def test_a_rung_and_a_search_from_one_root_are_held_against_the_new_champion_as_they_are(task: Task) -> None:
    for kind, parent, rival in (("rung", PARENT, PARENT), ("mutation", parse_variant(FAST), PARENT)):
        judge = Judge(Verdict.KEEP, Verdict.KEEP)
        under_way = in_flight(task, judge)
        text = FAST if kind == "rung" else FAST.replace("THREADS 128", "THREADS 64")
        under_way.submit(candidate_of(task, proposal(text, kind), parent), rival)
        judged = under_way.next(CHAMPION, set())
        assert judge.held[1] == (text, CHAMPION.text)
        assert judged.candidate.parent is (CHAMPION if kind == "rung" else parent)


def test_landing_follows_the_order_of_leaving_and_what_is_refused_or_known_needs_no_judge(task: Task) -> None:
    judge = Judge(Verdict.REVERT, Verdict.REVERT)
    under_way = in_flight(task, judge)
    texts = [
        UNROLLED,
        BOTH,
        CHAMPION.text,
        SLOW.replace("#define THREADS 32", "#define THREADS 128"),
    ]
    for text in texts:  # the second is more than one change of its parent
        under_way.submit(candidate_of(task, proposal(text), PARENT), PARENT, known={parse_variant(texts[2]).id})
    assert under_way.room == 0
    judged = [under_way.next(PARENT, set()) for _ in texts]
    assert [one.candidate.proposal.text if one else None for one in judged] == [*texts[:2], None, texts[3]]
    assert [one is not None and one.evaluation is None for one in judged] == [False, True, False, False]
    assert under_way.room == 4


def test_changes_of_neighbouring_lines_both_come_along_and_of_the_same_line_do_not() -> None:
    fewer = SLOW.replace(" 0\n#define", " 64\n#define")  # the launch line, right above the knob's
    moved = carried(proposal(fewer), PARENT, CHAMPION)
    assert moved is not None
    assert "shared 64" in moved.text
    assert "#define THREADS 64" in moved.text
    assert carried(proposal(CHAMPION.text), PARENT, CHAMPION) is None  # the same change: nothing is left of it


def test_what_a_cluster_may_be_called() -> None:
    assert parse_cluster("processes:1") == Cluster("processes", 1)
    assert parse_cluster("ray://head.example:10001").address == "ray://head.example:10001"
    assert str(parse_cluster("ray:auto")) == "ray:auto"
    for wrong in (
        "processes",
        "processes:0",
        "processes:x",
        "processes:9999",
        "local:2",
        "ray://head",
        "ray:",
        "slurm:4",
        "processes:-1",
    ):
        with pytest.raises(UsageError, match=r"--cluster") as raised:
            parse_cluster(wrong)
        assert raised.value.hint


def test_compiling_takes_what_cores_are_left() -> None:
    gpu, sim = DeviceName("gpu", "0"), DeviceName("sim", "l4")
    assert compiling_beside(4, gpu, cores=64) == 30
    assert compiling_beside(1, gpu, cores=64) == 8
    assert compiling_beside(2, sim, cores=2) == 1


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with refused(UsageError, "not-installed") as raised:
        open_site(parse_cluster("ray:auto"), DeviceName("sim", "l4"))
    assert "evo-kernels[cluster]" in raised.value.hint
    assert "processes:N" in raised.value.hint


def test_more_workers_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("evo.search.cluster.sites.gpu_count", lambda: 2)
    with pytest.raises(UsageError, match="2 GPUs"):
        open_site(parse_cluster("processes:3"), DeviceName("gpu", "0"))


@pytest.mark.long
def test_the_loop_on_a_fleet_decides_and_writes_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evo.search.pipelined.open_site", InProcessSite)
    root = new_repository(tmp_path / "mine")
    for key, value in environment().items():
        monkeypatch.setenv(key, value)
    settings = Settings(
        task="scale",
        device=DeviceName("sim", "l4"),
        operators=("patch", "ladder"),
        patch=root / "wrong.cu",
        iterations=3,
        cluster=Cluster("processes", 1),
    )
    events: list[Event] = []
    evolve(settings, root, events.append)
    rows = [event.about for event in events if isinstance(event.about, TrialResult)]
    told = [(row.operator, row.status, row.decision, row.commit is not None) for row in rows]
    assert told == [
        ("start", "correct", None, True),
        ("patch", "wrong", None, False),
        ("ladder", "correct", "keep", True),
    ]
    assert problems(root, load_records(root, settled=True)) == []
