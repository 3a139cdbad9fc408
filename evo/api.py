"""evo from Python: a session on one device, and the loop. `import evo` gives these names (docs/python.md)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from evo.device import parse_device
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.results import Evaluation
from evo.search.events import Event, RunSummary
from evo.search.loop import evolve
from evo.search.settings import Settings
from evo.search.single_trial import JudgedTrial, judge_text
from evo.spec import task as tasks
from evo.spec.chips import Chip
from evo.spec.task import Task
from evo.spec.variant import Variant, parse_variant, read_variant

__all__ = ["Session", "load_task", "load_variant", "parse_variant", "run_search"]


def load_task(name: str, root: Path | str | None = None) -> Task:
    """The task `kernels/NAME` of a repository; root: of the repository (default: that of the current folder).

    Raises UsageError for an unknown task, SyntaxInvalid for a bad file.
    """
    return tasks.load_task(Path(root) if root is not None else tasks.find_root(), name)


def load_variant(path: Path | str) -> Variant:
    """The variant of a `.cu` file. Raises SyntaxInvalid naming file, line and field."""
    return read_variant(Path(path))


class Session:
    """One device that variants are evaluated on, in processes of its own. Use it as a context manager."""

    def __init__(self, device: str = "auto", *, arch: str = "sm_89") -> None:
        """device: `gpu:0`, `sim:l4` or `auto`. Raises UsageError if it is unknown, DeviceMissing if it is absent."""
        self._bench = EvaluationSession(parse_device(device), arch=arch)

    def __repr__(self) -> str:
        return f"<Session {self.device}, {self._bench.arch}>"

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes of the device."""
        self._bench.close()

    @property
    def device(self) -> str:
        """`gpu:0` or `sim:l4`."""
        return str(self._bench.device)

    @property
    def chip(self) -> Chip:
        return self._bench.chip

    def evaluate(
        self, task: Task, variant: Variant, *, against: Variant | None = None, seed: int | None = None
    ) -> Evaluation:
        """Check a variant and time it, in pairs with another and with a decision if one is given.

        seed: of the inputs (default: drawn). Raises EvoError for the harness only; a failed variant has a status.
        """
        rival = against.text if against is not None else None
        return evaluate(
            Job(task=task, text=variant.text, path=variant.path, seed=_seed(seed), rival=rival), self._bench
        )

    def try_variant(self, task: Task, variant: Variant, *, seed: int | None = None) -> JudgedTrial:
        """What the loop would decide of a variant, against the task's champion. Nothing is written."""
        return judge_text(task, variant.text, self._bench, path=variant.path, seed=_seed(seed))


def run_search(
    task: Task,
    *,
    device: str = "auto",
    arch: str = "sm_89",
    iterations: int = 12,
    budget_s: float | None = None,
    operators: tuple[str, ...] = ("ladder", "rules"),
    start: Path | None = None,
    branch: str | None = None,
    seed: int = 0,
    watch: Callable[[Event], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> RunSummary:
    """Run the loop on a task of a git repository, as `evo iterate` does: records, commits, a champion.

    watch: called with each event, in this thread. stop: asked before each trial. The other arguments are the options of
    the command. Raises EvoError for the harness.
    """
    settings = Settings(
        task=task.name,
        device=parse_device(device),
        arch=arch,
        iterations=iterations,
        budget_s=budget_s,
        operators=operators,
        start=start,
        branch=branch,
        seed=seed,
    )
    return evolve(settings, task.folder.parents[1], watch, stop=stop)


def _seed(given: int | None) -> int:
    return secrets.randbits(31) if given is None else given
