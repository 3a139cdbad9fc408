"""What a rule looks at: a parent, its syntax tree, and what the task says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evo.analysis.access import LaunchAnalysis, analyse
from evo.cuda.source import Edit, Function, Source, parse
from evo.spec.chips import Chip, chip
from evo.spec.element_types import ELEMENT_TYPES
from evo.spec.recent_cache import RecentCache
from evo.spec.task import Task
from evo.spec.variant import Variant, parse_variant

_DEFAULT_CHIP = "l4"  # for an operator that is asked without a chip
_HEAVY = re.compile(r"\basm\b|\bmma\b|\bwmma\b")  # takes seconds to follow, and no rule on the form is for it
_KEPT = 128  # analyses: all rules look at one parent, one after the other, in all its views
_ANALYSED: RecentCache[tuple[Task, tuple[LaunchAnalysis, ...]]] = RecentCache(_KEPT)  # a task is kept, so its id is
_INTEGERS = frozenset(ELEMENT_TYPES["int32"].c_types + ELEMENT_TYPES["uint32"].c_types)  # as a task passes one


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleContext:
    """What a rule looks at: the parent, its tree, and of the task the allowed flags and the integers that it passes.

    axes: a kernel's last parameters are these or the first of them; an empty one stands for a scalar (`integers_of`).
    written: the text as it is written, if this is a view of it; its names are not free either.
    task, chip: what the access analysis reads the kernel with; rules that need it find nothing without a task.
    """

    variant: Variant
    source: Source
    flags: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()
    task: Task | None = None
    chip: Chip | None = None
    written: str = ""

    @property
    def declared(self) -> Task:
        """The task, of a context that is known to have one: there is no analysis without."""
        assert self.task is not None
        return self.task

    @property
    def launches(self) -> tuple[LaunchAnalysis, ...]:
        """The access analysis of each launch at the headline case; none without one, nor of tensor-core code."""
        if self.task is None or not self.task.bench or _HEAVY.search(self.variant.text):
            return ()
        known = self.chip or chip(_DEFAULT_CHIP)
        key = (self.variant.text, id(self.task), known.slug)
        task = self.task
        return _ANALYSED.made(key, lambda: (task, analyse(self.variant, task, task.case(task.headline), known)))[1]

    def analysed(self, *, once: bool = False) -> Iterator[tuple[LaunchAnalysis, Function]]:
        """Each analysed launch with its kernel; once: not those of kernels that several lines launch."""
        for analysis in self.launches:
            kernel = self.kernel(analysis.form.kernel)
            if kernel is not None and not (once and not self.is_launched_once(kernel.name)):
                yield analysis, kernel

    def after(self, edits: Sequence[Edit]) -> RuleContext:
        """The same context with the parent's text edited. Raises SyntaxInvalid if that cannot be read."""
        variant = parse_variant(self.source.replace(edits), path=self.variant.path)
        return replace(self, variant=variant, source=parse(variant.text), written=f"{self.written}\n{self.source.text}")

    def kernel(self, name: str) -> Function | None:
        """The kernel of this name, if the file defines it."""
        return next((f for f in self.source.functions if f.name == name and f.is_kernel), None)

    def is_launched_once(self, kernel: str) -> bool:
        """Whether one launch line has this kernel."""
        return sum(line.kernel == kernel for line in self.variant.launches) == 1

    def axis_of(self, function: Function, name: str) -> str | None:
        """The axis that an int parameter of a kernel holds, or an int of its own that is that axis's macro, or None."""
        if (value := self.constant(function, name)) is not None:
            return value if value in self.axes and value in self.variant.macros else None
        named = self._axis_named(function, name)
        if named is not None:
            return named or None
        ints = [param for param in function.params if param.type.removeprefix("const ") in _INTEGERS]
        for place, param in enumerate(ints):
            if param.name == name and len(ints) <= len(self.axes) and ints == list(function.params[-len(ints) :]):
                return self.axes[place] or None if param.type in ("int", "const int") else None
        return None

    def _axis_named(self, function: Function, name: str) -> str | None:
        """The axis that launch lines name for an int parameter; empty if they give it anything else.

        None if they name no arguments.
        """
        given = [line.args for line in self.variant.launches if line.kernel == function.name]
        if not any(args is not None for args in given):
            return None
        only = self.passed(function, name)
        return only if only in self.axes else ""

    def passed(self, function: Function, name: str) -> str | None:
        """What launch lines with named arguments give for an int parameter, of axes, in their words; None if none."""
        given = [line.args for line in self.variant.launches if line.kernel == function.name]
        place = next((at for at, param in enumerate(function.params) if param.name == name), None)
        if place is None or function.params[place].type not in ("int", "const int"):
            return None
        found = [args[place] for args in given if args is not None and place < len(args)]
        is_one = len(found) == len(given) and len({each.text for each in found}) == 1
        if not is_one or not found[0].names <= {*self.axes} or name in self.source.changed_in(function.body):
            return None
        return found[0].text

    def constant(self, function: Function, name: str, kinds: Sequence[str] = ("int",)) -> str | None:
        """What an int at the top of a kernel's body, or one of other kinds, is set to, if nothing ever changes it.

        An axis that is compiled in by its own name is set to itself.
        """
        if name in self.axes and name in self.variant.macros:
            return name
        tops = self.source.statements(function)
        inside = [s for top in tops for s in top.all() if s.name == name and s.kind in ("declare", "assign", "for")]
        if len(inside) != 1 or inside[0] not in tops or name in self.source.hidden_writes(function):
            return None
        (only,) = inside
        if only.value is None or only.dims or only.type.removeprefix("const ").strip() not in kinds:
            return None
        return self.source.slice(only.value).strip()
