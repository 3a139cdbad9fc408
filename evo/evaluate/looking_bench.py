"""Looks at variants on simulators: the programs of further sizes, and the hunts for sizes and inputs that are wrong."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial

from evo.device import Program
from evo.device.remote_device import RemoteGpu, RemoteSimulator
from evo.evaluate.code_ahead import CodeAhead
from evo.evaluate.counted_stage import Tell
from evo.evaluate.gate import THOROUGH, Looked, at_corners, hunt, lawful, mixed, own_kernel, patterns
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
        wrong = self.inputs_hunted(task, prepared, checkers, seed, share=share, looked=looked)
        return wrong or self.sizes_hunted(task, prepared, checkers, seed, share=share, looked=looked)

    def inputs_hunted(
        self,
        task: Task,
        prepared: Prepared,
        checkers: Sequence[RemoteSimulator],
        seed: int,
        *,
        share: float,
        looked: Looked | None = None,
    ) -> Check | None:
        """The first structured input at which it is wrong, before a keep also the first law or limit that it breaks."""
        reference, programs, variant = self.reference(task), prepared.programs, prepared.variant
        found = patterns(task, programs, reference, checkers, seed, share=share, looked=looked)
        if found is not None or share < THOROUGH:
            return found
        if (found := at_corners(task, variant, self.chip, seed)) is not None:
            return found
        many = partial(self.bound, task, prepared, most=_MANY_COMPILED)
        if (found := lawful(task, many, reference, checkers[0], seed, looked)) is not None:
            return found
        some = partial(self.bound, task, prepared, most=_SOME_COMPILED)
        ours = partial(self.own_programs, task)
        return mixed(task, some, ours, reference, checkers[0], seed, looked, variant, self.chip)

    def sizes_hunted(
        self,
        task: Task,
        prepared: Prepared,
        checkers: Sequence[RemoteSimulator],
        seed: int,
        *,
        share: float,
        looked: Looked | None = None,
    ) -> Check | None:
        """The first size at which it is wrong."""
        most = _FEW_COMPILED if share < THOROUGH else _MANY_COMPILED
        bind = partial(self.bound, task, prepared, most=most)
        reference, programs, variant = self.reference(task), prepared.programs, prepared.variant
        return hunt(task, variant, programs, bind, reference, checkers, self.chip, seed, share=share, looked=looked)

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
