"""Endpoints as they are: the Responses API, a context that is cut without a word, effort, and what a probe finds."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from llm_responses import response, stream
from llm_server import ASKED, FREE, KEY, STREAM, Act, LlmServer, client
from refusals import refused

from evo.errors import HarnessFault, UsageError
from evo.operators.llm import Price
from evo.operators.llm.api_forms import api_form
from evo.operators.llm.client import ModelServer
from evo.operators.llm.context_limits import ContextWatch
from evo.operators.llm.endpoint import ChatRequest, Completion, Message, PromptRefused
from evo.operators.llm.probe import REPLY_TOKENS, probe

responses = partial(client, path="{}/responses", retries=1)
TEXT = "an answer of several pieces, so that it is streamed in more than one event"


@pytest.mark.parametrize(
    ("word", "url", "name", "base"),
    [
        (None, "http://h/v1", "chat", "http://h/v1"),
        (None, "http://h/v1/responses", "responses", "http://h/v1"),
        (None, "http://h/v1/chat/completions/", "chat", "http://h/v1"),
        ("responses", "http://h/v1?api-version=1", "responses", "http://h/v1?api-version=1"),
        ("chat", "http://h/v1/responses", "chat", "http://h/v1"),
        ("responses", None, "responses", None),
    ],
)
def test_the_form_follows_the_option_or_the_address(word: str | None, url: str | None, name: str, base: str) -> None:
    form, found = api_form(word, url)
    assert (form.name, found) == (name, base)


def test_there_is_no_third_form() -> None:
    with refused(UsageError, "unknown-name"):
        api_form("completions", None)


@pytest.mark.parametrize("whole", [False, True], ids=["streamed", "whole"])
def test_the_responses_api_is_asked_and_read(whole: bool) -> None:
    act = Act(text=TEXT, usage=(11, 7), whole=whole)
    with responses(lambda body, number: act, effort="high", temperature=0.5) as (asked, server, _):
        found = asked.complete(ASKED, FREE)
        assert asked.heard.streamed != whole
    assert found == Completion(text=TEXT, finish="stop", prompt_tokens=11, completion_tokens=7)
    (body,) = server.requests
    assert server.paths == ["/v1/responses"]
    assert (body["instructions"], body["input"]) == ("s", [{"role": "user", "content": "u"}])
    assert (body["max_output_tokens"], body["store"], body["reasoning"]) == (99, False, {"effort": "high"})
    assert not {"seed", "messages", "max_tokens", "stream_options"} & set(body)


def ways(whole: dict[str, Any]) -> list[Act]:
    return [
        Act(raw=json.dumps(whole).encode()),
        Act(raw=stream(whole), headers=STREAM),
        Act(raw=stream(whole, silent=True), headers=STREAM),
    ]


@pytest.mark.parametrize("way", [0, 1, 2], ids=["whole", "events", "last event"])
@pytest.mark.parametrize(
    ("whole", "expected"),
    [
        (response("said", thought="hm hm", usage=(9, 40), reasoning=30), ("said", "stop", 40, 5)),
        (response("half", status="incomplete", reason="max_output_tokens", usage=(9, 99)), ("half", "length", 99, 0)),
        (response("", thought="hm", status="incomplete", reason="max_output_tokens"), ("", "length", 20, 2)),
        (response("x", status="incomplete", reason="content_filter"), ("x", "content_filter", 20, 0)),
        (response("", call='{"a": 1}'), ('{"a": 1}', "stop", 20, 0)),
        (response("said", usage=None), ("said", "stop", None, 0)),
    ],
    ids=["reasoning", "length", "all thought", "filter", "call", "no usage"],
)
def test_items_and_ends_of_a_response(way: int, whole: dict[str, Any], expected: tuple[Any, ...]) -> None:
    with responses(lambda body, number: ways(whole)[way]) as (asked, _, _notes):
        found = asked.complete(ASKED, FREE)
    assert (found.text, found.finish, found.completion_tokens, found.thought) == expected


@pytest.mark.parametrize("way", [0, 1, 2], ids=["whole", "events", "last event"])
def test_a_refusal_in_a_response_is_the_models(way: int) -> None:
    refused = response("", refusal="I cannot help with that.")
    with (
        responses(lambda body, number: ways(refused)[way]) as (asked, server, _),
        pytest.raises(PromptRefused, match="cannot help"),
    ):
        asked.complete(ASKED, FREE)
    assert len(server.requests) == 1


@pytest.mark.parametrize("way", [0, 1], ids=["whole", "events"])
def test_a_response_that_failed_is_asked_again(way: int) -> None:
    failed = response("", status="failed", usage=None, error={"code": "server_error", "message": "out of luck"})
    with (
        responses(lambda body, number: ways(failed)[way]) as (asked, server, notes),
        pytest.raises(HarnessFault, match="out of luck"),
    ):
        asked.complete(ASKED, FREE)
    assert len(server.requests) == 2
    assert notes


def test_a_responses_stream_that_breaks_off_is_asked_again() -> None:
    broken = Act(raw=stream(response(TEXT), cut=True), headers=STREAM)
    with responses(lambda body, number: broken if number == 1 else Act(text=TEXT)) as (asked, server, notes):
        assert asked.complete(ASKED, FREE).text == TEXT
    assert len(server.requests) == 2
    assert "broke off" in notes[0]


def test_what_the_responses_api_refuses_is_left_out() -> None:
    def script(body: dict[str, Any], number: int) -> Act:
        if "reasoning" in body:
            return Act(status=400, error={"message": "Unsupported parameter: 'reasoning.effort'"})
        if "temperature" in body:
            return Act(status=400, error={"message": "Unsupported parameter: 'temperature'"})
        return Act(text="x")

    with responses(script, effort="low", temperature=1.0, retries=0) as (asked, server, _):
        assert asked.complete(ASKED, FREE).text == "x"
        assert asked.without == {"reasoning", "temperature"}
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("effort", "less", "sent"),
    [(None, 0, None), ("high", 0, "high"), ("high", 1, "medium"), ("low", 2, "minimal"), (None, 1, "low")],
)
def test_less_effort_is_asked_by_levels(effort: str | None, less: int, sent: str | None) -> None:
    request = ChatRequest(
        exchange=1, attempt=1, messages=ASKED.messages, max_tokens=9, seed=1, less_effort=less
    )  # fmt: skip
    with client(lambda body, number: Act(text="x"), retries=1, effort=effort) as (asked, server, _):
        asked.complete(request, FREE)
    assert server.requests[0].get("reasoning_effort") == sent


@pytest.mark.parametrize(
    ("prompts", "is_cut"),
    [
        ([("word " * 4000, 4500)], False),
        ([("word " * 4000, 2048)], True),  # ten bytes a token
        ([("word " * 2000, 2048), ("word " * 3000, 2048)], True),  # longer, and no more tokens
        ([("word " * 2000, 2100), ("word " * 3000, 3100)], False),
        ([("word " * 4000, None)], False),
    ],
)
def test_a_prompt_that_was_cut_is_told_once(prompts: list[tuple[str, int | None]], is_cut: bool) -> None:
    notes: list[str] = []
    watch = ContextWatch(notes.append)
    for prompt, tokens in [*prompts, *prompts]:
        watch.see(prompt, tokens)
    assert len(notes) == int(is_cut)
    assert all("num_ctx" in note for note in notes)


def test_a_server_that_cuts_prompts_is_found_by_its_counts() -> None:
    request = ChatRequest(exchange=1, attempt=1, messages=(Message("user", "w " * 20_000),), max_tokens=9, seed=1)
    with client(lambda body, number: Act(text="x", usage=(4096, 1)), retries=1) as (asked, _, notes):
        asked.complete(request, FREE)
    assert "4,096 tokens" in notes[0]


@pytest.mark.parametrize(
    ("pages", "context"),
    [
        ({}, None),
        ({"/v1/models": {"data": [{"id": "m", "max_model_len": 32768}, {"id": "n", "max_model_len": 1}]}}, 32768),
        ({"/v1/models": {"data": [{"id": "m", "top_provider": {"context_length": 200_000}}]}}, 200_000),
        ({"/props": {"default_generation_settings": {"n_ctx": 8192}}}, 8192),
        ({"/api/ps": {"models": [{"name": "m", "context_length": 4096}]}, "/v1/models": {"data": []}}, 4096),
        ({"/api/ps": ["odd"], "/props": {"default_generation_settings": 3}, "/v1/models": {"data": [1]}}, None),
    ],
    ids=["silent", "vllm", "openrouter", "llama.cpp", "ollama", "odd"],
)
def test_a_probe_says_what_it_understood(pages: dict[str, Any], context: int | None) -> None:
    def script(body: dict[str, Any], number: int) -> Act:
        if "temperature" in body:
            return Act(status=400, error={"message": "'temperature' is not supported with this model"})
        if "max_tokens" in body:
            return Act(status=400, error={"message": "Use 'max_completion_tokens' instead of max_tokens."})
        return Act(text="ready", usage=(20, 2))

    with LlmServer(script, pages) as server:
        where = ModelServer(url=server.url, model="m", key=KEY, temperature=0.2, effort="low", retries=0)
        found = probe(where, Price(10.0, 100.0))
    assert (found.model, found.answers_as, found.api, found.length_field) == (
        "m",
        "test",
        "chat",
        "max_completion_tokens",
    )
    assert found.refused_fields == ("max_tokens", "temperature")
    assert (found.temperature_accepted, found.effort_accepted, found.streams) == (False, True, True)
    assert (found.counts_tokens, found.reasoning_tokens, found.context_tokens) == (True, None, context)
    assert (found.usage.calls, found.usage.prompt_tokens, found.usage.completion_tokens) == (3, 20, 2)
    assert found.usage.cost == pytest.approx((20 * 10 + 2 * 100) / 1e6)
    assert server.requests[-1]["max_completion_tokens"] == REPLY_TOKENS


def test_a_probe_of_the_responses_api_counts_reasoning() -> None:
    whole = response("", status="incomplete", reason="max_output_tokens", usage=(20, 64), reasoning=64)
    with LlmServer(lambda body, number: Act(raw=json.dumps(whole).encode())) as server:
        found = probe(ModelServer(url=f"{server.url}/responses", model="m", key=KEY, retries=0), None)
    assert (found.api, found.length_field, found.finish) == ("responses", "max_output_tokens", "length")
    assert (found.reasoning_tokens, found.streams, found.effort_accepted) == (64, False, None)
    assert found.usage.cost is None
