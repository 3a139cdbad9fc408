"""Expected results of one case: the truth on given inputs, and the errors that an implementation may make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from evo.spec.honest_errors import HonestErrors
from evo.spec.input_distributions import DRAWN
from evo.spec.judging import JudgedTruth
from evo.spec.tensor_arrays import Arrays


@dataclass(frozen=True, slots=True)
class Expectation:
    """One case: inputs as the kernel sees them, float64 outputs, and the outputs of a trusted implementation.

    spread: how far the outputs move when every input moves by one rounding; for derived inputs only.
    rounding: what arithmetic in float32 may err at each element on account of that; added to the tolerance.
    honest: what honest implementations err at each element; drawn when a variant is beyond the tolerance there.
    memo: what comparing with it has worked out, so that large cases are not gone through again for every variant.
    terms: by output, about how many inputs there are for each element, where `inputs` do not tell.
    judged: the truth of a large case that a judge has; then expected is empty, and `fetched` has the arrays.
    """

    inputs: Arrays
    expected: Arrays
    trusted: Arrays | None
    distribution: str = DRAWN
    spread: Arrays | None = None
    rounding: Arrays | None = None
    memo: dict[str, object] = field(default_factory=dict, compare=False, repr=False)
    terms: Mapping[str, float] = field(default_factory=dict)
    judged: JudgedTruth | None = None
    honest: HonestErrors | None = field(default=None, compare=False, repr=False)
    fetch: Callable[[], Expectation] | None = field(default=None, compare=False, repr=False)

    def fetched(self) -> Expectation:
        """With its arrays, which NumPy works out if a judge has the truth. Raises TaskInvalid."""
        return self if self.fetch is None else self.fetch()
