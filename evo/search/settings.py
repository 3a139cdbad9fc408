"""Settings of one run of the loop, and its observer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evo.device import DeviceName
from evo.evaluate.session import EvaluationSession
from evo.operators import Hypothesis, is_closed
from evo.operators.llm import Llm, LlmSettings, Surroundings
from evo.search.cluster import Cluster
from evo.search.events import Event, Observer
from evo.search.trial_log import TrialLog
from evo.spec.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What one run of the loop is asked to do."""

    task: str
    device: DeviceName
    arch: str = "sm_89"
    iterations: int = 12
    budget_s: float | None = None
    operators: tuple[str, ...] = ("ladder", "rules")
    start: Path | None = None  # `--from FILE`: begin anew from this file
    branch: str | None = None
    seed: int = 0
    margin: float | None = None
    neutral: bool = False
    patch: Path | None = None
    hypothesis: Hypothesis | None = None  # what the author of the patch says
    search: str = "bandit"  # or a control: random, best-of-n
    patience: int | None = None  # trials without a keep, after which the run ends
    target: float | None = None  # share of the headline's floor, at which the run ends
    rewrites: int = 0  # proposals of the kind `rewrite` that the run may try
    resume: bool = False  # the iterations count from the start of the last run
    llm: LlmSettings | None = None
    cluster: Cluster | None = None  # where candidates are evaluated; None: here
    jobs: int | None = None  # processes that compile, check and look side by side here; they change no verdict

    @property
    def is_closed(self) -> bool:
        """Whether every text follows from the repository and the seed: none comes from a person or a model."""
        return is_closed(self.operators)


def language_model(
    task: Task,
    settings: Settings,
    bench: EvaluationSession,
    trial_log: TrialLog,
    watch: Observer,
    stop: Callable[[], bool],
) -> Llm | None:
    """The language model of a run that asks one."""
    if settings.llm is None:
        return None

    around = Surroundings(
        root=trial_log.root,
        run=trial_log.run,
        task=task,
        bench=bench,
        note=lambda text: watch(Event(note=text)),
        usage=lambda totals: watch(Event(about=totals)),
        stop=stop,
        alone=settings.operators == ("llm",),
        seed=settings.seed,
        margin=settings.margin,
        neutral=settings.neutral,
        screens=settings.cluster is None or bench.modelled,
    )
    return Llm(settings.llm, around)
