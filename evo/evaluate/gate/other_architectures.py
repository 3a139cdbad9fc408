"""What a text is for other chips, if it asks which one it is compiled for.

A champion is judged as compiled for one architecture, and others compile its text for theirs: a choice by
`__CUDA_ARCH__`, or by what headers make of it, has to be right on both sides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from evo.cuda.compile import Binary, compile_source
from evo.device import Program
from evo.device.remote_device import RemoteDevice
from evo.errors import UsageError
from evo.evaluate.bind import parameter_problem
from evo.evaluate.gate.ptx_rules import ptx_problem
from evo.evaluate.gate.run_cases import CHECK_BUDGET, Step, check_case, failed
from evo.results import CaseCheck, Check, FaultKind, Stage, Status
from evo.spec.comments import without_comments
from evo.spec.reference import Reference
from evo.spec.task import Task
from evo.spec.variant import Variant

# Names that follow from the architecture, in the headers of CUDA and libcu++ too; pasted tokens may be any name.
_ASKS = re.compile(r"ARCH|\barch_|_arch\b|\b_*+NV_|__nvvm_reflect|##")
_NUMBER = re.compile(r"(?<![\w.])(\d{2,4})(?![\w.])")
_KNOWN = (75, 80, 86, 87, 89, 90, 100, 103, 120, 121)
_USUAL = (80, 90, 120)  # one of each generation
_MOST = 6
_TARGET = re.compile(r"(?m)^\.(?:target|version)\b.*$|^//.*$")


def architectures(text: str, judged: str) -> tuple[str, ...]:
    """Architectures beside the judged one at which the text may be another: none if it does not ask."""
    code = without_comments(text)
    if not _ASKS.search(code):
        return ()
    found = dict.fromkeys(_USUAL)
    for number in map(int, _NUMBER.findall(code)):
        for named in (number, number // 10):
            if named in _KNOWN:
                at = _KNOWN.index(named)
                found.update(dict.fromkeys(_KNOWN[max(0, at - 1) : at + 2]))
    return tuple(f"compute_{number}" for number in list(found) if not judged.endswith(f"_{number}"))[:_MOST]


def compiled_elsewhere(
    task: Task,
    variant: Variant,
    programs: Mapping[str, Program],
    reference: Reference,
    device: RemoteDevice,
    seed: int,
) -> Check | None:
    """The first check case that is not right with the text compiled for another chip; None if all are.

    What the simulator cannot execute there (a later chip's instructions) is not judged.
    """
    judged = next(iter(programs.values())).binary.arch
    checked = {case.name: programs[case.name] for case in task.check}
    seen = {_comparable(program.binary.ptx) for program in checked.values()}
    for arch in architectures(variant.text, judged):
        others = dict(_others(task, variant, checked, arch))
        new = {name for name, other in others.items() if _comparable(other.binary.ptx) not in seen}
        seen |= {_comparable(other.binary.ptx) for other in others.values()}
        for case in task.check:
            if case.name not in new:
                continue
            step, where = Step(case, device, budget=CHECK_BUDGET), f"case {case.name}, compiled for {arch}"
            if (reason := _refused(others[case.name])) is not None:
                row = CaseCheck(name=case.name, status=Status.REFUSED, reason=reason)
                return failed(row, step, Stage.GATE, where, (), seed)
            row, _, faults = check_case(task, others, reference.expectation(case, seed), step, {})
            if any(fault.kind is FaultKind.UNSUPPORTED for fault in faults):
                break
            if row.status is not Status.CORRECT:
                return failed(row, step, Stage.GATE, where, faults, seed)
    return None


def _comparable(ptx: str) -> str:
    return _TARGET.sub("", ptx)


def _others(task: Task, variant: Variant, programs: Mapping[str, Program], arch: str) -> Iterator[tuple[str, Program]]:
    """The programs with the text compiled for another architecture, where it compiles."""
    built: dict[str, Binary | None] = {}
    for name, program in programs.items():
        binary = program.binary
        if binary.key not in built:
            built[binary.key] = _built(task, variant, binary, arch)
        if (other := built[binary.key]) is not None:
            yield name, replace(program, binary=replace(binary, key=f"{binary.key}-{arch}", ptx=other.ptx))


def _built(task: Task, variant: Variant, binary: Binary, arch: str) -> Binary | None:
    try:
        found = compile_source(
            variant.text,
            name=f"{task.name}.cu",
            macros=binary.macros,
            flags=variant.flags,
            headers=task.headers,
            arch=arch,
        )
    except UsageError:  # this toolkit does not know it
        return None
    return found if isinstance(found, Binary) else None


def _refused(program: Program) -> str | None:
    """What a static rule says of it there, or how its parameters differ."""
    if (problem := ptx_problem(program.binary.ptx)) is not None:
        return problem.reason
    for bound in program.launches:
        if reason := parameter_problem(program.binary.ptx, bound.launch.kernel, bound.arguments):
            return reason
    return None
