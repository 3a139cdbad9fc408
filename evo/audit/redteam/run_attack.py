"""One attack against both judges: the naive harness, which should accept it, and evo's pipeline, which must not."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar

from evo.audit.redteam.attack import Attack, task_folder
from evo.audit.redteam.naive_harness import PLANTED_NUMBER, NaiveHarness, NaiveVerdict
from evo.errors import EvoError
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.results import Evaluation, Stage, Status, Verdict
from evo.results.codec import ALWAYS, NEVER, Decimals, Serializable
from evo.spec.task import Task, read_task

FAULT = "harness fault"
_PLANTED = "@PLANTED@"
_DEFENCES: dict[Stage | None, str] = {
    Stage.RULES: "static rules",
    Stage.LIMITS: "limits of the chip",
    Stage.COMPILE: "compiler: warnings are errors",
    Stage.COMPILE_LIMIT: "compile limit",
    Stage.METRICS: "gate: bounds on metrics",
    Stage.ESTIMATE: "checkers while estimating",
    Stage.BENCH: "timing audit",
}
_FOUND = {
    Status.UNSAFE: "gate: memory and race checkers",
    Status.WRONG: "gate: numbers",
    Status.UNSTABLE: "gate: determinism and poisons",
    Status.TIMED_OUT: "gate: execution budget",
    Status.CRASHED: "gate: isolated worker",
    Status.REFUSED: "gate: simulator",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement(Serializable):
    """evo's verdict on one attack."""

    status: str  # how far it got
    reason: str  # why it ended there
    # what the verdict rests on: stage, rule, fault, mismatch, case, inputs, verdict, ground; those that it has
    facts: Annotated[Mapping[str, str], ALWAYS] = field(default_factory=dict)
    defence: str  # which defence stopped it
    kept: bool  # whether it would have been kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Serializable):
    """The outcome of one attack."""

    COMPUTED: ClassVar = ("status", "reason", "facts", "defence", "kept", "verdict")

    attack: str  # its name
    rows: Annotated[tuple[str, ...], ALWAYS]  # of the tables that it belongs to
    task: str  # the task that it attacks
    idea: str  # what it does
    naive: str  # what a naive harness says of it
    naive_speedup: Annotated[float | None, Decimals(3)] = None  # that the naive harness believes in
    counts: bool  # whether the naive harness takes it, or it is no cheat but a failure that has happened
    # what evo says with the static rules off, if those refused it first
    without_static_rules: Judgement | None = None
    as_expected: bool = True  # whether it ended as its file says
    elapsed_s: Annotated[float, Decimals(2)] = 0.0  # how long it took
    found: Annotated[Judgement, NEVER]  # what evo says
    fault: Annotated[bool, NEVER] = False  # whether the harness failed, and nobody has judged

    @property
    def status(self) -> str:
        """How far it got."""
        return self.found.status

    @property
    def reason(self) -> str:
        """Why it ended there."""
        return self.found.reason

    @property
    def facts(self) -> Mapping[str, str]:
        """What the verdict rests on: stage, rule, fault, mismatch, case, inputs, verdict, ground; those that it has."""
        return self.found.facts

    @property
    def defence(self) -> str:
        """Which defence stopped it."""
        return self.found.defence

    @property
    def kept(self) -> bool:
        """Whether it would have been kept."""
        return self.found.kept

    @property
    def verdict(self) -> str:
        """`lost`, `won`, `harness fault`, or `does not count` if not even the naive harness takes it."""
        if self.fault:
            return FAULT
        if self.kept:
            return "won"
        return "lost" if self.counts else "does not count"


def faulty(name: str, rows: tuple[str, ...], task: str, idea: str, error: Exception, started: float) -> Outcome:
    """The outcome if the harness failed; `started` on the monotonic clock."""
    said = error.message if isinstance(error, EvoError) else f"{type(error).__name__}: {error}"
    return Outcome(
        attack=name,
        rows=rows,
        task=task,
        idea=idea,
        naive="-",
        counts=False,
        found=Judgement(status="fault", reason=" ".join(said.split()), defence="none", kept=False),
        as_expected=False,
        elapsed_s=time.monotonic() - started,
        fault=True,
    )


@contextmanager
def planted_file() -> Iterator[Path]:
    """A harmless file that hostile includes look for, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="evo-redteam-") as folder:
        path = Path(folder) / "planted.h"
        path.write_text(f"#define PLANTED {PLANTED_NUMBER}\n", encoding="utf-8")
        yield path


def run_attack(attack: Attack, tasks: Path, bench: EvaluationSession, naive: NaiveHarness, *, seed: int = 0) -> Outcome:
    """Judge one attack with both judges; `tasks` holds the task folders. Raises EvoError only for harness faults."""
    with _task_of(attack, tasks) as task:
        return _run(attack, task, bench, naive, seed)


@contextmanager
def _task_of(attack: Attack, tasks: Path) -> Iterator[Task]:
    """The attack's task; with the attack's own gate, a copy of its folder that has it."""
    if attack.gate is None:
        yield read_task(task_folder(attack.task, tasks))
        return
    with tempfile.TemporaryDirectory(prefix="evo-redteam-") as folder:
        copy = Path(folder) / attack.task
        shutil.copytree(
            task_folder(attack.task, tasks), copy, ignore=shutil.ignore_patterns("champions", "wrong", "__pycache__")
        )
        with (copy / "task.yaml").open("a", encoding="utf-8") as file:
            file.write(f"gates:\n  redteam: {attack.gate}\n")
        yield read_task(copy)


def _run(attack: Attack, task: Task, bench: EvaluationSession, naive: NaiveHarness, seed: int) -> Outcome:
    started = time.monotonic()
    text = attack.text.replace(_PLANTED, str(naive.planted))
    rival = attack.rival_path(task).read_text(encoding="utf-8")

    def judged(static_rules: bool) -> Judgement:
        job = Job(
            task=task,
            text=text,
            path=attack.path.name,
            seed=seed,
            rival=rival,
            static_rules=static_rules,
            sanitize=True,  # the same checks as before a keep
        )
        found = finding_of(_evaluated(job, bench))
        return replace(found, reason=found.reason.replace(str(naive.planted), naive.planted.name))

    with ThreadPoolExecutor(1, thread_name_prefix="evo-naive") as beside:
        coming = beside.submit(naive.judge, attack, text, task, bench.reference(task))
        found = judged(True)
        behind = judged(False) if attack.behind is not None else None
        said = coming.result()
    return Outcome(
        attack=attack.name,
        rows=attack.rows,
        task=attack.task,
        idea=attack.idea,
        naive=said.said,
        naive_speedup=said.speedup,
        counts=_counts(attack, said),
        found=found,
        without_static_rules=behind,
        as_expected=_as_expected(attack, bench.device.kind, found, behind),
        elapsed_s=time.monotonic() - started,
    )


def _evaluated(job: Job, bench: EvaluationSession) -> Evaluation:
    """A kept variant has passed every step. On a GPU the timing comes last, since it needs the GPU alone."""
    if not bench.modelled:
        proven = evaluate(replace(job, upto="timed", sanitize=False), bench)
        if not proven.status.passed:
            return proven
    return evaluate(job, bench)


def _counts(attack: Attack, said: NaiveVerdict) -> bool:
    # A failure mode is not a cheat: it is in the folder because it happened, not because someone gains by it.
    return said.accepted or attack.is_fixture


def _as_expected(attack: Attack, device: str, found: Judgement, behind: Judgement | None) -> bool:
    """Whether the verdicts are those of its header; `behind` says what the simulator answers."""
    if not attack.expected_on(device).holds(found.facts):
        return False
    if behind is None or attack.behind is None:
        return True
    return not behind.kept and (device == "gpu" or attack.behind.holds(behind.facts))


def finding_of(evaluation: Evaluation) -> Judgement:
    """The end of one evaluation: the step that stopped it, and what that rests on."""
    decision, kept, reason = evaluation.decision, evaluation.status.passed, evaluation.reason or ""
    defence = _DEFENCES.get(evaluation.stage) or _FOUND.get(evaluation.status, "gate")
    if kept and decision is not None:
        kept, reason = decision.verdict is Verdict.KEEP, f"{decision.verdict.value}: {decision.reason}"
        defence = "decision"
    status, facts = evaluation.status.value, facts_of(evaluation)
    return Judgement(status=status, reason=reason, facts=facts, defence=defence, kept=kept)


def facts_of(evaluation: Evaluation) -> dict[str, str]:
    """The facts of `attack.FACTS` that an evaluation has; its decision counts only if it passed the checks."""
    check, decision = evaluation.check, evaluation.decision
    passed = evaluation.status.passed
    failed = check.failed if check is not None and not passed else None
    facts: dict[str, str | None] = {
        "status": Status.CORRECT if passed else evaluation.status,
        "stage": evaluation.stage,
        "rule": evaluation.rule,
        "fault": check.faults[0].kind if check is not None and check.faults and not passed else None,
        "mismatch": failed.mismatch.kind if failed is not None and failed.mismatch is not None else None,
        "case": failed.name if failed is not None else None,
        "inputs": failed.inputs[-1] if failed is not None and failed.inputs else None,
        "verdict": decision.verdict if decision is not None and passed else None,
        "ground": decision.ground if decision is not None and passed else None,
    }
    return {name: str(value) for name, value in facts.items() if value is not None}
