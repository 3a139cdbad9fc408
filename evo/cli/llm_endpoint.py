"""Which endpoint a command asks: the options of its server and models, its key and its prices.

The key is read here, from the environment or the keyring, and handed on in memory alone; it is taken out of the
environment at once, so that no child process inherits it.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from typer import Option

from evo.errors import UsageError

if TYPE_CHECKING:
    from evo.operators.llm import ModelChoice, ModelServer, Price

KEYS = ("EVO_LLM_KEY", "OPENAI_API_KEY")
_KEYRING = ("evo", "llm")
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")  # after the @ of a model

Url = Annotated[
    str | None, Option("--llm-url", metavar="URL", envvar="EVO_LLM_URL", help="Address of an OpenAI-compatible server.")
]
Models = Annotated[
    list[str] | None,
    Option(
        "--llm-model",
        metavar="NAME",
        envvar="EVO_LLM_MODEL",
        help="The model's name, or NAME@EFFORT; several: by gain per cost.",
    ),
]
Api = Annotated[str | None, Option("--llm-api", metavar="FORM", help="chat or responses (default: by the address).")]
PriceWords = Annotated[
    str | None,
    Option("--llm-price", metavar="P/C", envvar="EVO_LLM_PRICE", help="Price per million tokens, in and out."),
]
Effort = Annotated[
    str | None, Option("--llm-effort", metavar="LEVEL", help="Reasoning effort: minimal, low, medium, high.")
]
Temperature = Annotated[
    float | None, Option("--llm-temperature", metavar="T", min=0, max=2, help="Sampling temperature.")
]
Extra = Annotated[str | None, Option("--llm-extra", metavar="JSON", help="More fields for the body of each request.")]
Timeout = Annotated[str, Option("--llm-timeout", metavar="TIME", help="Time limit of one request: 90s, 5m.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """The options as given on the command line, not yet parsed."""

    url: Url = None
    model: Models = None
    api: Api = None
    price: PriceWords = None
    timeout: Timeout = "5m"
    retries: int = 0
    effort: Effort = None
    temperature: Temperature = None
    extra: Extra = None


def gathered(name: str, kind: type, **defaults: object) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command the options that a dataclass has as fields; it gets them as one keyword of this name.

    defaults: where the command has other ones.
    """
    hints = get_type_hints(kind, include_extras=True)
    options = {
        f"llm_{field.name}": (field.name, defaults.get(field.name, field.default))
        for field in fields(kind)
        if hasattr(hints[field.name], "__metadata__")
    }

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        own = inspect.signature(command, eval_str=True)

        @functools.wraps(command)
        def wrapper(**words: object) -> int:
            made = kind(**{field: words.pop(option) for option, (field, _) in options.items()})
            return command(**words, **{name: made})

        parameters = [parameter for parameter in own.parameters.values() if parameter.name != name]
        parameters += [
            inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[field])
            for option, (field, default) in options.items()
        ]
        wrapper.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return wrapper

    return decorate


def model_choices(words: EndpointOptions, root: Path | None) -> tuple[ModelChoice, ...]:
    """Each model with its server and price. Raises UsageError: no key, model or package, no address."""
    from evo.operators.llm import ModelChoice

    servers = _servers(words)
    return tuple(
        ModelChoice(name=name, server=server, price=_price(words, server.model, root)) for name, server in servers
    )


def _servers(words: EndpointOptions) -> list[tuple[str, ModelServer]]:
    from evo.cli.options import seconds_of
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
    names = tuple(dict.fromkeys(name for name in words.model or () if name))
    if not names:
        hint = "pass --llm-model NAME, or set EVO_LLM_MODEL; the server lists its models at /v1/models"
        raise UsageError("the operator llm needs the name of a model", hint=hint)
    url = words.url or os.environ.get("OPENAI_BASE_URL") or None
    if url is not None and not re.fullmatch(r"https?://[^\s/@]+(/[^\s@]*)?", url):
        hint = "write it like http://localhost:8000/v1; a key belongs in the environment, not in the address"
        raise UsageError(f"--llm-url {re.sub(r'//[^/]*@', '//...@', url)}: not the address of a server", hint=hint)
    found = []
    for name in names:
        model, effort = _model_and_effort(name)
        server = ModelServer(
            url=url,
            model=model,
            key=key,
            timeout_s=seconds_of(words.timeout) or 0.0,
            retries=words.retries,
            api=words.api,
            effort=effort or words.effort,
            temperature=words.temperature,
            extra=_extra(words.extra),
        )
        found.append((name, server))
    return found


def _model_and_effort(name: str) -> tuple[str, str | None]:
    """`gpt-5-mini@low` in its parts. Other words after an @ belong to the name of the model."""
    model, mark, effort = name.rpartition("@")
    return (model, effort) if mark and model and effort in _EFFORTS else (name, None)


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
        return keyring.get_password(*_KEYRING) or None
    except keyring.errors.KeyringError:  # no keyring on this machine
        return None


def _price(words: EndpointOptions, model: str, root: Path | None) -> Price | None:
    from evo.operators.llm import price_of, read_price

    if words.price is not None:
        return read_price(words.price)
    return price_of(model, root) if root is not None else None
