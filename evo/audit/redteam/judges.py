"""Both judges of an attack, and what becomes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from evo.audit.redteam.attack import Attack
from evo.audit.redteam.naive_harness import NaiveHarness
from evo.audit.redteam.run_attack import Outcome, faulty, run_attack
from evo.device import DeviceName
from evo.errors import EvoError
from evo.evaluate.pipeline import EvaluationSession

Judge = Callable[[Attack], Outcome]

_DEFECTS = (ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)


@contextmanager
def judges(device: DeviceName, tasks: Path, planted: Path, *, arch: str, seed: int) -> Iterator[Judge]:
    """Both judges on workers of their own; `tasks` holds the task folders. Raises DeviceMissing."""
    with (
        EvaluationSession(device, arch=arch) as bench,
        NaiveHarness(device, chip=bench.chip, arch=bench.arch, planted=planted) as naive,
    ):
        yield lambda attack: run_attack(attack, tasks, bench, naive, seed=seed)


def tried(attack: Attack, judge: Judge) -> Outcome:
    """The outcome of an attack; a failure of the harness is one."""
    started = time.monotonic()
    try:
        return judge(attack)
    except (EvoError, *_DEFECTS) as error:
        return faulty(attack.name, attack.rows, attack.task, attack.idea, error, started)
