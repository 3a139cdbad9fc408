"""Commands on one FILE: check, bench, try, compile. Exit code 1 where the variant fails."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evo.cli import views
from evo.cli.options import (
    DEFAULT_ARCH,
    ArchWord,
    AsJson,
    DeviceWord,
    KernelFile,
    Seed,
    Subject,
    TaskWord,
    choose_device,
    read_subject,
    session_of,
)
from evo.cli.terminal import out_json, say

if TYPE_CHECKING:
    from evo.evaluate import Workbench
    from evo.result import Evaluation, Json

FAILED = 1


def check(
    context: typer.Context,
    file: KernelFile,
    task: TaskWord = None,
    device: DeviceWord = "auto",
    arch: ArchWord = DEFAULT_ARCH,
    seed: Seed = 0,
    counters: Annotated[bool, typer.Option("--counters", help="Also print the simulator's event counters.")] = False,
    json: AsJson = False,
) -> int:
    """Check that a variant is correct. Runs the gate: every check case, memory faults, races, error budget."""
    subject = read_subject(session_of(context), file, task)
    evaluation = _evaluated(subject, device, arch, seed, upto="check")
    if json:
        out_json(check_json(subject, evaluation))
    else:
        views.show_check(evaluation, subject.path)
        if counters:
            views.show_counters(evaluation, subject.variant.text)
    return 0 if evaluation.status.passed else FAILED


def bench(
    context: typer.Context,
    file: KernelFile,
    against: Annotated[
        Path | None, typer.Option("--against", metavar="FILE", help="Compare with this variant, side by side.")
    ] = None,
    task: TaskWord = None,
    device: DeviceWord = "auto",
    arch: ArchWord = DEFAULT_ARCH,
    seed: Seed = 0,
    json: AsJson = False,
) -> int:
    """Time a variant, alone or against another. Checks it first; measured on a GPU, modelled on the simulator."""
    session = session_of(context)
    subject = read_subject(session, file, task)
    rival = read_subject(session, against, task or subject.task.name).variant.text if against else None
    evaluation = _evaluated(subject, device, arch, seed, rival=rival)
    if json:
        out_json(bench_json(subject, evaluation))
    else:
        views.show_bench(evaluation, subject.path)
    return 0 if evaluation.status.passed else FAILED


def attempt(
    context: typer.Context,
    file: KernelFile,
    task: TaskWord = None,
    device: DeviceWord = "auto",
    arch: ArchWord = DEFAULT_ARCH,
    seed: Seed = 0,
    json: AsJson = False,
) -> int:
    """Judge a variant as the loop would. Checks it, times it against the champion and decides; writes nothing."""
    from evo.evaluate import Job, Workbench, evaluate

    subject = read_subject(session_of(context), file, task)
    with Workbench(choose_device(device), arch=arch) as workbench:
        champion = subject.task.champion_path(workbench.chip_slug, workbench.arch)
        rival = champion.read_text(encoding="utf-8") if champion.is_file() else None
        if rival is None:
            say(f"no champion of {subject.task.name} for {workbench.chip_slug} {workbench.arch} yet: nothing to beat")
        say(f"trying {file} on {workbench.device}")
        job = Job(task=subject.task, text=subject.variant.text, path=str(subject.path), seed=seed, rival=rival)
        evaluation = evaluate(job, workbench)
    if json:
        out_json(bench_json(subject, evaluation) | check_json(subject, evaluation))
    else:
        views.show_check(evaluation, subject.path)
        views.show_bench(evaluation, subject.path, headed=False)
    return 0 if evaluation.status.passed else FAILED


def compile_file(
    context: typer.Context,
    file: KernelFile,
    task: TaskWord = None,
    arch: ArchWord = DEFAULT_ARCH,
    json: AsJson = False,
) -> int:
    """Compile a variant and report. Registers, spills, shared bytes, instruction mix; needs no GPU."""
    from evo.device import parse_device
    from evo.evaluate import Failed, Workbench, prepare

    subject = read_subject(session_of(context), file, task)
    with Workbench(parse_device("sim"), arch=arch) as workbench:
        prepared = prepare(subject.task, subject.variant.text, workbench, path=str(subject.path))
    failed = isinstance(prepared, Failed)
    report: dict[str, Json] = {
        "variant": subject.variant.id,
        "arch": workbench.arch,
        "status": prepared.status.value if isinstance(prepared, Failed) else "compiled",
        "warnings": [prepared.reason] if isinstance(prepared, Failed) else [],
        "kernels": [],
        **prepared.compile_json,
    }
    if json:
        out_json(report)
    else:
        views.show_compile(report, subject.path)
    return FAILED if failed else 0


def _evaluated(
    subject: Subject, device: str, arch: str, seed: int, *, upto: str = "bench", rival: str | None = None
) -> Evaluation:
    from evo.evaluate import Job, evaluate

    with _workbench(device, arch) as workbench:
        say(f"{'checking' if upto == 'check' else 'timing'} {subject.path} on {workbench.device}")
        job = Job(
            task=subject.task, text=subject.variant.text, path=str(subject.path), seed=seed, rival=rival, upto=upto
        )
        return evaluate(job, workbench)


def _workbench(device: str, arch: str) -> Workbench:
    from evo.evaluate import Workbench

    return Workbench(choose_device(device), arch=arch)


def check_json(subject: Subject, evaluation: Evaluation) -> dict[str, Json]:
    """The shape of `evo check --json`."""
    check = evaluation.check
    found = check.to_json() if check is not None else {}
    shape: dict[str, Json] = {
        "variant": evaluation.variant or subject.variant.id,
        "task": subject.task.name,
        "device": evaluation.environment.device,
        "arch": evaluation.environment.arch,
        "cases": [],
        "faults": [],
        "counters": {},
        **found,
        "status": evaluation.status.value,
        "reason": evaluation.reason,
    }
    return shape


def bench_json(subject: Subject, evaluation: Evaluation) -> dict[str, Json]:
    """The shape of `evo bench --json`."""
    shape: dict[str, Json] = {
        "variant": evaluation.variant or subject.variant.id,
        "task": subject.task.name,
        "device": evaluation.environment.device,
        "arch": evaluation.environment.arch,
        "status": evaluation.status.value,
        "reason": evaluation.reason,
        "timing": evaluation.environment.timing,
        "cases": [case.to_json() for case in evaluation.bench],
    }
    if evaluation.decision is not None:
        shape["decision"] = evaluation.decision.to_json()
        if evaluation.decision.gain is not None:
            shape["gain"] = evaluation.decision.gain.to_json()
    return shape
