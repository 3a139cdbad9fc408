"""What has been looked at before a keep, and was right; what is known of outcomes of conditions on sizes."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from evo.evaluate.gate.run_cases import Step
from evo.spec.expectation import Expectation
from evo.spec.input_distributions import UNBIASED
from evo.spec.task import Case


@dataclass(frozen=True, slots=True)
class SteeredCases:
    """cheap: within the limits, and affordable as a whole. dear: beyond them, one for each outcome that needs it.

    outcomes: of conditions on sizes that some allowed size has; known: those that check cases have.
    """

    cheap: tuple[Case, ...] = ()
    dear: tuple[Case, ...] = ()
    outcomes: int = 0
    known: int = 0


@dataclass(frozen=True, slots=True)
class UnmetOutcome:
    """An outcome of a condition on sizes that nothing verified had. cases: sizes that have it, the cheapest first."""

    source_line: int | None
    instruction: str
    outcome: bool
    cases: tuple[Case, ...]


@dataclass(slots=True)
class Looked:
    """What has been looked at, and was right: names of cases, of distributions and patterns, and of laws.

    It may be sent to another process.
    """

    sizes: set[str] = field(default_factory=set)
    inputs: set[str] = field(default_factory=set)
    laws: set[str] = field(default_factory=set)
    cases: list[Case] = field(default_factory=list)  # run whole or by a sample, for what their sizes decide
    _steered: SteeredCases | None = None
    _steering: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _raced: set[tuple[object, ...]] = field(default_factory=set, repr=False, compare=False)

    def __reduce__(self) -> tuple[type[Looked], tuple[object, ...]]:
        return Looked, (self.sizes, self.inputs, self.laws, self.cases, self._steered)

    def add(self, step: Step) -> None:
        if step.case.name not in self.sizes:
            self.sizes.add(step.case.name)
            self.cases.append(step.case)
        self.inputs.add(step.distribution)

    def is_again(self, step: Step, expectation: Expectation) -> bool:
        """Whether this size has had a run, judged as strictly, on the very same inputs that watched races as well.

        A pattern may leave a small tensor as it was drawn, and then there is nothing else to be found.
        """
        digest = hashlib.blake2b(digest_size=16)
        for name, array in expectation.inputs.items():
            digest.update(name.encode() + array.tobytes())
        size = tuple(step.case.axes.items())
        key = type(step.device), size, expectation.distribution in UNBIASED, digest.digest()
        if key in self._raced:
            return True
        if step.check_races:
            self._raced.add(key)
        return False

    def take_over(self, other: Looked) -> None:
        """What another process has looked at."""
        self.sizes |= other.sizes
        self.inputs |= other.inputs
        self.laws |= other.laws
        self.cases += other.cases
        self._steered = self._steered or other._steered

    def steered(self, work: Callable[[], SteeredCases]) -> SteeredCases:
        """What `work` gives, which takes seconds, once for both looks that ask for it."""
        with self._steering:
            if self._steered is None:
                self._steered = work()
            return self._steered
