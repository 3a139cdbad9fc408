"""Trying an endpoint: one tiny request, and what it and the server's own pages show. For `evo doctor --llm`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit, urlunsplit

from evo.operators.llm.client import Client, ModelServer
from evo.operators.llm.cost import Budget, Price, Usage, UsageReport
from evo.operators.llm.endpoint import ChatRequest, Message
from evo.operators.llm.server_answers import whole_number
from evo.operators.llm.spending_meter import Meter
from evo.results.codec import ALWAYS, Serializable

REPLY_TOKENS = 64  # that the request asks for at most
_ASKED = (Message("system", "You answer in one word."), Message("user", "Answer with the word ready."))
_LENGTHS = ("n_ctx", "context_length", "max_model_len", "context_window", "max_context_length", "inputTokenLimit")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointReport(Serializable):
    """What evo understood of an endpoint."""

    url: str  # the server
    model: str  # the model that was asked for
    answers_as: str | None = None  # the name in its answer, if that is another
    api: str  # `chat` or `responses`
    length_field: str  # the field that limits a reply's length
    refused_fields: Annotated[tuple[str, ...], ALWAYS]  # that the server does not take, so that they are left out
    temperature_accepted: bool  # whether the server takes a temperature
    effort_accepted: bool | None = None  # absent if none was asked for
    streams: bool  # whether the reply came in pieces
    counts_tokens: bool  # whether the server says how many tokens a request used
    reasoning_tokens: int | None = None  # of this reply; absent if the server does not report them
    context_tokens: int | None = None  # how long a prompt and its reply may be; absent if the server does not tell
    prompt_price: float | None = None  # per million tokens; absent if none is known
    completion_price: float | None = None  # per million tokens
    finish: str  # how the reply ended
    usage: UsageReport  # what the trial cost; requests that the server refused cost no tokens


def probe(server: ModelServer, price: Price | None) -> EndpointReport:
    """Ask an endpoint for one word. Raises UsageError (key, model, address) or HarnessFault if it does not answer."""
    client = Client(server)
    meter = Meter(Budget(), price, REPLY_TOKENS, _keep_no_ledger)
    request = ChatRequest(exchange=1, attempt=1, messages=_ASKED, max_tokens=REPLY_TOKENS, seed=1)
    try:
        completion = client.complete(request, meter)
        meter.answered(request, completion)
        context = context_tokens(client, server.model)
    finally:
        client.close()
    heard, form = client.heard, client.form
    return EndpointReport(
        url=client.url,
        model=server.model,
        answers_as=heard.model if heard.model not in ("", server.model) else None,
        api=form.name,
        length_field=form.length_field(client.without),
        refused_fields=tuple(sorted(client.without)),
        temperature_accepted="temperature" not in client.without,
        effort_accepted=None if server.effort is None else not client.without & {"reasoning", "reasoning_effort"},
        streams=heard.streamed,
        counts_tokens=heard.counted,
        reasoning_tokens=heard.reasoning_tokens,
        context_tokens=context,
        prompt_price=price.prompt if price else None,
        completion_price=price.completion if price else None,
        finish=completion.finish,
        usage=meter.usage.report,
    )


def context_tokens(client: Client, model: str) -> int | None:
    """The context that a server gives a model, by pages of its own (Ollama, llama.cpp, vLLM, OpenRouter), for free."""
    root = urlunsplit((*urlsplit(client.url)[:2], "", "", ""))
    running = _named(client.page(f"{root}/api/ps"), "models", model)
    props = client.page(f"{root}/props")
    settings = props.get("default_generation_settings") if isinstance(props, Mapping) else None
    listed = _named(client.page("/models"), "data", model)
    for page in (running, settings, listed, listed.get("meta"), listed.get("top_provider")):
        if isinstance(page, Mapping):
            for name in _LENGTHS:
                if found := whole_number(page.get(name)):
                    return found
    return None


def _keep_no_ledger(request: ChatRequest, number: int, what: str, usage: Usage) -> None:
    del request, number, what, usage


def _named(page: Any, name: str, model: str) -> Mapping[str, Any]:
    rows = page.get(name) if isinstance(page, Mapping) else None
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, Mapping) and model in (row.get("id"), row.get("name"), row.get("model")):
            return row
    return {}
