"""Failure modes without a kernel: bad input to evo's procedures, each through the user's interface."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from evo.analysis.roofline import limits
from evo.audit.redteam.attack import Attack
from evo.audit.redteam.run_attack import Judgement, Outcome
from evo.cuda.source import classify, tree_difference
from evo.decide.sequential import require_same
from evo.errors import EvoError, UsageError
from evo.evaluate.gate import check_task
from evo.results import Environment
from evo.spec.chips import chip
from evo.spec.reference import load_reference
from evo.spec.task import read_task


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """One failure mode of evo's procedures. attempt: tries it; returns the defence that refused it, or None."""

    name: str
    row: str
    task: str
    idea: str
    naive: str
    defence: str
    attempt: Callable[[Path], str | None]


def run_procedure(procedure: Procedure, tasks: Path) -> Outcome:
    """Try one failure mode on the task folders in `tasks`."""
    started = time.monotonic()
    refusal = procedure.attempt(tasks)
    found = Judgement(
        status="accepted" if refusal is None else "refused",
        reason=refusal or "nothing refused it",
        defence=procedure.defence,
        kept=refusal is None,
    )
    return Outcome(
        attack=procedure.name,
        rows=(procedure.row,),
        task=procedure.task,
        idea=procedure.idea,
        naive=procedure.naive,
        counts=True,
        found=found,
        elapsed_s=time.monotonic() - started,
    )


def _many_changes(tasks: Path) -> str | None:
    """Two rungs in one step: another reduction, vector loads, a new loop."""
    ladder = tasks / "softmax" / "ladder"
    before, after = ((ladder / name).read_text(encoding="utf-8") for name in ("10_block.cu", "20_vector.cu"))
    verdict = classify(tree_difference(before, after))
    return None if verdict.is_single else f"not one change: {verdict.why}"


def _loose_task(tasks: Path) -> str | None:
    """A softmax with bounds above its outputs, and no implementation to take an error budget from."""
    change = {"tolerance": "  {rtol: 1e-2, atol: 2, rival_error_factor: 2, because: it has to pass}"}

    def attempt(folder: Path) -> None:
        with (folder / "reference.py").open("a", encoding="utf-8") as file:
            file.write("\n\ndel trusted\n")
        task = read_task(folder)
        check_task(task, load_reference(task))

    with _changed(tasks / "softmax", change) as folder:
        return _refusal(lambda: attempt(folder), folder)


def _other_place(tasks: Path) -> str | None:
    """A baseline from another driver and clock policy, as a record of last week would hold."""
    here = Environment(
        device="gpu:0",
        chip="l4",
        arch="sm_89",
        loaded="cubin",
        toolkit="NVRTC 13.0",
        harness="this",
        task_hash=read_task(tasks / "attention").hash,
        detail={"driver": "580.95", "clock_policy": "locked"},
    )
    cold = replace(here, detail={"driver": "550.54", "clock_policy": "free"})
    return _refusal(lambda: require_same(cold, here))


def _low_target(tasks: Path) -> str | None:
    """The seeds' target for the long case, 30 us, is a fortieth of what the tensor cores need for it."""

    def attempt(folder: Path) -> None:
        task = read_task(folder)
        limits(task, task.case("long"), chip("l4"))

    with _changed(tasks / "attention", {"targets": "  l4: {long: 30}"}) as folder:
        return _refusal(lambda: attempt(folder), folder)


def _unknown_metric(tasks: Path) -> str | None:
    change = {"gates": "  no_conflicts: shared_load_transactions_per_request < 2"}
    with _changed(tasks / "matmul", change) as folder:
        return _refusal(lambda: read_task(folder), folder)


def _refusal(attempt: Callable[[], object], folder: Path | None = None) -> str | None:
    """The message of the refusal, with paths as seen from the task folder."""
    try:
        attempt()
    except EvoError as error:
        return error.message.replace(f"{folder}/", "") if folder is not None else error.message
    return None


@contextmanager
def _changed(task: Path, sections: dict[str, str]) -> Iterator[Path]:
    """A copy of a task folder whose task.yaml has these sections instead of its own."""
    with tempfile.TemporaryDirectory(prefix="evo-redteam-") as folder:
        copy = Path(folder) / task.name
        shutil.copytree(task, copy, ignore=shutil.ignore_patterns("champions", "wrong", "__pycache__"))
        kept: list[str] = []
        inside = False
        for line in (copy / "task.yaml").read_text(encoding="utf-8").splitlines():
            if line[:1] not in (" ", "#", ""):
                inside = line.partition(":")[0] in sections
            if not inside:
                kept.append(line)
        for name, body in sections.items():
            kept += [f"{name}:", body]
        (copy / "task.yaml").write_text("\n".join(kept) + "\n", encoding="utf-8")
        yield copy


PROCEDURES: tuple[Procedure, ...] = (
    Procedure(
        name="loose_task",
        row="18",
        task="softmax",
        idea="Adds a task whose tolerance is larger than its outputs.",
        naive="accepts zeros for it from then on",
        defence="self-test of the task",
        attempt=_loose_task,
    ),
    Procedure(
        name="big_bang",
        row="F6",
        task="softmax",
        idea="Proposes a whole new kernel as if it were one change.",
        naive="accepts any faster file; the cause of the gain stays unknown",
        defence="one change at a time",
        attempt=_many_changes,
    ),
    Procedure(
        name="foreign_baseline",
        row="F10",
        task="attention",
        idea="Compares with a baseline from another driver and clock policy.",
        naive="divides any two numbers",
        defence="environment of every record",
        attempt=_other_place,
    ),
    Procedure(
        name="impossible_target",
        row="F15",
        task="attention",
        idea="States a target of 30 us for a case whose tensor-core floor is above 1 ms.",
        naive="aims at it",
        defence="limits",
        attempt=_low_target,
    ),
    Procedure(
        name="unknown_metric",
        row="F16",
        task="matmul",
        idea="Bounds a metric that no tool has counted since nvprof.",
        naive="reports n/a and passes",
        defence="metric names",
        attempt=_unknown_metric,
    ),
)


def chosen(attacks: Sequence[Attack], words: Sequence[str]) -> tuple[tuple[Attack, ...], tuple[Procedure, ...]]:
    """The attacks and procedures with these names, rows or tasks; all of them without any.

    Raises UsageError for an unknown word.
    """
    known: dict[str, set[str]] = {attack.name: {attack.name, attack.task, *attack.rows} for attack in attacks}
    known |= {procedure.name: {procedure.name, procedure.task, procedure.row} for procedure in PROCEDURES}
    for word in words:
        if not any(word in meant for meant in known.values()):
            raise UsageError(
                f"no attack, row or task {word!r}", problem="unknown-name", hint=f"attacks: {', '.join(known)}"
            )

    def wanted(name: str) -> bool:
        return not words or bool(known[name] & set(words))

    return (
        tuple(attack for attack in attacks if wanted(attack.name)),
        tuple(procedure for procedure in PROCEDURES if wanted(procedure.name)),
    )
