"""Looks at variants on simulators: the programs of further sizes, and the hunts for sizes and inputs that are wrong."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from evo.device import Program
from evo.device.remote_device import RemoteGpu, RemoteSimulator
from evo.evaluate.code_ahead import CodeAhead
from evo.evaluate.counted_stage import Tell, silent
from evo.evaluate.gate import (
    THOROUGH,
    Looked,
    at_corners,
    compiled_elsewhere,
    hunt,
    lawful,
    mixed,
    patterns,
    unlike_machines,
)
from evo.evaluate.gate.own_kernel import own_kernel
from evo.evaluate.prepare import Prepared, PrepareFailure, bind_more, prepare
from evo.results import Check
from evo.spec.chips import Chip
from evo.spec.reference import Reference
from evo.spec.task import Case, Task

_FEW_COMPILED, _SOME_COMPILED, _MANY_COMPILED = 2, 4, 8  # binaries of sizes that are looked for, if compiled in


class LookingBench(ABC):
    """What looks at variants need. target: the GPU that is timed, None on a simulator alone."""

    chip: Chip
    arch: str
    checker: RemoteSimulator
    target: RemoteGpu | None
    on_stage: Tell
    code: CodeAhead

    @property
    def modelled(self) -> bool:
        return self.target is None

    @abstractmethod
    def reference(self, task: Task) -> Reference: ...

    def prepare(
        self, task: Task, text: str, *, path: str = "<variant>", static_rules: bool = True
    ) -> Prepared | PrepareFailure:
        """Compile and bind one variant for this device."""
        found = prepare(task, text, chip=self.chip, arch=self.arch, path=path, static_rules=static_rules)
        if isinstance(found, Prepared):
            self.code.begin(found.programs)
        return found

    def hunt(
        self,
        task: Task,
        prepared: Prepared,
        checkers: Sequence[RemoteSimulator],
        seed: int,
        *,
        share: float,
        looked: Looked | None = None,
    ) -> Check | None:
        """The first structured input or size at which the variant is wrong; None if none was found."""
        of = LookSubject(self, task, prepared, seed, checkers, looked if looked is not None else Looked())
        return inputs_hunted(of, share) or unlike_hunted(of, share) or sizes_hunted(of, share)

    def own_programs(self, task: Task, cases: Sequence[Case]) -> dict[str, Program]:
        """Programs of the task's own first kernel; none where it has none, or cannot be launched."""
        own = own_kernel(task)
        ready = self.prepare(task, own) if own is not None else None
        return self.bound(task, ready, cases) if isinstance(ready, Prepared) else {}

    def bound(
        self, task: Task, prepared: Prepared, cases: Sequence[Case], most: int = _FEW_COMPILED
    ) -> dict[str, Program]:
        """Programs of further cases, but for those that the variant refuses."""
        found = bind_more(task, prepared.variant, cases, chip=self.chip, arch=self.arch, most_compiled=most)
        self.code.begin(found)
        return found


@dataclass(frozen=True, slots=True)
class LookSubject:
    """What a look is of, and where it is taken. looked: takes what was right."""

    bench: LookingBench
    task: Task
    prepared: Prepared
    seed: int
    checkers: Sequence[RemoteSimulator]
    looked: Looked

    def own_programs(self, cases: Sequence[Case]) -> dict[str, Program]:
        """Programs of the task's own first kernel."""
        return self.bench.own_programs(self.task, cases)


def inputs_hunted(of: LookSubject, share: float = THOROUGH) -> Check | None:
    """The first structured input at which it is wrong, before a keep also the first law or limit that it breaks."""
    bench, task, prepared, seed, looked = of.bench, of.task, of.prepared, of.seed, of.looked
    reference, variant, checker = bench.reference(task), prepared.variant, of.checkers[0]
    ours, checkers = of.own_programs, of.checkers
    programs, tell = prepared.programs, bench.on_stage
    found = patterns(task, programs, reference, checkers, seed, share=share, honest=ours, looked=looked, tell=tell)
    if found is not None or share < THOROUGH:
        return found
    if (found := at_corners(task, variant, bench.chip, seed)) is not None:
        return found
    many = partial(bench.bound, task, prepared, most=_MANY_COMPILED)
    if (found := lawful(task, many, reference, checker, seed, looked)) is not None:
        return found
    some = partial(bench.bound, task, prepared, most=_SOME_COMPILED)
    return mixed(task, some, ours, reference, checker, seed, looked, variant, bench.chip)


def unlike_hunted(of: LookSubject, share: float = THOROUGH) -> Check | None:
    """Before a keep the first check case that is wrong on a machine that the ISA allows, or compiled for another."""
    if share < THOROUGH:
        return None
    bench, task, prepared = of.bench, of.task, of.prepared
    programs, reference, checker = prepared.programs, bench.reference(task), of.checkers[0]
    bind = partial(bench.bound, task, prepared, most=_FEW_COMPILED)
    found = unlike_machines(task, programs, bind, reference, checker, of.seed)
    return found or compiled_elsewhere(task, prepared.variant, programs, reference, checker, of.seed)


def sizes_hunted(of: LookSubject, share: float = THOROUGH, part: tuple[int, int] = (0, 1)) -> Check | None:
    """The first size at which it is wrong. part: which of how many parts of the sizes."""
    bench, task, prepared = of.bench, of.task, of.prepared
    bind = partial(bench.bound, task, prepared, most=_FEW_COMPILED if share < THOROUGH else _MANY_COMPILED)
    return hunt(
        task,
        prepared.variant,
        prepared.programs,
        bind,
        bench.reference(task),
        of.checkers,
        bench.chip,
        of.seed,
        share=share,
        honest=of.own_programs,
        looked=of.looked,
        part=part,
        tell=bench.on_stage if share >= THOROUGH else silent,
    )
