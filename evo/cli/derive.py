"""`evo derive`: legal tile configurations of a chip as a document; `--check` checks a file's layouts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Context, Option

from evo.cli.chips import GpuWord, HeadlineCase, choose_chip
from evo.cli.command_context import choose_task, read_subject, session_of
from evo.cli.options import AsJson, TaskName
from evo.cli.stage_line import stage
from evo.cli.terminal import out, out_json, out_words, paint, say

if TYPE_CHECKING:
    from evo.analysis.tiles import Checked, Derivation, Rung
    from evo.cli.analysis_outputs import CheckedLayout, DeriveOutput
    from evo.cli.command_context import GlobalOptions
    from evo.cli.pages.tile_derivation import CompilerReport
    from evo.spec.chips import Chip
    from evo.spec.task import Case, Task
    from evo.spec.variant import Variant

FAILED = 1


def derive(
    context: Context,
    task: TaskName = None,
    gpu: GpuWord = None,
    case: HeadlineCase = None,
    check: Annotated[
        Path | None, Option("--check", metavar="FILE", help="Check the layouts of a .cu file instead.")
    ] = None,
    compiling: Annotated[
        bool, Option("--compile/--no-compile", help="Compile the rungs with the derived knobs, to count registers.")
    ] = True,
    every: Annotated[bool, Option("--all", help="List every rejected configuration.")] = False,
    json: AsJson = False,
) -> int:
    """Derive tiles, warps, stages and layouts from the chip: a document with proofs, predictions and knobs."""
    from evo.analysis.calibration import latest_rates
    from evo.analysis.tiles import derive as derived

    session = session_of(context)
    if check is not None:
        return _check_file(session, check, task, gpu, case, json)
    root = session.root()
    subject = choose_task(root, task)
    chip = choose_chip(gpu)
    chosen = subject.case(case or subject.headline)
    compiler = _Compiler(subject, chip, chosen) if compiling else None
    rates = latest_rates(chip.slug)
    found = derived(subject, chip, chosen, accept=compiler, measured=rates.rates() if rates else None)
    stage("")
    reports = compiler.of(found) if compiler is not None else {}
    if json:
        out_json(derive_output(found, reports).to_json())
    else:
        _show(root, subject, chip, found, reports, every=every)
    return 0


class _Compiler:
    """Compiles a rung with its knobs set; returns the reason if it does not fit."""

    def __init__(self, task: Task, chip: Chip, case: Case) -> None:
        self.task, self.chip, self.case = task, chip, case
        self.reports: dict[str, CompilerReport] = {}

    def __call__(self, variant: Variant) -> str | None:
        from evo.cli.pages.tile_derivation import CompilerReport
        from evo.evaluate.prepare import PrepareFailure, prepare

        name = Path(variant.path).name
        stage(f"compile {name}")
        prepared = prepare(
            self.task, variant.text, chip=self.chip, arch=self.chip.arch, path=variant.path, cases=[self.case]
        )
        if isinstance(prepared, PrepareFailure):
            return prepared.reason.split("\n")[0]
        kernels = [kernel for program in prepared.programs.values() for kernel in program.binary.kernels]
        report = CompilerReport(
            registers=max(kernel.registers for kernel in kernels),
            spill_bytes=sum(kernel.spill_store_bytes for kernel in kernels),
        )
        if report.spill_bytes:
            return f"the compiler spills {report.spill_bytes} bytes at {report.registers} registers"
        self.reports[name] = report
        return None

    def of(self, found: Derivation) -> dict[str, CompilerReport]:
        return {rung.name: self.reports[rung.name] for rung in found.rungs if rung.name in self.reports}


def derive_output(found: Derivation, reports: dict[str, CompilerReport]) -> DeriveOutput:
    from evo.cli import analysis_outputs as outputs
    from evo.cli.pages.tile_derivation import predictions
    from evo.results.codec import copied

    def rung(one: Rung) -> outputs.DerivedRung:
        report = reports.get(one.name)
        compiled = copied(outputs.CompiledRung, report) if report is not None else None
        refused = tuple(outputs.RefusedKnobs(knobs=other.tile, reason=other.reason) for other in one.refused)
        return outputs.DerivedRung(rung=one.name, knobs=one.knobs, compiled=compiled, refused=refused)

    return copied(
        outputs.DeriveOutput,
        found,
        predicted=predictions(found),
        rungs=tuple(rung(one) for one in found.rungs),
        unmatched=tuple(outputs.UnmatchedRung(rung=name, reason=reason) for name, reason in found.unmatched),
    )


def _show(
    root: Path, task: Task, chip: Chip, found: Derivation, reports: dict[str, CompilerReport], *, every: bool
) -> None:
    from evo.cli.limits import measured_times
    from evo.cli.pages.tile_derivation import DerivationEvidence, explain
    from evo.records.trials import load_records

    measured = [(t.what, t.p50_us) for t in measured_times(root, task, chip).get(found.case, [])]
    records = load_records(root, task.name)
    evidence = DerivationEvidence(compiled=reports, measured=measured, records=records, every=every)
    out_words(explain(found, chip, evidence).rstrip("\n"))


# --- checking a file


def _check_file(
    session: GlobalOptions, file: Path, task: str | None, gpu: str | None, case: str | None, json: bool
) -> int:
    from evo.analysis.tiles import check_layouts
    from evo.evaluate.prepare import PrepareFailure, prepare

    subject = read_subject(session, file, task)
    chip = choose_chip(gpu)
    chosen = subject.task.case(case or subject.task.headline)
    knobs = subject.variant.integer_knobs
    found = check_layouts(subject.variant.text, path=str(subject.path), axes=chosen.axes, knobs=knobs)
    prepared = prepare(
        subject.task, subject.variant.text, chip=chip, arch=chip.arch, path=str(subject.path), cases=[chosen]
    )
    refused = prepared.reason.split("\n")[0] if isinstance(prepared, PrepareFailure) else None
    wrong = refused is not None or any(one.proof.faults for one in found)
    if json:
        from evo.cli.analysis_outputs import LayoutsOutput

        layouts = tuple(_checked(one) for one in found)
        shown = LayoutsOutput(
            file=str(subject.path), chip=chip.slug, case=chosen.name, sound=not wrong, layouts=layouts, refused=refused
        )
        out_json(shown.to_json())
        return FAILED if wrong else 0
    _show_checked(subject.path, found)
    if refused is not None:
        out(f"{paint('refused', 'red')} on {chip.slug}: {refused}")
    else:
        out(f"the launch fits {chip.slug}")
    return FAILED if wrong else 0


def _show_checked(path: Path, found: tuple[Checked, ...]) -> None:
    if not found:
        say("no layout is declared: add `// layout:` lines, see `evo derive --help`")
    for one in found:
        state = paint("wrong", "red") if one.proof.faults else paint("slow", "yellow") if one.proof.slow else None
        where = f"{path}:{one.line}"
        out(f"{state or paint('sound', 'green')}  {where}  {one.layout.name}: {one.layout.how}")
        for problem in one.proof.problems:
            out(f"  {problem}")


def _checked(one: Checked) -> CheckedLayout:
    from evo.cli.analysis_outputs import CheckedLayout
    from evo.results.codec import copied

    misaligned = tuple(f"{address:#x}" for address in one.proof.first_misaligned[:8])
    known: dict[str, Any] = {"layout": one.layout.how, "allocated": one.proof.allocated}
    known |= {"first_misaligned": misaligned, "conflict_ways": one.proof.ways}
    return copied(CheckedLayout, one.layout, one.proof, one, **known)
