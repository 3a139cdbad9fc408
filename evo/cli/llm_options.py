"""The options of `evo iterate` for its language model.

The key is read here, from the environment or the keyring, and handed on in memory alone; it is taken out of the
environment at once, so that no child process inherits it.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evo.cli import completion
from evo.errors import UsageError

if TYPE_CHECKING:
    from evo.operators.llm import LlmSettings, ModelServer, Price

NAME = "llm"
KEYS = ("EVO_LLM_KEY", "OPENAI_API_KEY")
_INVERTING = ("inversion", "hybrid")
_ASKING = ("free", "insight", "full", "rewrite")  # what only a model can do

StrategyName = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        metavar="NAME",
        help="free, insight (default), full, inversion, hybrid or rewrite.",
        autocompletion=completion.strategies,
    ),
]

Effort = Annotated[
    str | None, typer.Option("--llm-effort", metavar="LEVEL", help="Reasoning effort: minimal, low, medium, high.")
]
Temperature = Annotated[
    float | None, typer.Option("--llm-temperature", metavar="T", min=0, max=2, help="Sampling temperature.")
]
Extra = Annotated[
    str | None, typer.Option("--llm-extra", metavar="JSON", help="More fields for the body of each request.")
]
Retries = Annotated[
    int, typer.Option("--llm-retries", metavar="N", min=0, max=50, help="Repeats after a 429, a 5xx or no answer.")
]
Timeout = Annotated[str, typer.Option("--llm-timeout", metavar="TIME", help="Time limit of one request: 90s, 5m.")]
ReplayFile = Annotated[
    Path | None,
    typer.Option("--llm-replay", metavar="FILE", help="Read the replies from this transcript, without a server."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmOptions:
    """The options as given on the command line, not yet parsed."""

    strategy: str | None
    url: str | None
    model: str | None
    budget: str | None
    calls: int | None
    tokens: int | None
    price: str | None
    parallel: int
    repairs: int
    reply_tokens: int
    timeout: str
    retries: int
    effort: str | None
    temperature: float | None
    extra: str | None
    replay: Path | None


def llm_options(
    strategy: StrategyName = None,
    llm_url: Annotated[
        str | None,
        typer.Option("--llm-url", metavar="URL", envvar="EVO_LLM_URL", help="Address of an OpenAI-compatible server."),
    ] = None,
    llm_model: Annotated[
        str | None, typer.Option("--llm-model", metavar="NAME", envvar="EVO_LLM_MODEL", help="The model's name.")
    ] = None,
    llm_budget: Annotated[
        str | None, typer.Option("--llm-budget", metavar="MONEY", help="Maximum cost, e.g. 2.00; needs a price.")
    ] = None,
    llm_calls: Annotated[int | None, typer.Option("--llm-calls", metavar="N", min=1, help="Maximum requests.")] = None,
    llm_tokens: Annotated[
        int | None, typer.Option("--llm-tokens", metavar="N", min=1, help="Maximum tokens, prompts included.")
    ] = None,
    llm_price: Annotated[
        str | None,
        typer.Option(
            "--llm-price", metavar="P/C", envvar="EVO_LLM_PRICE", help="Price per million tokens, in and out."
        ),
    ] = None,
    llm_parallel: Annotated[
        int, typer.Option("--llm-parallel", metavar="N", min=1, max=64, help="Requests in flight while trials run.")
    ] = 1,
    llm_repairs: Annotated[
        int, typer.Option("--llm-repairs", metavar="N", min=0, max=20, help="Repeats after an unusable reply.")
    ] = 3,
    llm_reply_tokens: Annotated[
        int, typer.Option("--llm-reply-tokens", metavar="N", min=64, help="Maximum number of tokens of one reply.")
    ] = 8192,
    llm_timeout: Timeout = "5m",
    llm_retries: Retries = 5,
    llm_effort: Effort = None,
    llm_temperature: Temperature = None,
    llm_extra: Extra = None,
    llm_replay: ReplayFile = None,
) -> LlmOptions:
    """One parameter per option."""
    return LlmOptions(
        strategy=strategy,
        url=llm_url,
        model=llm_model,
        budget=llm_budget,
        calls=llm_calls,
        tokens=llm_tokens,
        price=llm_price,
        parallel=llm_parallel,
        repairs=llm_repairs,
        reply_tokens=llm_reply_tokens,
        timeout=llm_timeout,
        retries=llm_retries,
        effort=llm_effort,
        temperature=llm_temperature,
        extra=llm_extra,
        replay=llm_replay,
    )


def with_llm(command: Callable[..., int]) -> Callable[..., int]:
    """The command with the options above; it gets them as one keyword, `llm`."""
    own = inspect.signature(command, eval_str=True)
    more = inspect.signature(llm_options, eval_str=True).parameters
    kept = [parameter for name, parameter in own.parameters.items() if name != NAME]

    @functools.wraps(command)
    def wrapper(**words: object) -> int:
        chosen = llm_options(**{name: words.pop(name) for name in more})  # type: ignore[arg-type]
        return command(**words, llm=chosen)

    parameters = [*kept, *more.values()]
    wrapper.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


def llm_settings(words: LlmOptions, names: tuple[str, ...], root: Path) -> tuple[LlmSettings | None, tuple[str, ...]]:
    """The settings of the language model and the operators of a run. None if it has no operator `llm`.

    Raises UsageError: no key, no model, no package, no price for a budget in money.
    """
    if NAME not in names:
        return None, _without(words, names)
    from evo.cli.options import seconds_of
    from evo.operators.llm import Budget, LlmSettings

    budget = Budget(calls=words.calls, tokens=words.tokens, money=_money(words.budget))
    if words.replay is not None:
        if not words.replay.is_file():
            hint = "transcripts are in population/TASK/transcripts/"
            raise UsageError(f"--llm-replay {words.replay}: no such file", hint=hint)
        return LlmSettings(
            strategy=words.strategy or "insight",
            replay=words.replay.resolve(),
            parallel=words.parallel,
            repairs=words.repairs,
            max_tokens=words.reply_tokens,
        ), names
    timeout_s = seconds_of(words.timeout) or 0.0
    server = _server(words, timeout_s)
    return LlmSettings(
        strategy=words.strategy or "insight",
        server=server,
        budget=budget,
        price=_price(words, server.model, root),
        parallel=words.parallel,
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


def _server(words: LlmOptions, timeout_s: float) -> ModelServer:
    from evo.operators.llm import ModelServer

    if importlib.util.find_spec("openai") is None:
        raise UsageError("the operator llm needs the openai package", hint="pip install 'evo-kernels[llm]'")
    key = take_key()
    if key is None:
        hint = f"set {KEYS[0]}; for a local server that wants none, any word will do: {KEYS[0]}=none"
        raise UsageError(f"the operator llm needs a key: neither {KEYS[0]} nor {KEYS[1]} is set", hint=hint)
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        hint = f"set {KEYS[0]} again, to one line without blanks"
        raise UsageError("the key holds blanks or other characters that no HTTP header may hold", hint=hint)
    if not words.model:
        hint = "pass --llm-model NAME, or set EVO_LLM_MODEL; the server lists its models at /v1/models"
        raise UsageError("the operator llm needs the name of a model", hint=hint)
    url = words.url or os.environ.get("OPENAI_BASE_URL") or None
    if url is not None and not re.fullmatch(r"https?://[^\s/@]+(/[^\s@]*)?", url):
        hint = "write it like http://localhost:8000/v1; a key belongs in the environment, not in the address"
        raise UsageError(f"--llm-url {re.sub(r'//[^/]*@', '//...@', url)}: not the address of a server", hint=hint)
    return ModelServer(
        url=url,
        model=words.model,
        key=key,
        timeout_s=timeout_s,
        retries=words.retries,
        effort=words.effort,
        temperature=words.temperature,
        extra=_extra(words.extra),
    )


def _extra(words: str | None) -> dict[str, Any]:
    try:
        found = json.loads(words or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageError(f"--llm-extra {words}: not a JSON object", hint="write it like '{\"top_k\": 20}'")
    return found


def take_key() -> str | None:
    """The key, from the environment, from which it is removed, or from the keyring if that is installed."""
    found = [os.environ.pop(name, "").strip() for name in KEYS]
    if key := next(filter(None, found), None):
        return key
    if importlib.util.find_spec("keyring") is None:
        return None
    import keyring

    try:
        return keyring.get_password("evo", NAME) or None
    except keyring.errors.KeyringError:  # no keyring on this machine
        return None


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


def _price(words: LlmOptions, model: str, root: Path) -> Price | None:
    from evo.operators.llm import price_of, read_price

    return read_price(words.price) if words.price is not None else price_of(model, root)
