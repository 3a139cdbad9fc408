"""The options of `evo iterate` for its language model: strategy, budgets, and how the model is asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from evo.cli import completion
from evo.cli.llm_endpoint import EndpointOptions, model_choices
from evo.errors import UsageError

if TYPE_CHECKING:
    from evo.operators.llm import LlmSettings

NAME = "llm"
_INVERTING = ("inversion", "hybrid")
_ASKING = ("free", "insight", "full", "rewrite")  # what only a model can do

StrategyName = Annotated[
    str | None,
    Option(
        "--strategy",
        metavar="NAME",
        help="free, insight (default), full, inversion, hybrid or rewrite.",
        autocompletion=completion.strategies,
    ),
]

MoneyWords = Annotated[
    str | None, Option("--llm-budget", metavar="MONEY", help="Maximum cost, e.g. 2.00; needs a price.")
]
MostCalls = Annotated[int | None, Option("--llm-calls", metavar="N", min=1, help="Maximum requests.")]
MostTokens = Annotated[int | None, Option("--llm-tokens", metavar="N", min=1, help="Maximum tokens, prompts included.")]
Parallel = Annotated[
    int, Option("--llm-parallel", metavar="N", min=1, max=64, help="Requests in flight while trials run.")
]
Samples = Annotated[
    int, Option("--llm-samples", metavar="N", min=1, max=16, help="Replies per prompt; screening picks the best.")
]
SummaryEvery = Annotated[
    int, Option("--llm-summary", metavar="N", min=0, help="Every N trials, summarise the run in the prompt; 0: never.")
]
Parents = Annotated[
    str | None, Option("--llm-parents", metavar="WHO", help="champion, or elites while stalled (default of full).")
]
Repairs = Annotated[int, Option("--llm-repairs", metavar="N", min=0, max=20, help="Repeats after an unusable reply.")]
ReplyTokens = Annotated[
    int, Option("--llm-reply-tokens", metavar="N", min=64, help="Maximum number of tokens of one reply.")
]
Retries = Annotated[
    int, Option("--llm-retries", metavar="N", min=0, max=50, help="Repeats after a 429, a 5xx or no answer.")
]
ReplayFile = Annotated[
    Path | None, Option("--llm-replay", metavar="FILE", help="Read the replies from this transcript, without a server.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmOptions(EndpointOptions):
    """The options as given on the command line, not yet parsed."""

    strategy: StrategyName = None
    budget: MoneyWords = None
    calls: MostCalls = None
    tokens: MostTokens = None
    parallel: Parallel = 1
    samples: Samples = 1
    summary: SummaryEvery = 8
    parents: Parents = None
    repairs: Repairs = 3
    reply_tokens: ReplyTokens = 8192
    retries: Retries = 5
    replay: ReplayFile = None


def llm_settings(words: LlmOptions, names: tuple[str, ...], root: Path) -> tuple[LlmSettings | None, tuple[str, ...]]:
    """The settings of the language model and the operators of a run. None if it has no operator `llm`.

    Raises UsageError: no key, no model, no package, no price for a budget in money.
    """
    if NAME not in names:
        return None, _without(words, names)
    from evo.operators.llm import Budget, LlmSettings

    if words.replay is not None and not words.replay.is_file():
        hint = "transcripts are in population/TASK/transcripts/"
        raise UsageError(f"--llm-replay {words.replay}: no such file", hint=hint)
    return LlmSettings(
        strategy=words.strategy or "insight",
        models=model_choices(words, root) if words.replay is None else (),
        replay=words.replay.resolve() if words.replay is not None else None,
        budget=Budget(calls=words.calls, tokens=words.tokens, money=_money(words.budget)),
        parallel=words.parallel,
        samples=words.samples,
        summary_every=words.summary,
        parents=words.parents,
        repairs=words.repairs,
        max_tokens=words.reply_tokens,
    ), names


def _without(words: LlmOptions, names: tuple[str, ...]) -> tuple[str, ...]:
    """The operators of a run without a language model. Inversion then means the derived configurations."""
    from evo.operators import WHEN_STALLED
    from evo.operators.llm import STRATEGIES

    given = {
        "--llm-budget": words.budget,
        "--llm-calls": words.calls,
        "--llm-tokens": words.tokens,
        "--llm-replay": words.replay,
        f"--strategy {words.strategy}": words.strategy if words.strategy in _ASKING else None,
    }
    for option, value in given.items():
        if value is not None:
            raise UsageError(f"{option} needs the operator llm", hint="add it: --operators ladder,rules,llm")
    if words.strategy is not None and words.strategy not in STRATEGIES:
        raise UsageError(f"unknown strategy {words.strategy!r}", hint=f"one of {', '.join(STRATEGIES)}")
    if words.strategy in _INVERTING and "derive" not in names:
        return ("derive" if words.strategy == "inversion" else WHEN_STALLED, *names)
    return names


def _money(words: str | None) -> float | None:
    if words is None:
        return None
    try:
        value = float(words.strip().lstrip("$€"))
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"--llm-budget {words}: not an amount of money", hint="write it like 2.00")
    return value
