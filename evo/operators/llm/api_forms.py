"""The two forms in which servers are asked: chat completions, and the Responses API. Each knows its request and answer.

Chat completions are what nearly every server speaks. The Responses API names things otherwise (`input`,
`max_output_tokens`, items of output, typed events) and has no seed. Both give the same `Answer`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from evo.errors import UsageError
from evo.operators.llm.endpoint import ChatRequest
from evo.operators.llm.reply_edits import one_line
from evo.operators.llm.server_answers import called, field_of, refusal_of, text_of, thought_of

APIS = ("chat", "responses")
_EFFORTS = ("minimal", "low", "medium", "high")
_REASONS = {"max_output_tokens": "length", "max_tokens": "length"}


@dataclass(slots=True)
class Answer:
    """What a server has said, as far as it is known. usage: the server's own object, last told."""

    parts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    finish: str = ""
    usage: Any = None
    model: str = ""
    size: int = 0  # characters

    @property
    def text(self) -> str:
        return "".join(self.parts) or "".join(self.calls)

    @property
    def thought(self) -> str:
        return "".join(self.thoughts)

    @property
    def refusal(self) -> str:
        """What it says instead of an answer."""
        return "" if self.text else "".join(self.refusals)

    def add(self, text: str = "", thought: str = "", call: str = "", refusal: str = "") -> None:
        self.parts.append(text)
        self.thoughts.append(thought)
        self.calls.append(call)
        self.refusals.append(refusal)
        self.size += len(text) + len(thought) + len(call)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """What a user asks of the model, as far as it takes it: effort, temperature."""

    effort: str | None = None
    temperature: float | None = None

    def effort_of(self, request: ChatRequest) -> str | None:
        """The effort of one request: lower where it asks for less."""
        if not request.less_effort:
            return self.effort
        at = _EFFORTS.index(self.effort) if self.effort in _EFFORTS else _EFFORTS.index("medium")
        return _EFFORTS[max(0, at - request.less_effort)]


class ChatForm:
    """`/chat/completions`. droppable: fields that a server may do without."""

    name: str = "chat"
    droppable: tuple[str, ...] = ("stream_options", "seed", "max_tokens", "stream", "reasoning_effort", "temperature")

    def fields(self, request: ChatRequest, sampling: Sampling, without: set[str]) -> dict[str, Any]:
        """The body of a request, but for model and stream."""
        return {
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
            "seed": request.seed,
            self.length_field(without): request.max_tokens,
            "stream_options": {"include_usage": True} if "stream" not in without else None,
            "reasoning_effort": sampling.effort_of(request),
            "temperature": sampling.temperature,
        }

    def length_field(self, without: set[str]) -> str:
        """The field that limits a reply's length."""
        return "max_completion_tokens" if "max_tokens" in without else "max_tokens"

    def send(self, client: Any) -> Callable[..., Any]:
        found: Callable[..., Any] = client.chat.completions.create
        return found

    def whole(self, answer: Any, into: Answer) -> None:
        """Read an answer in one piece. Raises ValueError if it is none."""
        choices = field_of(answer, "choices")
        if not choices:
            raise ValueError(f"no answer, but {_shown(answer)}")
        message = field_of(choices[0], "message")
        into.add(text_of(field_of(message, "content")), thought_of(message), called(message), refusal_of(message))
        into.finish = str(field_of(choices[0], "finish_reason") or "")
        into.usage, into.model = field_of(answer, "usage"), _model(answer)

    def event(self, event: Any, into: Answer) -> None:
        """Read a piece of a stream. Raises ValueError if it says that the answer failed."""
        into.usage = field_of(event, "usage") or into.usage
        into.model = into.model or _model(event)
        for choice in (each for each in event.choices[:1] if not each.index):
            delta = choice.delta
            into.add(text_of(field_of(delta, "content")), thought_of(delta), called(delta), refusal_of(delta))
            into.finish = str(choice.finish_reason or into.finish)


class ResponsesForm:
    """`/responses`. It has no seed; what is asked is not stored."""

    name: str = "responses"
    droppable: tuple[str, ...] = ("temperature", "reasoning", "store", "stream")

    def fields(self, request: ChatRequest, sampling: Sampling, without: set[str]) -> dict[str, Any]:
        system = [message.content for message in request.messages if message.role == "system"]
        said = [message for message in request.messages if message.role != "system"]
        effort = sampling.effort_of(request)
        return {
            "instructions": "\n\n".join(system) or None,
            "input": [{"role": message.role, "content": message.content} for message in said],
            self.length_field(without): request.max_tokens,
            "reasoning": {"effort": effort} if effort is not None else None,
            "temperature": sampling.temperature,
            "store": False,
        }

    def length_field(self, without: set[str]) -> str:
        del without
        return "max_output_tokens"

    def send(self, client: Any) -> Callable[..., Any]:
        found: Callable[..., Any] = client.responses.create
        return found

    def whole(self, answer: Any, into: Answer) -> None:
        output, status = field_of(answer, "output"), field_of(answer, "status")
        if status in ("failed", "cancelled") or not isinstance(output, list | tuple):
            raise ValueError(f"no answer, but {_shown(field_of(answer, 'error') or answer)}")
        for item in output:
            self._item(item, into)
        self._end(answer, into)

    def event(self, event: Any, into: Answer) -> None:
        kind, delta = str(field_of(event, "type") or ""), field_of(event, "delta")
        if kind in ("response.failed", "error"):
            response = field_of(event, "response")
            raise ValueError(f"the answer failed: {_shown(field_of(response, 'error') or field_of(event, 'message'))}")
        if kind in ("response.completed", "response.incomplete"):
            response = field_of(event, "response")
            if not into.size:  # some servers send the whole at the end
                self.whole(response, into)
            self._end(response, into)
        elif isinstance(delta, str):
            if kind == "response.output_text.delta":
                into.add(text=delta)
            elif kind in ("response.reasoning_text.delta", "response.reasoning_summary_text.delta"):
                into.add(thought=delta)
            elif kind == "response.refusal.delta":
                into.add(refusal=delta)
            elif kind == "response.function_call_arguments.delta":
                into.add(call=delta)

    def _item(self, item: Any, into: Answer) -> None:
        kind, content = field_of(item, "type"), field_of(item, "content")
        parts = content if isinstance(content, list | tuple) else ()
        if kind == "message":
            into.add(text=text_of(content), refusal="".join(refusal_of(part) for part in parts))
        elif kind == "reasoning":
            thoughts = [*parts, *(field_of(item, "summary") or ())]
            into.add(thought="".join(str(field_of(part, "text") or "") for part in thoughts))
        elif kind == "function_call" and isinstance(arguments := field_of(item, "arguments"), str):
            into.add(call=arguments)

    def _end(self, response: Any, into: Answer) -> None:
        reason = field_of(field_of(response, "incomplete_details"), "reason")
        status = field_of(response, "status")
        if status == "incomplete":
            into.finish = _REASONS.get(str(reason), str(reason or "incomplete"))
        else:
            into.finish = "stop" if status == "completed" else str(status or "stop")
        into.usage, into.model = field_of(response, "usage"), _model(response)


ApiForm = ChatForm | ResponsesForm  # how a request is written and an answer is read


def api_form(word: str | None, url: str | None) -> tuple[ApiForm, str | None]:
    """The form by option, else by the end of the address; and the address without that end.

    Raises UsageError for another word than `chat` and `responses`.
    """
    base, mark, query = (url or "").partition("?")
    base = base.rstrip("/")
    found = "responses" if base.endswith("/responses") else "chat"
    base = base.removesuffix("/responses").removesuffix("/chat/completions")
    if word is not None and word not in APIS:
        raise UsageError(f"--llm-api {word}: no such form", problem="unknown-name", hint=f"one of {', '.join(APIS)}")
    form: ApiForm = ResponsesForm() if (word or found) == "responses" else ChatForm()
    return form, f"{base}{mark}{query}" if url else None


def _model(answer: Any) -> str:
    return one_line(str(field_of(answer, "model") or ""), 80)


def _shown(answer: Any) -> str:
    said = json.dumps(answer) if isinstance(answer, dict) else str(answer)
    return one_line(said, 160)
