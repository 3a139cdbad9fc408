"""Commands on one FILE: check, bench, try, compile. If the variant fails, the exit code is 1."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Option

from evo.cli import evaluation_view
from evo.cli.command_context import FileSubject, read_subject, session_of
from evo.cli.options import (
    DEFAULT_ARCH,
    ArchWord,
    AsJson,
    DeviceWord,
    KernelFile,
    SecretSeed,
    TaskWord,
    choose_device,
    seed_or_secret,
)
from evo.cli.prompt import read_edits
from evo.cli.stage_line import stage
from evo.cli.terminal import out_json, say
from evo.errors import UsageError

if TYPE_CHECKING:
    from evo.evaluate.pipeline import EvaluationSession
    from evo.results import Evaluation
    from evo.results.coverage import Coverage
    from evo.spec.chips import Chip
    from evo.spec.task import Task

FAILED = 1


def check(
    context: Context,
    file: KernelFile,
    task: TaskWord = None,
    device: DeviceWord = "auto",
    arch: ArchWord = DEFAULT_ARCH,
    seed: SecretSeed = None,
    coverage: Annotated[
        bool, Option("--coverage", help="Also list the conditions with an outcome that no case exercises.")
    ] = False,
    sanitize: Annotated[
        bool, Option("--sanitize", help="On a GPU: also run compute-sanitizer, as before a keep.")
    ] = False,
    timed: Annotated[
        bool, Option("--timed", help="Also check every timed size on the simulator, as before a keep.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Check that a variant is correct. The gate runs all check cases and finds memory faults, races, wrong numbers."""
    subject = read_subject(session_of(context), file, task)
    seed = seed_or_secret(seed)
    with _bench_session(device, arch, subject.task) as bench_session:
        if sanitize and bench_session.modelled:
            hint = "use --device gpu:0, or leave it out: the simulator's own checkers always run"
            raise UsageError("--sanitize needs a GPU", hint=hint)
        say(f"checking {subject.path} on {bench_session.device}")
        evaluation = _evaluated(subject, bench_session, seed, upto="timed" if timed else "check", sanitize=sanitize)
        covered = _exercised(subject, bench_session, seed) if coverage and evaluation.status.passed else None
    if json:
        from evo.cli.outputs import CheckOutput

        out_json(CheckOutput.of(evaluation, subject, covered).to_json())
        return 0 if evaluation.status.passed else FAILED
    evaluation_view.show_check(evaluation, subject.path)
    if covered is not None:
        evaluation_view.show_coverage(covered, subject.variant.text)
    return 0 if evaluation.status.passed else FAILED


def bench(
    context: Context,
    file: KernelFile,
    against: Annotated[
        Path | None, Option("--against", metavar="FILE", help="Compare with this variant, in interleaved pairs.")
    ] = None,
    task: TaskWord = None,
    device: DeviceWord = "auto",
    arch: ArchWord = DEFAULT_ARCH,
    seed: SecretSeed = None,
    l2_persist: Annotated[
        bool, Option("--l2-persist", help="On a GPU: also time it with its inputs kept in L2, for information.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Check and time a variant, alone or against another. Times are measured on a GPU, modelled on the simulator."""
    session = session_of(context)
    subject = read_subject(session, file, task)
    rival = read_subject(session, against, task or subject.task.name).variant.text if against else None
    with _bench_session(device, arch, subject.task) as bench_session:
        if l2_persist and bench_session.modelled:
            hint = "use --device gpu:0, or leave it out: the model keeps in L2 whatever fits"
            raise UsageError("--l2-persist needs a GPU", hint=hint)
        say(f"checking and timing {subject.path} on {bench_session.device}")
        seed = seed_or_secret(seed)
        evaluation = _evaluated(subject, bench_session, seed, rival=rival)
        kept = l2_persist and evaluation.status.passed
        persisting = bench_session.persisting(subject.task, subject.variant.text, seed) if kept else ()
    if json:
        from evo.cli.outputs import BenchOutput

        out_json(BenchOutput.of(evaluation, subject, l2_persist=persisting).to_json())
    else:
        evaluation_view.show_bench(evaluation, subject.path)
        evaluation_view.show_persisting(evaluation.bench, persisting)
    return 0 if evaluation.status.passed else FAILED


def try_file(
    context: Context,
    file: Annotated[Path | None, Argument(metavar="FILE", show_default=False, help="A .cu variant.")] = None,
    task: TaskWord = None,
    device: DeviceWord = "auto",
    arch: ArchWord = DEFAULT_ARCH,
    seed: SecretSeed = None,
    edits: Annotated[
        Path | None, Option("--edits", metavar="FILE", help="A model's answer, applied to FILE or the champion.")
    ] = None,
    rewrite: Annotated[bool, Option("--rewrite", help="Allow more than one change.")] = False,
    json: AsJson = False,
) -> int:
    """Judge a variant as the loop would: check it, time it against the champion, decide. Writes nothing."""
    from evo.search.single_trial import champion_of, judge_text

    session, seed = session_of(context), seed_or_secret(seed)
    if file is None and edits is None:
        raise UsageError("nothing to try", hint="give a .cu file, or --edits with the answer of a model")
    given = read_subject(session, file, task) if file is not None and edits is None else None
    with _bench_session(device, arch, given.task if given is not None else None) as bench_session:
        subject = given or read_edits(session, file, edits or Path(), task, bench_session)
        if champion_of(subject.task, bench_session) is None:
            say(
                f"no champion of {subject.task.name} for {bench_session.chip_slug} {bench_session.arch} to compare with"
            )
        say(f"trying {subject.path} on {bench_session.device}")
        try:
            text, path = subject.variant.text, str(subject.path)
            evaluation = judge_text(subject.task, text, bench_session, path=path, seed=seed, rewrite=rewrite).evaluation
        finally:
            stage("")
    if json:
        from evo.cli.outputs import BenchOutput, CheckOutput

        check = CheckOutput.of(evaluation, subject)
        out_json(BenchOutput.of(evaluation, subject, check=check).to_json())
    else:
        evaluation_view.show_check(evaluation, subject.path)
        evaluation_view.show_bench(evaluation, subject.path, headed=False)
    return 0 if evaluation.status.passed else FAILED


def compile_file(
    context: Context, file: KernelFile, task: TaskWord = None, arch: ArchWord = DEFAULT_ARCH, json: AsJson = False
) -> int:
    """Compile a variant; show registers, spills, shared bytes and instruction mix. Needs no GPU."""
    from evo.evaluate.prepare import PrepareFailure, prepare
    from evo.results import CompileReport

    subject = read_subject(session_of(context), file, task)
    prepared = prepare(subject.task, subject.variant.text, chip=_chip_of(arch), arch=arch, path=str(subject.path))
    failed = prepared if isinstance(prepared, PrepareFailure) else None
    report = prepared.report
    if report is None:  # it was refused before compilation
        assert failed is not None
        report = CompileReport(
            variant=subject.variant.id, arch=arch, status=failed.status.value, warnings=(failed.reason,)
        )
    if json:
        out_json(report.to_json())
    else:
        evaluation_view.show_compile(report, subject.path)
    return FAILED if failed else 0


def _chip_of(arch: str) -> Chip:
    """A chip of that arch, whose limits the launch plan must meet; the L4 if evo knows none."""
    from evo.spec.chips import CHIPS, chip

    return next((known for known in CHIPS.values() if known.arch == arch), chip("l4"))


def _bench_session(device: str, arch: str, task: Task | None) -> EvaluationSession:
    name = choose_device(device)
    if task is not None:
        from evo.evaluate.begun import begin_processes

        begin_processes(name, task)  # they start during the next line
    from evo.evaluate.pipeline import EvaluationSession

    return EvaluationSession(name, arch=arch, on_stage=stage, task=task)


def _evaluated(
    subject: FileSubject,
    bench_session: EvaluationSession,
    seed: int,
    *,
    upto: str = "bench",
    rival: str | None = None,
    sanitize: bool = False,
) -> Evaluation:
    from evo.evaluate.pipeline import Job, evaluate

    job = Job(
        task=subject.task,
        text=subject.variant.text,
        path=str(subject.path),
        seed=seed,
        rival=rival,
        upto=upto,
        sanitize=sanitize,
    )
    try:
        return evaluate(job, bench_session)
    finally:
        stage("")


def _exercised(subject: FileSubject, bench_session: EvaluationSession, seed: int) -> tuple[Coverage, ...]:
    """What the gate's cases exercise of each of the variant's binaries."""
    from evo.evaluate.gate import exercised
    from evo.evaluate.prepare import PrepareFailure

    prepared = bench_session.prepare(subject.task, subject.variant.text, path=str(subject.path))
    assert not isinstance(prepared, PrepareFailure)  # it has just passed the gate
    stage("coverage")
    reference = bench_session.reference(subject.task)
    found = exercised(subject.task, prepared.programs, reference, bench_session.checker, seed)
    stage("")
    return tuple(found.values())
