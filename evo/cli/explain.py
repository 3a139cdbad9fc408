"""`evo explain`: what a kernel does to memory, at first look and without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from evo.cli import completion
from evo.cli.chips import GpuWord, choose_chip
from evo.cli.command_context import read_subject, session_of
from evo.cli.explained import show
from evo.cli.options import AsJson, KernelFile, TaskWord
from evo.cli.terminal import out, out_json
from evo.errors import EvoError, UsageError
from evo.results import Json, drop_absent

if TYPE_CHECKING:
    from evo.analysis.access import Access, ArrayTraffic, LaunchAnalysis, Loop, Permission
    from evo.analysis.roofline import CaseLimits
    from evo.cli.command_context import FileSubject
    from evo.spec.chips import Chip
    from evo.spec.task import Case


def explain(
    context: typer.Context,
    file: KernelFile,
    task: TaskWord = None,
    case: Annotated[
        str | None,
        typer.Option(
            "--case", metavar="NAME", help="At this case (default: the headline case).", autocompletion=completion.cases
        ),
    ] = None,
    gpu: GpuWord = None,
    json: AsJson = False,
) -> int:
    """Say what a kernel does to memory: its loops, who reads what how often, what may be rewritten. Nothing runs."""
    from evo.analysis.access import analyse

    subject = read_subject(session_of(context), file, task)
    one = subject.task.case(case or subject.task.headline)
    chip = choose_chip(gpu)
    found = analyse(subject.variant, subject.task, one, chip)
    if not found:
        hint = "each `// evo: launch` line names a kernel of the file"
        raise UsageError(f"{subject.path}: no kernel of a launch line was found in the text", hint=hint)
    limits = _limits_of(subject, one, chip)
    if json:
        out_json(explained_json(subject, one, chip, found))
        return 0
    for number, analysis in enumerate(found, start=1):
        if number > 1:
            out()
        position = f", launch {number} of {len(found)}," if len(found) > 1 else ""
        show(analysis, limits, position=position)
    return 0


def _limits_of(subject: FileSubject, case: Case, chip: Chip) -> CaseLimits | None:
    """The floor of the case; None if the task states too little for one."""
    from evo.analysis.roofline import limits

    try:
        return limits(subject.task, case, chip)
    except EvoError:
        return None


def explained_json(subject: FileSubject, case: Case, chip: Chip, found: tuple[LaunchAnalysis, ...]) -> dict[str, Json]:
    """The shape of `evo explain --json`."""
    return {
        "variant": subject.variant.id,
        "task": subject.task.name,
        "case": case.name,
        "chip": chip.slug,
        "launches": [_launch(analysis) for analysis in found],
    }


def _launch(analysis: LaunchAnalysis) -> dict[str, Json]:
    from evo.analysis.access import opportunities_of

    form, legality = analysis.form, analysis.legality
    return {
        "kernel": form.kernel,
        "grid": list[Json](analysis.sizes.grid),
        "block": list[Json](analysis.sizes.block),
        "loops": [_loop(analysis, loop) for loop in form.loops.values()],
        "accesses": [_access(analysis, a) for a in form.accesses if a.array is None or a.array.space != "local"],
        "arrays": [_array(traffic) for traffic in analysis.traffic.arrays.values()],
        "staged": [
            {"shared": known.shared.name, "tensor": known.tensor.name, "is_copy": known.is_copy}
            for known in analysis.staged
        ],
        "reductions": [
            {
                "kind": r.kind, "place": r.place, "line": r.line, "names": list[Json](r.names),
                "loops": [symbol.name for symbol in r.loops],
            }
            for r in analysis.reductions
        ],
        "contractions": [
            {
                "kind": made.kind, "line": made.line, "right": made.right.array.name,
                "roles": dict[str, Json](made.roles),
                "left": made.left.array.name if made.left is not None else None, "epilogue": list[Json](made.epilogue),
            }
            for made in analysis.contractions
        ],
        "threads_permute": _verdict(legality.threads_permute),
        "blocks_permute": _verdict(legality.blocks_permute),
        "rereads_output": [array.name for array in legality.rereads_output],
        "blocked": [{"line": b.line, "what": b.what, "reason": b.reason} for b in form.blocked],
        "opportunities": [
            drop_absent({
                "name": o.name, "why": o.why, "lines": list[Json](o.lines), "facts": dict[str, Json](o.facts),
                "refused": o.refused or None,
            })
            for o in opportunities_of(analysis)
        ],
    }  # fmt: skip


def _verdict(found: Permission) -> dict[str, Json]:
    return drop_absent({"holds": found.holds, "why": found.why or None})


def _rounded(number: float | None) -> float | None:
    return round(number, 3) if number is not None else None


def _loop(analysis: LaunchAnalysis, loop: Loop) -> dict[str, Json]:
    verdict = analysis.legality.parallel(loop)
    return drop_absent({
        "name": loop.symbol.name, "line": loop.line, "start": loop.start.text, "step": loop.step.text,
        "values": list[Json](loop.values) if loop.values is not None else None, "condition": loop.condition.text,
        "trip": loop.trip.text if loop.trip is not None else None, "is_parallel": verdict.holds,
        "why": verdict.why or None, "calls": list[Json](loop.calls) or None,
    })  # fmt: skip


def _access(analysis: LaunchAnalysis, access: Access) -> dict[str, Json]:
    traffic = analysis.traffic.accesses.get(access.number)
    return drop_absent({
        "number": access.number, "line": access.line, "text": access.text, "mode": access.mode, "bytes": access.bytes,
        "array": access.array.name if access.array is not None else None, "route": access.route,
        "offset": access.offset.text, "subscripts": [term.text for term in access.subscripts] or None,
        "loops": [symbol.name for symbol in access.loops], "guards": [c.text for c in access.conditions],
        "executions": traffic.executions if traffic is not None else None,
        "requests": traffic.requests if traffic is not None else None,
        "sectors_per_request": _rounded(traffic.sectors if traffic is not None else None),
        "stride_bytes": traffic.stride if traffic is not None else None,
        "wavefronts": _rounded(traffic.wavefronts if traffic is not None else None),
        "blocked": access.blocked.reason if access.blocked is not None else None,
    })  # fmt: skip


def _array(traffic: ArrayTraffic) -> dict[str, Json]:
    array, block = traffic.array, traffic.block
    return drop_absent({
        "name": array.name, "space": array.space, "role": array.role or None, "element": array.element,
        "shape": [term.text for term in array.shape], "compulsory_bytes": traffic.compulsory,
        "read_bytes": traffic.reads, "written_bytes": traffic.writes, "sector_bytes": traffic.sector_bytes,
        "reuse": round(traffic.reuse, 3) if traffic.reuse is not None else None,
        "block_elements": block.elements if block is not None else None,
        "block_box": list[Json](block.box) if block is not None and block.box is not None else None,
        "block_reads": traffic.block_reads, "is_exact": traffic.is_exact,
    })  # fmt: skip
