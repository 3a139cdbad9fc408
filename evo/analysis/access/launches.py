"""The analysis of a variant at one case: for each launch its form, and the facts that follow, worked out when asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from evo.analysis.access.contraction import Contraction, contractions_of
from evo.analysis.access.form import BLOCK, THREAD, Form, Loop
from evo.analysis.access.instances import FormSizes, sizes_of
from evo.analysis.access.legality import Legality
from evo.analysis.access.numeric import NoValue, number_of
from evo.analysis.access.read import axis_values, read_forms
from evo.analysis.access.reductions import Reduction, reductions_of
from evo.analysis.access.sampling import column_of, threads_of
from evo.analysis.access.staging import Staged, staged_of
from evo.analysis.access.terms import Symbol
from evo.analysis.access.traffic import Traffic, traffic_of
from evo.spec.chips import Chip
from evo.spec.launch import macros_of
from evo.spec.task import Case, Task
from evo.spec.variant import Variant


@dataclass
class LaunchAnalysis:
    """One launch at one case on one chip."""

    form: Form
    sizes: FormSizes
    chip: Chip
    task: Task
    case: Case

    @cached_property
    def traffic(self) -> Traffic:
        return traffic_of(self.form, self.sizes)

    @cached_property
    def reductions(self) -> tuple[Reduction, ...]:
        return reductions_of(self.form)

    @cached_property
    def staged(self) -> tuple[Staged, ...]:
        return staged_of(self.form)

    @cached_property
    def contractions(self) -> tuple[Contraction, ...]:
        return contractions_of(self.form, self.reductions)

    @cached_property
    def legality(self) -> Legality:
        return Legality(self.form, self.sizes, self.reductions)

    def turns(self, loop: Loop) -> int | None:
        """How many turns a thread takes in a loop, in the mean over some of the launch; None if sizes do not tell."""
        if loop.trip is None:
            return None
        if loop.trip.symbols().isdisjoint((*BLOCK, *THREAD)):
            return number_of(loop.trip, self.sizes.values)
        sample = threads_of(self.sizes)
        try:
            counts = column_of(loop.trip, sample, self.sizes).clip(0)
        except NoValue:
            return None
        return round(float((counts * sample.weight).sum() / sample.weight.sum()))

    @property
    def resident_blocks(self) -> int:
        """Blocks that one SM holds by its threads, block slots and shared memory; registers are known to the compiler
        alone."""
        sizes, dynamic = self.sizes, number_of(self.form.shared_bytes, self.sizes.values) or 0
        by = self.chip.resident_limits(math.prod(sizes.block), 1, dynamic + self.static_shared_bytes)
        return max(1, min(by[name] for name in ("shared", "threads", "blocks")))

    @property
    def static_shared_bytes(self) -> int:
        """Of shared arrays that the text sizes."""
        return sum(
            math.prod(dim.value or 0 for dim in array.shape) * array.element_bytes
            for array in self.form.shared
            if not array.is_dynamic
        )


def analyse(variant: Variant, task: Task, case: Case, chip: Chip) -> tuple[LaunchAnalysis, ...]:
    """Read every launch of a variant at one case. What cannot be followed is noted in the forms, never raised.

    A launch whose kernel is not in the file, or whose extents have no number at the case, is left out.
    """
    found = []
    for form in read_forms(variant, task, macros_of(variant, case), chip):
        values = axis_values(task, case)
        values |= {Symbol(f"chip.{name}", "chip"): int(value) for name, value in chip.names().items()}
        sizes = sizes_of(form, values)
        if sizes is not None:
            found.append(LaunchAnalysis(form, sizes, chip, task, case))
    return tuple(found)
