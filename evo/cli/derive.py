"""`evo derive`: from the hardware backwards to a configuration, with proofs; `--check` holds a file to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evo.cli import completion
from evo.cli.chips import GpuWord, choose_chip
from evo.cli.options import AsJson
from evo.cli.session import choose_task, read_subject, session_of
from evo.cli.terminal import microseconds, out, out_json, out_table, paint, say, stage
from evo.results import Json

if TYPE_CHECKING:
    from evo.analysis.tiles import Candidate, Checked, Derivation
    from evo.cli.session import Session
    from evo.report.tile_derivation import Compiled
    from evo.spec.chips import Chip
    from evo.spec.task import Case, Task
    from evo.spec.variant import Variant

_SHOWN = 6
FAILED = 1


def derive(
    context: typer.Context,
    task: Annotated[
        str | None,
        typer.Argument(metavar="TASK", show_default=False, help="A task's name.", autocompletion=completion.tasks),
    ] = None,
    gpu: GpuWord = None,
    case: Annotated[str | None, typer.Option("--case", metavar="NAME", help="Default: the headline case.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Write the design document, in Markdown.")] = False,
    check: Annotated[
        Path | None,
        typer.Option("--check", metavar="FILE", help="Instead: check the layouts of a .cu file."),
    ] = None,
    compiling: Annotated[
        bool, typer.Option("--compile/--no-compile", help="Compile the rungs with the derived knobs, for registers.")
    ] = True,
    every: Annotated[bool, typer.Option("--all", help="List every rejected configuration.")] = False,
    json: AsJson = False,
) -> int:
    """Derive tiles, warps, stages and layouts from the chip. With proofs, predictions and the knobs of the rungs."""
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
    if explain:
        out(_document(root, subject, chip, found, reports).rstrip("\n"))
    elif json:
        out_json(derive_json(found, reports))
    else:
        show(found, chip, reports, every=every)
    return 0


class _Compiler:
    """Compiles a rung with its knobs set, and says why it will not do."""

    def __init__(self, task: Task, chip: Chip, case: Case) -> None:
        self.task, self.chip, self.case = task, chip, case
        self.reports: dict[str, Compiled] = {}

    def __call__(self, variant: Variant) -> str | None:
        from evo.evaluate.prepare import Failed, prepare
        from evo.report.tile_derivation import Compiled

        name = Path(variant.path).name
        stage(f"compile {name}")
        prepared = prepare(
            self.task, variant.text, chip=self.chip, arch=self.chip.arch, path=variant.path, cases=[self.case]
        )
        if isinstance(prepared, Failed):
            return prepared.reason.split("\n")[0]
        kernels = [kernel for program in prepared.programs.values() for kernel in program.binary.kernels]
        report = Compiled(
            registers=max(kernel.registers for kernel in kernels),
            spill_bytes=sum(kernel.spill_store_bytes for kernel in kernels),
            shared_bytes=max(kernel.shared_bytes for kernel in kernels),
        )
        if report.spill_bytes:
            return f"the compiler spills {report.spill_bytes} bytes at {report.registers} registers"
        self.reports[name] = report
        return None

    def of(self, found: Derivation) -> dict[str, Compiled]:
        return {rung.name: self.reports[rung.name] for rung in found.rungs if rung.name in self.reports}


def derive_json(found: Derivation, reports: dict[str, Compiled]) -> dict[str, Json]:
    """The shape of `evo derive --json`."""
    from evo.report.tile_derivation import predictions

    rungs: list[Json] = []
    for rung in found.rungs:
        shape: dict[str, Json] = {"rung": rung.name, "knobs": dict[str, Json](rung.knobs)}
        if (report := reports.get(rung.name)) is not None:
            shape["compiled"] = {"registers": report.registers, "spill_bytes": report.spill_bytes}
        shape["refused"] = [{"knobs": dict[str, Json](one.tile), "reason": one.reason} for one in rung.refused]
        rungs.append(shape)
    return {
        "task": found.task,
        "chip": found.chip,
        "case": found.case,
        "chosen": candidate_json(found.chosen),
        "predicted": dict[str, Json](predictions(found)),
        "knobs": {name: dict[str, Json](values) for name, values in found.knobs.items()},
        "rungs": rungs,
        "unmatched": [{"rung": name, "reason": reason} for name, reason in found.unmatched],
        "candidates": [candidate_json(one) for one in found.candidates],
        "rejected": [{"tile": dict[str, Json](one.tile), "reason": one.reason} for one in found.rejected],
        "estimated": list[Json](found.estimated),
        "limits": found.limits.to_json(),
    }


def candidate_json(one: Candidate) -> dict[str, Json]:
    from evo.results import drop_absent

    layouts: list[Json] = [
        {
            "name": part.name,
            "copies": part.copies,
            "rows": part.layout.rows,
            "cols": part.layout.cols,
            "layout": part.layout.how,
            "bytes": part.layout.size_bytes,
            "distinct_addresses": part.proof.distinct,
            "misaligned_chunks": part.proof.misaligned,
            "conflict_ways": dict[str, Json](part.proof.ways),
            "instead_of": [{"layout": how, "reason": why} for how, why in part.instead_of],
        }
        for part in one.placed
    ]
    return drop_absent(
        {
            "tile": dict[str, Json](one.tile),
            "threads": one.threads,
            "blocks": one.blocks,
            "busy": round(one.busy, 6),
            "registers_estimated": one.registers,
            "shared_bytes": one.shared_bytes,
            "resident_blocks": one.resident,
            "occupancy": round(one.occupancy, 6),
            "vector_bytes": one.vector_bytes,
            "steps": one.steps,
            "mma": one.mma,
            "l2_bytes": one.bytes_l2,
            "shared_bytes_read": one.bytes_shared,
            "modelled_us": round(one.modelled_us, 4),
            "terms_us": {name: round(us, 4) for name, us in one.terms_us.items()},
            "layouts": layouts,
        }
    )


def show(found: Derivation, chip: Chip, reports: dict[str, Compiled], *, every: bool) -> None:
    """The specification, its proofs, what else was looked at, and the knobs."""
    from evo.analysis.tiles.knob_text import knob_text
    from evo.report.tile_derivation import predictions

    best = found.chosen
    out(f"{paint(found.task, 'bold')} {found.case} on {chip.name}: {paint(knob_text(best.tile), 'cyan')}")
    fits = f"{best.resident} on an SM, about {best.registers} registers, {best.shared_bytes:,} B shared"
    out(f"  {best.threads} threads, {best.blocks:,} blocks ({best.busy:.1%} of SM time in whole rounds), {fits}")
    out(f"  rows of all inputs are aligned for {best.vector_bytes}-byte loads")
    out()
    if best.placed:
        _show_layouts(best)
        out()
    out("predicted at full tiles: " + ", ".join(f"{n} {v:,.0f}" for n, v in predictions(found).items()))
    out()
    rows = [_candidate_row(one) for one in found.candidates[:_SHOWN]]
    out_table(["legal", ">modelled µs", "largest term", ">registers", ">shared B", ">on an SM", ">busy"], rows)
    out(paint(f"{len(found.candidates)} are legal; the order is a model, not a measurement", "dim"))
    if found.rejected:
        out()
        _show_rejected(found, every)
    out()
    _show_rungs(found, reports)


def _candidate_row(one: Candidate) -> list[str]:
    from evo.analysis.tiles.knob_text import knob_text

    return [
        knob_text(one.tile), microseconds(one.modelled_us), one.binds, str(one.registers), f"{one.shared_bytes:,}",
        str(one.resident), f"{one.busy:.1%}",
    ]  # fmt: skip


def _show_layouts(best: Candidate) -> None:
    rows = []
    for part in best.placed:
        ways = ", ".join(f"{read} {count}-way" for read, count in part.proof.ways.items())
        size = f"{part.copies} x {part.layout.rows} x {part.layout.cols}"
        found = part.proof
        proof = f"{found.distinct:,} of {found.elements:,} distinct, {found.misaligned} of {found.chunks} misaligned"
        rows.append([part.name, size, part.layout.how, proof, ways])
    out_table(["tile", "copies x rows x cols", "layout", "proved over all addresses", "bank conflicts"], rows)
    for part in best.placed:
        for how, why in part.instead_of:
            out(paint(f"  {part.name}: not {how}: {why}", "dim"))


def _show_rejected(found: Derivation, every: bool) -> None:
    from evo.analysis.tiles.knob_text import knob_text
    from evo.report.tile_derivation import grouped

    if every:
        out_table(["rejected", "why"], [[knob_text(one.tile), one.reason] for one in found.rejected])
        return
    rows = [[str(count), one.reason, knob_text(one.tile)] for count, one in grouped(found.rejected)]
    out_table([">rejected", "why, for example", "at"], rows)
    out(paint("--all lists every one", "dim"))


def _show_rungs(found: Derivation, reports: dict[str, Compiled]) -> None:
    from evo.analysis.tiles.knob_text import knob_text

    for rung in found.rungs:
        report = reports.get(rung.name)
        said = f"  compiled: {report.registers} registers, no spills" if report is not None else ""
        out(f"{paint(rung.name, 'cyan')}: {knob_text(rung.knobs)}{said}")
        for one in rung.refused[:_SHOWN]:
            out(paint(f"  not {knob_text(one.tile)}: {one.reason}", "dim"))
    for name, reason in found.unmatched:
        out(paint(f"{name}: {reason}", "dim"))


def _document(root: Path, task: Task, chip: Chip, found: Derivation, reports: dict[str, Compiled]) -> str:
    from evo.cli.limits import measured_times
    from evo.records.trials import load_records
    from evo.report.tile_derivation import Evidence, explain

    measured = [(t.what, t.p50_us) for t in measured_times(root, task, chip).get(found.case, [])]
    evidence = Evidence(compiled=reports, measured=measured, records=load_records(root, task.name))
    return explain(found, chip, evidence)


# --- checking a file


def _check_file(session: Session, file: Path, task: str | None, gpu: str | None, case: str | None, json: bool) -> int:
    from evo.analysis.tiles import check_layouts
    from evo.evaluate.prepare import Failed, prepare

    subject = read_subject(session, file, task)
    chip = choose_chip(gpu)
    chosen = subject.task.case(case or subject.task.headline)
    knobs = subject.variant.integer_knobs
    found = check_layouts(subject.variant.text, path=str(subject.path), axes=chosen.axes, knobs=knobs)
    prepared = prepare(
        subject.task, subject.variant.text, chip=chip, arch=chip.arch, path=str(subject.path), cases=[chosen]
    )
    refused = prepared.reason.split("\n")[0] if isinstance(prepared, Failed) else None
    wrong = refused is not None or any(one.proof.faults for one in found)
    if json:
        shape: dict[str, Json] = {"file": str(subject.path), "chip": chip.slug, "case": chosen.name, "sound": not wrong}
        shape["layouts"] = [checked_json(one) for one in found]
        if refused is not None:
            shape["refused"] = refused
        out_json(shape)
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


def checked_json(one: Checked) -> dict[str, Json]:
    proof = one.proof
    return {
        "name": one.layout.name,
        "line": one.line,
        "layout": one.layout.how,
        "rows": one.layout.rows,
        "cols": one.layout.cols,
        "elements": proof.elements,
        "distinct": proof.distinct,
        "lost": proof.lost,
        "out_of_bounds": proof.out_of_bounds,
        "largest_offset": proof.largest_offset,
        "allocated": proof.allocated,
        "chunks": proof.chunks,
        "misaligned": proof.misaligned,
        "first_misaligned": [f"{address:#x}" for address in proof.first_misaligned[:8]],
        "conflict_ways": dict[str, Json](proof.ways),
        "faults": list[Json](proof.faults),
        "slow": list[Json](proof.slow),
    }
