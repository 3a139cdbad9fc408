"""`evo doctor --llm`: what evo understands of the endpoint of a language model, by one tiny request."""

from __future__ import annotations

from evo.cli.analysis_outputs import EndpointsOutput
from evo.cli.command_context import GlobalOptions
from evo.cli.llm_endpoint import EndpointOptions, model_choices
from evo.cli.terminal import out, out_json, paint
from evo.errors import EvoError
from evo.operators.llm.probe import REPLY_TOKENS, EndpointReport, probe

_SMALL = 32_768  # tokens of context that evo's prompts and replies may need


def examine_endpoint(session: GlobalOptions, words: EndpointOptions, *, json: bool) -> int:
    """Try each model and say what was understood. Raises UsageError or HarnessFault if one does not answer."""
    try:
        root = session.root()
    except EvoError:
        root = None  # prices then come from the option alone
    reports = [probe(choice.server, choice.price) for choice in model_choices(words, root)]
    if json:
        out_json(EndpointsOutput(endpoints=tuple(reports)).to_json())
        return 0
    for at, report in enumerate(reports):
        if at:
            out()
        _show(report)
    return 0


def _show(report: EndpointReport) -> None:
    for name, found, hint in _rows(report):
        state = paint(f"{'warn' if hint else 'ok':<5}", "yellow" if hint else "green")
        out(f"{state} {name:<18} {found}")
        if hint:
            out(f"{'':5} {'':18} {paint('->', 'cyan')} {hint}")


def _rows(report: EndpointReport) -> list[tuple[str, str, str]]:
    """Name, what was found, and what to do about it."""
    other = f", which answers as {report.answers_as}" if report.answers_as else ""
    form = "chat completions" if report.api == "chat" else "the Responses API"
    thought = report.reasoning_tokens
    rows = [
        ("server", report.url, ""),
        ("model", report.model + other, ""),
        ("form", f"{form}, {'streamed' if report.streams else 'in one piece'}", ""),
        ("reply's length", report.length_field, ""),
        ("temperature", "accepted" if report.temperature_accepted else "not accepted, left out", ""),
    ]
    if report.effort_accepted is not None:
        rows.append(("reasoning effort", "accepted" if report.effort_accepted else "not accepted, left out", ""))
    if other_fields := [name for name in report.refused_fields if name not in ("temperature", "reasoning_effort")]:
        rows.append(("fields left out", ", ".join(other_fields), ""))
    hint = "" if report.counts_tokens else "each request is charged at the most that it may have cost"
    rows.append(("token counts", "reported" if report.counts_tokens else "not reported", hint))
    told = f"reported ({thought} of this reply)" if thought is not None else "not reported"
    rows.append(("reasoning tokens", told, ""))
    rows.append(_context(report))
    rows.append(_price(report))
    usage = report.usage
    cost = f", {usage.cost:.6f} in the price's unit" if usage.cost is not None else ""
    spent = f"{usage.calls} requests, {usage.prompt_tokens} + {usage.completion_tokens} tokens{cost}"
    rows.append(("this trial cost", f"{spent}; the reply could have {REPLY_TOKENS} tokens at most", ""))
    return rows


def _context(report: EndpointReport) -> tuple[str, str, str]:
    if report.context_tokens is None:
        return "context", "the server does not tell", ""
    small = f"prompts may need {_SMALL:,}; Ollama cuts them without a word: set num_ctx (OLLAMA_CONTEXT_LENGTH)"
    return "context", f"{report.context_tokens:,} tokens", small if report.context_tokens < _SMALL else ""


def _price(report: EndpointReport) -> tuple[str, str, str]:
    if report.prompt_price is None:
        hint = "--llm-price PROMPT/COMPLETION, or [llm.prices] in evo.toml; --llm-budget needs it"
        return "price", "not known", hint
    return "price", f"{report.prompt_price:g}/{report.completion_price:g} per million tokens", ""
