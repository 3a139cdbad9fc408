"""The first half of the pipeline: parse, static rules, launch plan, compile, bind. Needs no device."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from evo.cuda import compile as compiler
from evo.cuda.compile import Diagnostics
from evo.cuda.source import Param, kernel_signatures, parse
from evo.device import Program
from evo.errors import SyntaxInvalid
from evo.evaluate.bind import build, signature_problem
from evo.evaluate.gate.ptx_rules import address_problem, ptx_problem
from evo.evaluate.gate.source_rules import StaticProblem, static_problem
from evo.results import CompileReport, KernelResources, Stage, StaticRule, Status
from evo.results.codec import copied
from evo.spec.chips import Chip
from evo.spec.launch import Plan, Refusal, macros_of, plan
from evo.spec.proc_files import memory_limit
from evo.spec.task import Case, Task
from evo.spec.variant import Variant, parse_variant

Macros = tuple[tuple[str, int], ...]


_LONGEST_REASON = 1_000  # characters
_SCRATCH_COPIES = 3  # the bytes, which of them are defined, and who wrote and read them
_SPILL_BYTES = 256  # stored and loaded, of all kernels: less happens at the edges of loops


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A variant that compiled and may launch: one Program per check and bench case."""

    variant: Variant
    programs: dict[str, Program]
    report: CompileReport
    code_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareFailure:
    """A variant that went no further, as data."""

    status: Status
    stage: Stage
    reason: str
    variant: str
    rule: StaticRule | None = None  # the static rule that refused it
    report: CompileReport | None = None

    def __post_init__(self) -> None:
        if len(self.reason) > _LONGEST_REASON:  # it may quote names that the text chose
            object.__setattr__(self, "reason", f"{self.reason[:_LONGEST_REASON]}...")


def prepare(
    task: Task,
    text: str,
    *,
    chip: Chip,
    arch: str,
    path: str = "<variant>",
    cases: Sequence[Case] | None = None,
    static_rules: bool = True,
    addresses: bool = True,
) -> Prepared | PrepareFailure:
    """Parse, hold to the static rules, plan, compile and bind one variant, for all cases of its task or those given.

    static_rules=False is for `evo redteam`, which looks at what stands behind those rules. addresses=False is for first
    looks: whether a comparison depends on an address takes as long to find out as some blocks to run, and a trial asks.
    """
    cases = (*task.check, *task.bench) if cases is None else cases
    try:
        variant = parse_variant(text, path=path)
    except SyntaxInvalid as error:
        return PrepareFailure(status=Status.REFUSED, stage=Stage.RULES, reason=error.message, variant="")

    def refused(reason: str, stage: Stage = Stage.RULES, rule: StaticRule | None = None) -> PrepareFailure:
        return PrepareFailure(status=Status.REFUSED, stage=stage, reason=reason, rule=rule, variant=variant.id)

    if variant.task is not None and variant.task != task.name:
        return refused(f"`// evo: task {variant.task[:60]}`, but the task is {task.name}")

    if static_rules and (problem := static_problem(text)):
        return refused(problem.reason, rule=problem.rule)
    if not parse(text).is_read:
        return refused("the text cannot be parsed in time: it is too long, or too far from CUDA C++")
    signatures = kernel_signatures(text)
    if reason := signature_problem(variant, task, signatures):
        return refused(reason)
    plans: dict[str, Plan] = {}
    for case in cases:
        planned = plan(variant, task, case, chip)
        if isinstance(planned, Refusal):
            return refused(f"case {case.name}: {planned.reason}", Stage.LIMITS)
        if reason := _room_problem(planned):
            return refused(f"case {case.name}: {reason}", Stage.LIMITS)
        plans[case.name] = planned
    found = _compile_and_bind(task, variant, cases, plans, signatures, chip, arch)
    if static_rules and isinstance(found, Prepared) and (problem := _hidden_problem(found, addresses=addresses)):
        return replace(refused(problem.reason, rule=problem.rule), report=found.report)
    return found


def _room_problem(planned: Plan) -> str | None:
    """Why the simulator, which every variant passes through, has no room for the workspaces; None if it has."""
    total = sum(space.size_bytes for space in planned.scratch)
    if _SCRATCH_COPIES * total <= memory_limit():
        return None
    return (
        f"{total / 2**30:.1f} GiB of scratch: the simulator needs {_SCRATCH_COPIES} times that, and this machine "
        f"gives {memory_limit() / 2**30:.1f} GiB"
    )


def _hidden_problem(prepared: Prepared, *, addresses: bool) -> StaticProblem | None:
    """What the text's rules did not see, found in the compiler's output."""
    texts = {program.binary.ptx: _buffers(program) for program in prepared.programs.values()}
    for ptx, buffers in texts.items():
        if problem := ptx_problem(ptx) or (address_problem(ptx, buffers) if addresses else None):
            return problem
    return None


def _buffers(program: Program) -> dict[str, frozenset[int]]:
    """Of each kernel, the numbers of its parameters that get a buffer."""
    found: dict[str, frozenset[int]] = {}
    for bound in program.launches:
        given = frozenset(at for at, argument in enumerate(bound.arguments) if argument.is_buffer)
        found[bound.launch.kernel] = found.get(bound.launch.kernel, frozenset()) | given
    return found


def _compile_and_bind(
    task: Task,
    variant: Variant,
    cases: Sequence[Case],
    plans: dict[str, Plan],
    signatures: Mapping[str, Sequence[Param]],
    chip: Chip,
    arch: str,
) -> Prepared | PrepareFailure:
    programs: dict[str, Program] = {}
    started = time.monotonic()
    keys = {case.name: tuple(sorted(macros_of(variant, case).items())) for case in cases}

    def compiled(key: Macros) -> compiler.Binary | compiler.Diagnostics:
        return compiler.compile_source(
            variant.text, name=f"{task.name}.cu", macros=dict(key), flags=variant.flags, headers=task.headers, arch=arch
        )

    binaries: dict[Macros, compiler.Binary] = {}
    for key, built in _each(compiled, list(dict.fromkeys(keys.values()))):
        if isinstance(built, compiler.Diagnostics):
            failed, said = explained(built, variant, f"{task.name}.cu")
            report = compile_report(variant, arch, failed.status, (), said, time.monotonic() - started)
            stage = Stage.RULES if failed.status is Status.REFUSED else Stage.COMPILE
            stage = Stage.COMPILE_LIMIT if failed.exhausted else stage
            return PrepareFailure(
                status=failed.status,
                stage=stage,
                reason=failed.reason,
                rule=failed.rule,
                variant=variant.id,
                report=report,
            )
        binaries[key] = built
    for case in cases:
        key = keys[case.name]
        program = build(variant, task, case, plans[case.name], binaries[key], signatures, chip)
        if isinstance(program, Refusal):
            reason = f"case {case.name}: {program.reason}"
            return PrepareFailure(status=Status.REFUSED, stage=Stage.LIMITS, reason=reason, variant=variant.id)
        programs[case.name] = program
    code = "+".join(binary.code_hash for _, binary in sorted(binaries.items()))
    launched = repr([(case, [b.launch for b in p.launches], p.scratch) for case, p in programs.items()])
    code_hash = f"{code}|{hashlib.sha256(launched.encode()).hexdigest()[:16]}"
    report = compile_report(variant, arch, Status.CORRECT, tuple(binaries.values()), (), time.monotonic() - started)
    return Prepared(
        variant=variant, programs=programs, report=replace(report, code_hash=code_hash), code_hash=code_hash
    )


def bind_more(
    task: Task, variant: Variant, cases: Sequence[Case], *, chip: Chip, arch: str, most_compiled: int
) -> dict[str, Program]:
    """Programs of further cases of a variant that is prepared, but for those that it refuses or does not compile for.

    most_compiled: how many combinations of compiled-in axes are compiled, where each case has its own.
    """
    signatures = kernel_signatures(variant.text)
    plans = {case.name: plan(variant, task, case, chip) for case in cases}
    allowed = [case for case in cases if isinstance(found := plans[case.name], Plan) and _room_problem(found) is None]
    keys = {case.name: tuple(sorted(macros_of(variant, case).items())) for case in allowed}
    few = list(dict.fromkeys(keys.values()))[:most_compiled]
    groups = [[case for case in allowed if keys[case.name] == key] for key in few]

    def bound(group: Sequence[Case]) -> Prepared | PrepareFailure:
        own = {case.name: found for case in group if isinstance(found := plans[case.name], Plan)}
        return _compile_and_bind(task, variant, group, own, signatures, chip, arch)

    def parts(group: Sequence[Case]) -> list[Prepared | PrepareFailure]:
        together = bound(group)
        return [together] if isinstance(together, Prepared) else [bound([case]) for case in group]

    if not groups:
        return {}
    with ThreadPoolExecutor(min(len(groups), os.cpu_count() or 1), thread_name_prefix="evo-compile") as pool:
        each = [part for found in pool.map(parts, groups) for part in found]
    return {name: program for part in each if isinstance(part, Prepared) for name, program in part.programs.items()}


def _each(
    compiled: Callable[[Macros], compiler.Binary | compiler.Diagnostics], keys: Sequence[Macros]
) -> Iterator[tuple[Macros, compiler.Binary | compiler.Diagnostics]]:
    """Compile for all keys, side by side in the compiler's pool if there are several, until one fails."""
    if len(keys) == 1:
        yield keys[0], compiled(keys[0])
        return
    # No more threads than compilers: what is still waiting when one has failed is never begun.
    pool = ThreadPoolExecutor(min(len(keys), os.cpu_count() or 1), thread_name_prefix="evo-compile")
    try:
        yield from zip(keys, pool.map(compiled, keys), strict=True)
    finally:
        pool.shutdown(cancel_futures=True)


def simpler(parent: Prepared, child: Prepared) -> str | None:
    """What the child needs less of (registers, shared bytes, lines), in words; None if nothing, or more of another."""
    before, after = _needs(parent), _needs(child)
    if any(after[name] > before[name] for name in before):
        return None
    fewer = [f"{before[name] - after[name]} fewer {name}" for name in before if after[name] < before[name]]
    return " and ".join(fewer) or None


def spills(parent: Prepared, child: Prepared) -> str | None:
    """What the child moves to local memory and its parent does not, in words; None for a handful of registers."""
    before, after = _spilled(parent), _spilled(child)
    if after - before <= _SPILL_BYTES:
        return None
    return f"ptxas spills {after} bytes" + (f" where the parent spilled {before}" if before else "")


def _spilled(prepared: Prepared) -> int:
    reports = {
        (program.binary.key, report.name): report
        for program in prepared.programs.values()
        for report in program.binary.kernels
    }
    return sum(report.spill_store_bytes + report.spill_load_bytes for report in reports.values())


def _needs(prepared: Prepared) -> dict[str, int]:
    """Registers and shared bytes over all kernels and compiled-in axes, and lines that are not blank or comments."""
    reports = {
        (program.binary.key, report.name): report
        for program in prepared.programs.values()
        for report in program.binary.kernels
    }
    launched = {
        (program.binary.key, bound.launch.kernel): bound.launch.shared_bytes
        for program in prepared.programs.values()
        for bound in program.launches
    }
    lines = [line.strip() for line in prepared.variant.text.splitlines()]
    return {
        "registers": sum(report.registers for report in reports.values()),
        "shared bytes": sum(report.shared_bytes for report in reports.values()) + sum(launched.values()),
        "lines": sum(bool(line) and not line.startswith("//") for line in lines),
    }


def compile_report(
    variant: Variant,
    arch: str,
    status: Status,
    binaries: tuple[compiler.Binary, ...],
    warnings: tuple[str, ...],
    elapsed_s: float,
) -> CompileReport:
    """How compiling went: `compiled` with the resources of each launched kernel, or how compiling failed."""
    launched = {line.kernel for line in variant.launches}
    kernels = tuple(
        copied(KernelResources, report, axes=dict(binary.macros), sass=dict(report.sass))
        for binary in binaries
        for report in binary.kernels
        if report.name in launched
    )
    return CompileReport(
        variant=variant.id,
        arch=arch,
        status="compiled" if binaries else status.value,
        warnings=warnings,
        kernels=kernels,
        elapsed_s=elapsed_s,
    )


_PLACE = re.compile(r"(?P<file>[^:\n]+):(?P<line>\d+): ")
_UNDEFINED = re.compile(r'identifier "([A-Z][A-Z0-9_]*)" is undefined')
_CARET = re.compile(r"\s*\^\s*")
_MOST = 200  # columns of an excerpt


def explained(built: Diagnostics, variant: Variant, compiled_as: str) -> tuple[Diagnostics, tuple[str, ...]]:
    """The diagnostics with the file's own name, and what to show of them: the reason, then the line and its caret."""
    place = _PLACE.match(built.reason)
    excerpt = _excerpt(built.log, place) if place is not None else ()
    reason = built.reason
    if place is not None and place["file"] == compiled_as and not variant.path.startswith("<"):
        reason = variant.path + reason[len(compiled_as) :]
    if (name := _UNDEFINED.search(reason)) and not re.search(rf"#\s*define\s+{name[1]}\b", variant.text):
        reason += f"; if a compiler's command line defines it, write `#define {name[1]} VALUE` at the top of the file"
    return replace(built, reason=reason), (reason, *excerpt)


def _excerpt(log: str, place: re.Match[str]) -> tuple[str, ...]:
    """The source line that the log shows below its complaint, and the caret."""
    lines = log.splitlines()
    starts = f"{place['file']}({place['line']}): "
    first = next((number for number, line in enumerate(lines) if line.startswith(starts)), None)
    if first is None:
        return ()
    for number in range(first + 2, min(first + 6, len(lines))):
        if _CARET.fullmatch(lines[number]) and len(lines[number]) <= _MOST:
            return lines[number - 1][:_MOST].rstrip(), lines[number].rstrip()
    return ()
