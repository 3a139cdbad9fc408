"""Expected results of one case, and the interface of a judge: a process that runs the same reference.py where large
arrays are quick, and has the truth of a large case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evo.spec.honest_errors import HonestErrors
from evo.spec.input_distributions import DRAWN
from evo.spec.tensor_arrays import Arrays, size_of

LARGE_BYTES = 8 << 20  # of a case's inputs and outputs; smaller ones are NumPy's, whose process is as quick


@dataclass(frozen=True, slots=True)
class JudgedOutput:
    """Sums over blocks, a row each: of a truth (squares, largest, sum of sizes, within its type), and of the errors of
    the trusted implementation (largest, squares, sum, sum outwards, beyond the tolerance).
    """

    truth: NDArray[np.float64]
    errors: NDArray[np.float64]


class Judge(Protocol):
    """Each method gives None for what it cannot do: then NumPy does it. Thread-safe."""

    def inputs(self, axes: Mapping[str, int], seed: Sequence[int]) -> Arrays | None:
        """What the reference draws, in shared memory."""
        ...

    def outputs(self, function: str, arguments: Sequence[object]) -> Arrays | None:
        """What `expected` or `trusted` returns."""
        ...

    def judge(
        self, key: str, arguments: Sequence[object], shapes: Mapping[str, tuple[int, ...]]
    ) -> dict[str, JudgedOutput] | None:
        """Work out a truth, keep it under the key, and give its sums by output. shapes: of the outputs."""
        ...

    def compare(self, key: str, outputs: Arrays) -> dict[str, NDArray[np.float64]] | None:
        """By output, sums of the errors against the truth of that key, as those of `JudgedOutput.errors`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTruth:
    """The truth of one case with a judge: its sums by output, and what asks for more.

    arguments: what the reference was given. shapes: of the outputs.
    """

    judge: Judge
    key: str
    arguments: tuple[object, ...]
    shapes: dict[str, tuple[int, ...]]
    sums: dict[str, JudgedOutput]
    has_trusted: bool

    @staticmethod
    def by(
        judge: Judge, key: str, arguments: tuple[object, ...], shapes: dict[str, tuple[int, ...]], *, has_trusted: bool
    ) -> JudgedTruth | None:
        """The truth, worked out; None if the judge cannot."""
        sums = judge.judge(key, arguments, shapes)
        if sums is None:
            return None
        return JudgedTruth(judge=judge, key=key, arguments=arguments, shapes=shapes, sums=sums, has_trusted=has_trusted)

    def compare(self, outputs: Arrays) -> dict[str, NDArray[np.float64]] | None:
        """Sums of errors by output; worked out anew if the judge has dropped the truth, None if it cannot."""
        found = self.judge.compare(self.key, outputs)
        if found is None and self.judge.judge(self.key, self.arguments, self.shapes) is not None:
            found = self.judge.compare(self.key, outputs)
        return found


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

    @property
    def size_bytes(self) -> int:
        parts = (self.inputs, self.expected, self.trusted, self.spread, self.rounding)
        return sum(size_of(part or {}) for part in parts)

    def fetched(self) -> Expectation:
        """With its arrays, which NumPy works out if a judge has the truth. Raises TaskInvalid."""
        return self if self.fetch is None else self.fetch()
