"""What a run is told about its language model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from evo.errors import UsageError
from evo.operators.llm.client import RETRIES, Client, ModelServer
from evo.operators.llm.cost import Budget, Price
from evo.operators.llm.endpoint import Endpoint
from evo.operators.llm.prompts import STRATEGIES
from evo.operators.llm.transcript import Replay

MAX_TOKENS = 8192
REPAIRS = 3
PARALLEL = 1
SUMMARY_EVERY = 8
PARENTS = ("champion", "elites")
REWRITES = 3  # of a run whose strategy asks for them


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A model that a run may ask: its name as given, perhaps with an effort, its server and its price."""

    name: str
    server: ModelServer
    price: Price | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings:
    """Strategy, models or transcript, budgets. parallel: questions in flight at most, each with all of its samples.

    samples: answers to one question, each with another aim, that are screened before one is tried. summary_every:
    trials between two summaries in the prompt; 0: none. parents: `champion`, `elites`, or as the strategy has it.
    max_tokens: of one reply. repairs: further tries for a reply that cannot be applied or compiled.
    """

    strategy: str = "insight"
    models: tuple[ModelChoice, ...] = ()
    replay: Path | None = None
    budget: Budget = field(default_factory=Budget)
    parallel: int = PARALLEL
    samples: int = 1
    summary_every: int = SUMMARY_EVERY
    parents: str | None = None
    max_tokens: int = MAX_TOKENS
    repairs: int = REPAIRS

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise UsageError(
                f"no strategy {self.strategy!r}", problem="unknown-name", hint=f"one of {', '.join(STRATEGIES)}"
            )
        if self.parents is not None and self.parents not in PARENTS:
            raise UsageError(f"--llm-parents {self.parents}: no such choice", hint=f"one of {', '.join(PARENTS)}")
        free = [choice.name for choice in self.models if choice.price is None]
        if self.budget.money is not None and free and self.replay is None:
            hint = (
                f'give --llm-price PROMPT/COMPLETION (per million tokens), or [llm.prices."{free[0]}"] in evo.toml;'
                " --llm-tokens and --llm-calls need no price"
            )
            raise UsageError(
                f"a budget in money, but no price of {', '.join(free)} is known", problem="no-price", hint=hint
            )

    @property
    def from_elites(self) -> bool:
        """Whether a run that keeps nothing goes on from other parents than the champion."""
        return (self.parents or STRATEGIES[self.strategy].parents) == "elites"

    @property
    def default_rewrites(self) -> int:
        """How many rewrites a run may try unless it is told."""
        return REWRITES if STRATEGIES[self.strategy].rewrites != "never" else 0

    def open(self, note: Callable[[str], None]) -> Replay | dict[str, Endpoint]:
        """The transcript, or the server of each model. Raises UsageError if there is neither, SyntaxInvalid."""
        if self.replay is not None:
            return Replay(self.replay)
        if not self.models:
            hint = "pass --llm-url and --llm-model, and a key in EVO_LLM_KEY; see docs/llm.md"
            raise UsageError("the operator llm has no language model", hint=hint)
        return {choice.name: Client(choice.server, note=note) for choice in self.models}


__all__ = ["MAX_TOKENS", "PARALLEL", "REPAIRS", "RETRIES", "LlmSettings", "ModelChoice", "ModelServer"]
