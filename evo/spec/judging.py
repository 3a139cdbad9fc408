"""The interface of a judge: a process that runs the same reference.py where large arrays are quick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[np.generic]]

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
