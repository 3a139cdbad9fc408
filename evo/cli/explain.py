"""`evo explain`: what a kernel does to memory, at first look and without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from evo.cli.chips import GpuWord, HeadlineCase, choose_chip
from evo.cli.command_context import read_subject, session_of
from evo.cli.explained import show
from evo.cli.options import AsJson, KernelFile, TaskWord
from evo.cli.terminal import out, out_json
from evo.errors import EvoError, UsageError

if TYPE_CHECKING:
    from evo.analysis.roofline import CaseLimits
    from evo.cli.command_context import FileSubject
    from evo.spec.chips import Chip
    from evo.spec.task import Case


def explain(
    context: typer.Context,
    file: KernelFile,
    task: TaskWord = None,
    case: HeadlineCase = None,
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
        from evo.cli.explain_outputs import ExplainOutput, LaunchOutput

        launches = tuple(LaunchOutput.of(analysis) for analysis in found)
        said = ExplainOutput(
            variant=subject.variant.id, task=subject.task.name, case=one.name, chip=chip.slug, launches=launches
        )
        out_json(said.to_json())
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
