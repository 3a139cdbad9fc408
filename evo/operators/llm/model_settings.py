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
REWRITES = 3  # of a run whose strategy asks for them


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings:
    """Strategy, server or transcript, budgets. parallel: requests in flight at most.

    max_tokens: of one reply. repairs: further tries for a reply that cannot be applied or compiled.
    """

    strategy: str = "insight"
    server: ModelServer | None = None
    replay: Path | None = None
    budget: Budget = field(default_factory=Budget)
    price: Price | None = None
    parallel: int = PARALLEL
    max_tokens: int = MAX_TOKENS
    repairs: int = REPAIRS

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise UsageError(f"no strategy {self.strategy!r}", hint=f"one of {', '.join(STRATEGIES)}")
        if self.budget.money is not None and self.price is None and self.replay is None:
            model = self.server.model if self.server else ""
            hint = (
                f'give --llm-price PROMPT/COMPLETION (per million tokens), or [llm.prices."{model}"] in evo.toml;'
                " --llm-tokens and --llm-calls need no price"
            )
            raise UsageError(f"a budget in money, but no price of {model or 'the model'} is known", hint=hint)

    @property
    def default_rewrites(self) -> int:
        """How many rewrites a run may try unless it is told."""
        return REWRITES if STRATEGIES[self.strategy].rewrites != "never" else 0

    def open(self, note: Callable[[str], None]) -> Endpoint:
        """The transcript or the server. Raises UsageError without either, SyntaxInvalid for a bad transcript."""
        if self.replay is not None:
            return Replay(self.replay)
        if self.server is None:
            hint = "pass --llm-url and --llm-model, and a key in EVO_LLM_KEY; see docs/llm.md"
            raise UsageError("the operator llm has no language model", hint=hint)
        return Client(self.server, note=note)


__all__ = ["MAX_TOKENS", "PARALLEL", "REPAIRS", "RETRIES", "LlmSettings", "ModelServer"]
