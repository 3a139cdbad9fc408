"""The client against a real HTTP server: streams, whole answers, errors, rate limits, garbage, slow and cut replies."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from llm_server import ASKED, FREE, KEY, STREAM, Act, LlmServer, client, event
from refusals import refused

from evo.errors import EvoError, HarnessFault, SyntaxInvalid, UsageError
from evo.operators.llm import LlmSettings, ModelChoice
from evo.operators.llm.client import Client, ModelServer
from evo.operators.llm.cost import Budget
from evo.operators.llm.endpoint import ChatRequest, Completion, Exhausted, Message, PromptRefused
from evo.operators.llm.spending_meter import used
from evo.operators.llm.transcript import Replay, Transcript

OK = Act(text="an answer of several pieces, so that it is streamed in more than one event", usage=(11, 7))


def first(act: Act, then: Act = OK) -> Callable[[dict[str, Any], int], Act]:
    return lambda body, number: act if number == 1 else then


def test_a_streamed_answer_is_put_together() -> None:
    with client(lambda body, number: OK) as (asked, server, _):
        assert asked.complete(ASKED, FREE) == Completion(
            text=OK.text, finish="stop", prompt_tokens=11, completion_tokens=7
        )
    (body,) = server.requests
    assert body["messages"] == [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert (body["model"], body["max_tokens"], body["seed"], body["stream"]) == ("m", 99, 5, True)
    assert server.keys == [f"Bearer {KEY}"]


@pytest.mark.parametrize(
    "act",
    [
        Act(status=429, headers={"retry-after": "0"}, error={"message": "slow down"}),
        Act(status=503, error={"message": "overloaded"}),
        Act(status=500, raw=b"<html>oops</html>"),
        Act(drop=True),
        Act(text=OK.text, cut=True),
        Act(raw=b"not json at all", headers={"content-type": "text/html"}),
        Act(raw=b'data: {"choices": [garbage\n\n', headers={"content-type": "text/event-stream"}),
        Act(raw=b'data: {"nothing": 1}\n\ndata: [DONE]\n\n', headers={"content-type": "text/event-stream"}),
        Act(raw=b"", headers={"content-type": "text/event-stream"}),
    ],
    ids=["429", "503", "500", "dropped", "cut", "html", "garbage", "strange", "nothing"],
)
def test_what_may_pass_is_asked_again(act: Act) -> None:
    with client(first(act)) as (asked, server, notes):
        assert asked.complete(ASKED, FREE).text == OK.text
    assert len(server.requests) == 2
    assert len(notes) == 1
    assert "again in" in notes[0]


def test_a_server_may_ask_for_a_pause() -> None:
    with client(first(Act(status=429, headers={"retry-after": "0.2"}))) as (asked, _, notes):
        started = time.monotonic()
        asked.complete(ASKED, FREE)
        assert time.monotonic() - started >= 0.2
    assert "again in 0.2 s" in notes[0]


@pytest.mark.long
def test_a_pause_may_be_given_as_a_time() -> None:
    for seconds in (2, -(10**9)):
        until = format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)
        with client(first(Act(status=429, headers={"retry-after": until}))) as (asked, _, notes):
            started = time.monotonic()
            asked.complete(ASKED, FREE)
            assert (time.monotonic() - started >= 0.9) == (seconds > 0)
        assert ("again in 0.0 s" in notes[0]) == (seconds < 0)


def test_no_word_of_a_server_carries_the_key_or_is_long() -> None:
    for act in (Act(text="x", finish=f"{KEY} {'stop ' * 90}"), Act(text="x", finish=KEY, whole=True)):
        with client(lambda body, number, act=act: act) as (asked, _, _notes):  # type: ignore[misc]
            found = asked.complete(ASKED, FREE)
        assert KEY not in found.finish
        assert len(found.finish) <= 40


@pytest.mark.parametrize(
    ("told", "believed"),
    [((300, 40), True), ((0, 40), False), ((300, 0), False), ((10**18, 40), False), ((300, 10**18), False)],
)
def test_counts_that_cannot_be_are_guessed_instead(told: tuple[int, int], believed: bool) -> None:
    request = ChatRequest(exchange=1, attempt=1, messages=(Message("user", "a b " * 300),), max_tokens=500, seed=0)
    asked, written = told
    found = used(request, Completion(text="c d " * 100, prompt_tokens=asked, completion_tokens=written))
    assert (found.estimated == 0) == believed
    assert 1 <= found.tokens < 5000


def test_a_server_without_streams_is_understood() -> None:
    plain = Act(text="whole", usage=None, whole=True)
    with client(lambda body, number: plain) as (asked, server, _):
        assert asked.complete(ASKED, FREE) == Completion(text="whole", finish="stop")
        asked.complete(ASKED, FREE)
    assert [body.get("stream") for body in server.requests] == [True, True]


def test_a_server_that_refuses_streams_is_asked_without() -> None:
    def script(body: dict[str, Any], number: int) -> Act:
        return Act(status=400, error={"message": "stream is not supported"}) if "stream" in body else OK

    with client(script) as (asked, server, _):
        assert asked.complete(ASKED, FREE).text == OK.text
        assert asked.complete(ASKED, FREE).text == OK.text
    assert len(server.requests) == 4 - 1


def test_a_parameter_that_the_server_does_not_know_is_left_out() -> None:
    def script(body: dict[str, Any], number: int) -> Act:
        for name in ("seed", "max_tokens", "stream_options"):
            if name in body:
                return Act(status=400, error={"message": f"unsupported parameter: {name}", "code": "unsupported"})
        return OK

    with client(script) as (asked, server, _):
        assert asked.complete(ASKED, FREE).text == OK.text
    assert server.requests[-1]["max_completion_tokens"] == 99


def test_a_prompt_that_the_server_refuses_is_no_fault_of_the_run() -> None:
    with (
        client(lambda body, number: Act(status=400, error={"message": "context too long"})) as (asked, server, _),
        pytest.raises(PromptRefused, match="context too long"),
    ):
        asked.complete(ASKED, FREE)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("act", "kind", "words"),
    [
        (Act(status=401, error={"message": f"bad key {KEY}"}), UsageError, "does not take the key"),
        (Act(status=404, error={"message": "no model m"}), UsageError, "no model m"),
        (Act(status=429, error={"message": "pay", "code": "insufficient_quota"}), HarnessFault, "insufficient_quota"),
        (Act(status=500, error={"message": "down"}), HarnessFault, "in 3 tries"),
    ],
)
def test_where_no_request_can_succeed_the_error_says_what_to_do(act: Act, kind: type[EvoError], words: str) -> None:
    with client(lambda body, number: act, retries=2) as (asked, _, notes), pytest.raises(kind, match=words) as caught:
        asked.complete(ASKED, FREE)
    assert caught.value.hint
    assert KEY not in caught.value.message + caught.value.hint + "".join(notes)


def test_nobody_listening_is_told_with_the_address() -> None:
    with LlmServer(lambda body, number: OK) as server:
        url = server.url
    asked = Client(ModelServer(url=url, model="m", key=KEY, retries=1, first_delay_s=0.01))
    with pytest.raises(HarnessFault, match=r"127\.0\.0\.1"):
        asked.complete(ASKED, FREE)


def test_a_reply_that_never_ends_is_cut_off_in_time() -> None:
    slow = Act(text="x" * 40_000, delay_s=0.05)
    with client(lambda body, number: slow, timeout_s=0.4, retries=0) as (asked, _, _):
        started = time.monotonic()
        with pytest.raises(HarnessFault):
            asked.complete(ASKED, FREE)
        assert time.monotonic() - started < 3


def test_stopping_does_not_wait_for_a_retry() -> None:
    never = Act(status=429, headers={"retry-after": "50"})
    with client(lambda body, number: never) as (asked, server, _):
        found: list[BaseException] = []

        def ask() -> None:
            try:
                asked.complete(ASKED, FREE)
            except Exhausted as stopped:
                found.append(stopped)

        thread = threading.Thread(target=ask)
        thread.start()
        while not server.requests:
            time.sleep(0.01)
        time.sleep(0.1)
        asked.close()
        thread.join(5)
        assert not thread.is_alive()
        assert len(found) == 1


def test_a_cut_off_reply_says_so() -> None:
    with client(lambda body, number: Act(text="half", finish="length")) as (asked, _, _):
        assert asked.complete(ASKED, FREE).finish == "length"


def test_an_echoed_key_is_never_seen() -> None:
    with client(lambda body, number: Act(text="your key is ", echo_key=True)) as (asked, _, _):
        assert asked.complete(ASKED, FREE).text == "your key is [key]"
    assert KEY not in repr(ModelServer(url=None, model="m", key=KEY))


def answer(message: dict[str, Any], usage: dict[str, Any] | None = None, finish: str = "stop") -> Act:
    body = {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage or {}}
    return Act(raw=json.dumps(body).encode())


PARTS = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "said"}]


@pytest.mark.parametrize(
    ("message", "text", "thought"),
    [
        ({"content": PARTS}, "said", 2),
        ({"content": "said", "reasoning_content": "hm hm"}, "said", 5),
        ({"content": "said", "reasoning": "hm"}, "said", 2),
        ({"content": None, "tool_calls": [{"function": {"name": "edit", "arguments": '{"a": 1}'}}]}, '{"a": 1}', 0),
        ({"content": None}, "", 0),
    ],
    ids=["parts", "reasoning_content", "reasoning", "tool call", "nothing"],
)
def test_an_answer_is_understood_in_every_spelling(message: dict[str, Any], text: str, thought: int) -> None:
    with client(lambda body, number: answer(message)) as (asked, _, _notes):
        found = asked.complete(ASKED, FREE)
    assert (found.text, found.thought) == (text, thought)


def test_a_refusal_of_the_model_is_no_fault_of_the_server() -> None:
    refused = answer({"content": None, "refusal": "I cannot help with that."})
    with client(lambda body, number: refused) as (asked, server, _), pytest.raises(PromptRefused, match="cannot help"):
        asked.complete(ASKED, FREE)
    assert len(server.requests) == 1


def test_options_reach_the_server_and_go_where_it_does_not_take_them() -> None:
    def script(body: dict[str, Any], number: int) -> Act:
        if "temperature" in body:
            return Act(status=400, error={"message": "'temperature' is not supported with this model"})
        if "max_tokens" in body:
            return Act(status=400, error={"message": "Use 'max_completion_tokens' instead of max_tokens."})
        return OK

    with LlmServer(script) as server:
        where = ModelServer(
            url=f"{server.url}?api-version=2024-10-21", model="m", key=KEY, retries=0, effort="low", temperature=0.5,
            extra={"top_k": 20},
        )  # fmt: skip
        asked = Client(where)
        assert asked.complete(ASKED, FREE).text == OK.text
        asked.close()
    last = server.requests[-1]
    assert (last["reasoning_effort"], last["top_k"], last["max_completion_tokens"]) == ("low", 20, 99)
    assert "temperature" not in last
    assert server.paths == ["/v1/chat/completions?api-version=2024-10-21"] * 3


def test_a_slow_stream_is_a_time_out_and_names_the_option() -> None:
    slow = Act(text="x" * 4000, delay_s=0.1)
    with (
        client(lambda body, number: slow, timeout_s=0.3, retries=0) as (asked, _, _),
        pytest.raises(HarnessFault, match="no complete answer within") as caught,
    ):
        asked.complete(ASKED, FREE)
    assert "--llm-timeout" in caught.value.hint


def test_a_stream_is_cut_where_its_paid_length_ends() -> None:
    with client(lambda body, number: Act(text="word " * 20_000)) as (asked, _, _):
        found = asked.complete(ASKED, FREE)
    assert found.finish == "length"
    assert len(found.text) < 99 * 6 + 2000 + 41
    assert used(ASKED, found).completion_tokens >= len(found.text) // 4


# --- transcripts


def test_a_transcript_answers_as_the_server_did(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    written = Transcript(path)
    second = ChatRequest(exchange=2, attempt=1, messages=(Message("user", "v"),), max_tokens=9, seed=1)
    for request in (second, ASKED):  # in order of arrival; put right at the end
        reply = Completion(text=f"\ud800 {request.exchange}", prompt_tokens=3)
        written.add(request, reply, model="m", strategy="free", parent="p")
    written.close()
    replay = Replay(path)
    assert (replay.models, replay.model_of(1)) == (("m",), "m")
    assert replay.complete(ASKED, FREE) == Completion(text="\ud800 1", prompt_tokens=3)
    assert replay.complete(second, FREE).text == "\ud800 2"
    assert replay.differing == 0
    with pytest.raises(Exhausted):
        replay.complete(ChatRequest(exchange=3, attempt=1, messages=(), max_tokens=9, seed=1), FREE)
    assert [line.split(b'"exchange": ')[1][:1] for line in path.read_bytes().splitlines()] == [b"1", b"2"]
    path.write_bytes(path.read_bytes() + b'{"version": 1, "exch')  # killed while writing
    assert Replay(path).complete(ASKED, FREE).text == "\ud800 1"


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "no reply"), ("[]\n", "not 1"), ('{"version": 1}\n', "exchange"), ("x\n{}\n", "not JSON")],
)
def test_a_file_that_is_no_transcript_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(text)
    with pytest.raises(SyntaxInvalid, match=words):
        Replay(path)


def test_a_budget_in_money_needs_a_price() -> None:
    choice = ModelChoice(name="m", server=ModelServer(url=None, model="m", key=KEY))
    with refused(UsageError, "no-price") as caught:
        LlmSettings(models=(choice,), budget=Budget(money=2.0))
    assert "--llm-price" in caught.value.hint
    with refused(UsageError, "unknown-name"):
        LlmSettings(strategy="best")


DEEP = b'{"choices": ' + b"[" * 200_000
PACKED = gzip.compress(b'{"choices": [{"message": {"content": "' + bytes(70 << 20))


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (Act(raw=DEEP), "recursion"),
        (Act(raw=b"data: " + DEEP + b"\n\n", headers=STREAM), "recursion"),
        (Act(raw=PACKED, headers={"content-encoding": "gzip"}), "more than 64 MiB"),
        (Act(raw=b"garbage", headers={"content-encoding": "gzip", **STREAM}), ""),
        (Act(status=307, raw=b"", headers={"location": "file:///etc/passwd"}), ""),
        (Act(drip_s=0.2), "no complete answer within 1 s"),
    ],
    ids=["deep", "deep-stream", "packed", "badly-packed", "away", "head-without-end"],
)
def test_an_answer_that_no_client_should_swallow_is_asked_again(act: Act, said: str) -> None:
    begin = time.monotonic()
    limit_s = 1.0 if act.drip_s else 30.0  # a slow machine takes seconds to unpack what is packed
    with client(first(act), timeout_s=limit_s) as (asked, _, notes):
        found = asked.complete(ASKED, FREE)
    assert found.text == OK.text
    assert notes
    assert said in notes[0]
    assert time.monotonic() - begin < limit_s + 4


def test_what_is_not_an_answer_is_quoted() -> None:
    page = Act(raw=b"<html>log in</html>", headers={"content-type": "text/html"})
    with client(lambda body, number: page, retries=1) as (asked, _, _), pytest.raises(HarnessFault, match="log in"):
        asked.complete(ASKED, FREE)


def test_a_second_choice_is_not_mixed_in() -> None:
    other = event({"content": "no "}).replace(b'"index": 0', b'"index": 1')
    last = event({"content": "yes"}).replace(b'"finish_reason": null', b'"finish_reason": "stop"')
    with client(lambda body, number: Act(raw=other + last, headers=STREAM)) as (asked, _, _):
        assert asked.complete(ASKED, FREE).text == "yes"


def test_the_key_does_not_follow_to_another_server() -> None:
    with LlmServer(lambda body, number: OK) as elsewhere:
        away = Act(status=307, raw=b"", headers={"location": f"{elsewhere.url}/chat/completions"})
        with client(lambda body, number: away) as (asked, server, _):
            assert asked.complete(ASKED, FREE).text == OK.text
        assert server.keys == [f"Bearer {KEY}"]
        assert elsewhere.keys == [""]
