"""An OpenAI-compatible server. The only file that knows the `openai` package, and the only one that holds the key.

What the server says passes through `_scrub` before anyone else sees it, so that an echoed key is never written down.
Retries (429, 5xx, lost connections, garbage) happen here, with a growing delay or the one that the server asks for.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from queue import Empty, SimpleQueue
from typing import Any

from evo.errors import HarnessFault, UsageError
from evo.operators.llm.endpoint import Completion, Exhausted, Refused, Request
from evo.operators.llm.replies import LONGEST_REPLY, one_line

RETRIES = 5
_FIRST_DELAY_S = 1.0
_LONGEST_DELAY_S = 60.0
_LONGEST_WORD = 40  # of what a server says for `finish`
_SHORTEST_SECRET = 6  # a shorter "key" is a placeholder for a server that wants none
_GARBLED = (OSError, ValueError, KeyError, IndexError, AttributeError, TypeError, RecursionError)
_MOST_BYTES = 64 << 20  # of an answer, unpacked: a server may send without end, or pack a lot into little
_POLL_S = 0.2
_PARAMETERS = ("stream_options", "seed", "max_tokens", "stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where to ask, and how patiently. The key is kept out of `repr`."""

    url: str | None
    model: str
    key: str = field(repr=False)
    timeout_s: float = 300.0
    retries: int = RETRIES
    first_delay_s: float = _FIRST_DELAY_S


class Client:
    """One server, asked from several threads."""

    replayed = False

    def __init__(self, server: Server, *, note: Callable[[str], None] = lambda _: None) -> None:
        try:
            import openai
        except ImportError:
            hint = "pip install 'evo-kernels[llm]'"
            raise UsageError("the operator llm needs the openai package", hint=hint) from None
        self._openai = openai
        self._server, self._note = server, note
        self._stop = threading.Event()
        self._without: set[str] = set()  # parameters that this server does not take
        self._client = openai.OpenAI(
            api_key=server.key,
            base_url=server.url,
            timeout=server.timeout_s,
            max_retries=0,
            http_client=openai.DefaultHttpxClient(event_hooks={"response": [_bounded]}),
        )
        self._passing: tuple[type[Exception], ...] = (openai.OpenAIError, *_GARBLED, *_transport_errors())
        _ = self._client.chat.completions  # loaded here, not in the first thread that asks

    @property
    def url(self) -> str:
        return str(self._client.base_url)

    def close(self) -> None:
        self._stop.set()
        self._client.close()

    def complete(self, request: Request) -> Completion:
        """Ask until there is a reply. Raises Refused, Exhausted, UsageError (key, model) or HarnessFault."""
        last = ""
        jitter = random.Random(f"{request.exchange}/{request.attempt}")
        for attempt in range(self._server.retries + 1):
            if self._stop.is_set():
                raise Exhausted
            asked_s = None
            try:
                return self._ask(request)
            except self._openai.APIStatusError as error:
                last = self._said(error)
                asked_s = _retry_after(error.response.headers)
                if self._is_final(error, last):
                    if self._drop_parameter(last):
                        continue
                    raise Refused(last) from None
            except self._passing as error:
                last = self._scrub(one_line(f"{type(error).__name__}: {error}"))
            if attempt < self._server.retries:
                delay_s = asked_s if asked_s is not None else self._server.first_delay_s * 2**attempt
                delay_s = min(delay_s, _LONGEST_DELAY_S) * (1 + 0.1 * jitter.random())
                self._note(f"the language model's server: {last}; again in {delay_s:.1f} s")
                if self._stop.wait(delay_s):
                    raise Exhausted
        tries = self._server.retries + 1
        hint = "what was tried is kept; start again when it answers (any OpenAI-compatible server: --llm-url)"
        raise HarnessFault(f"{self.url}: no usable answer in {tries} tries: {last}", hint=hint)

    def _is_final(self, error: Any, said: str) -> bool:
        """True where this request will never be answered; raises where none will be."""
        code = error.status_code
        if code in (401, 403):
            hint = "check the key in EVO_LLM_KEY or OPENAI_API_KEY, and that it is meant for this server"
            raise UsageError(f"{self.url} does not take the key: {said}", hint=hint) from None
        if code in (404, 405):
            hint = f"check --llm-url (it usually ends in /v1) and --llm-model {self._server.model}"
            raise UsageError(f"{self.url}: {said}", hint=hint) from None
        if "insufficient_quota" in said or code == 402:
            raise HarnessFault(f"{self.url}: {said}", hint="what was tried is kept; the account needs credit") from None
        return 400 <= code < 500 and code not in (408, 409, 425, 429)

    def _drop_parameter(self, said: str) -> bool:
        """Leave out a parameter that the server complains about by name; False where it names none."""
        for name in _PARAMETERS:
            if name in said and name not in self._without:
                self._without.add(name)
                return True
        return False

    def _ask(self, request: Request) -> Completion:
        options: dict[str, Any] = {
            "model": self._server.model,
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
            "seed": request.seed,
            "max_tokens": request.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        for name in self._without:
            options.pop(name, None)
        if "max_tokens" in self._without:
            options["max_completion_tokens"] = request.max_tokens
        if "stream" in self._without:
            options.pop("stream_options", None)
            return self._whole(self._within(options))
        return self._streamed(self._within(options))

    def _within(self, options: dict[str, Any]) -> Any:
        """What the server begins to answer, within the time-out: it may send the head of an answer without end."""
        found: SimpleQueue[Any] = SimpleQueue()
        is_late = threading.Event()

        def ask() -> None:
            try:
                answer = self._client.chat.completions.create(**options)
            except self._passing as error:  # raised where it is waited for
                answer = error
            found.put(answer)
            if is_late.is_set():
                _let_go(answer)

        threading.Thread(target=ask, daemon=True, name="evo-llm-request").start()
        deadline = time.monotonic() + self._server.timeout_s + 2 * _POLL_S  # the client's own one comes first
        while time.monotonic() < deadline and not self._stop.is_set():
            try:
                answer = found.get(timeout=_POLL_S)
            except Empty:
                continue
            if isinstance(answer, Exception):
                raise answer
            return answer
        is_late.set()
        if not found.empty():
            _let_go(found.get())
        if self._stop.is_set():
            raise Exhausted
        raise ValueError(f"no answer within {self._server.timeout_s:.0f} s")

    def _whole(self, answer: Any) -> Completion:
        if not getattr(answer, "choices", None):
            raise ValueError(f"no answer, but {one_line(str(answer), 160)}")
        choice, usage = answer.choices[0], answer.usage
        return Completion(
            text=self._scrub(choice.message.content or ""),
            finish=self._word(choice.finish_reason),
            prompt_tokens=_count(usage, "prompt_tokens"),
            completion_tokens=_count(usage, "completion_tokens"),
        )

    def _plain(self, stream: Any) -> Completion | None:
        """The answer of a server that was asked for a stream and sent one object; None where it is a stream."""
        if "application/json" not in stream.response.headers.get("content-type", ""):
            return None
        try:
            body = json.loads(stream.response.read())
        finally:
            stream.close()
        if not isinstance(body, dict) or not body.get("choices"):
            raise ValueError(f"no answer, but {one_line(json.dumps(body), 160)}")
        choice, usage = body["choices"][0], body.get("usage") or {}
        return Completion(
            text=self._scrub(str(choice["message"].get("content") or "")),
            finish=self._word(choice.get("finish_reason")),
            prompt_tokens=_whole_number(usage.get("prompt_tokens")),
            completion_tokens=_whole_number(usage.get("completion_tokens")),
        )

    def _streamed(self, stream: Any) -> Completion:
        """Put a stream together, within the time-out as a whole and the length of a reply."""
        deadline = time.monotonic() + self._server.timeout_s
        alarm = threading.Timer(self._server.timeout_s, stream.close)
        alarm.daemon = True
        alarm.start()
        parts: list[str] = []
        size = chunks = 0
        finish, usage = "", None
        try:
            if (plain := self._plain(stream)) is not None:
                return plain
            for chunk in stream:
                chunks += 1
                if self._stop.is_set():
                    raise Exhausted
                if time.monotonic() > deadline:
                    raise ValueError(f"still answering after {self._server.timeout_s:.0f} s")
                usage = chunk.usage or usage
                for choice in (each for each in chunk.choices[:1] if not each.index):
                    piece = (choice.delta.content if choice.delta else None) or ""
                    parts.append(piece)
                    size += len(piece)
                    finish = str(choice.finish_reason or finish)
                if size > LONGEST_REPLY:
                    finish = "length"
                    break
        finally:
            alarm.cancel()
            stream.close()
        if time.monotonic() > deadline:
            raise ValueError(f"still answering after {self._server.timeout_s:.0f} s")
        if not chunks:
            self._without.add("stream")
            raise ValueError("an empty stream")
        if not finish and not usage:
            raise ValueError("the stream broke off")
        return Completion(
            text=self._scrub("".join(parts)),
            finish=self._word(finish),
            prompt_tokens=_count(usage, "prompt_tokens"),
            completion_tokens=_count(usage, "completion_tokens"),
        )

    def _said(self, error: Any) -> str:
        body = error.body
        told = body.get("message") if isinstance(body, dict) else None
        code = body.get("code") if isinstance(body, dict) else None
        words = told if isinstance(told, str) else str(error.message)
        if isinstance(code, str) and code not in words:
            words = f"{words} ({code})"
        return self._scrub(one_line(f"{error.status_code}: {words}"))

    def _word(self, finish: object) -> str:
        return self._scrub(one_line(str(finish or "stop"), _LONGEST_WORD))

    def _scrub(self, text: str) -> str:
        key = self._server.key
        return text.replace(key, "[key]") if len(key) >= _SHORTEST_SECRET else text


def _bounded(response: Any) -> None:
    """Let no answer fill the memory, whatever it says of its length and however it is packed."""
    read = response.iter_bytes

    def iter_bytes(*words: Any, **more: Any) -> Iterator[bytes]:
        size = 0
        for piece in read(*words, **more):
            size += len(piece)
            if size > _MOST_BYTES:
                raise ValueError(f"an answer of more than {_MOST_BYTES >> 20} MiB")
            yield piece

    response.iter_bytes = iter_bytes


def _let_go(answer: Any) -> None:
    """Close a stream that nobody waits for any more."""
    if not isinstance(answer, Exception) and hasattr(answer, "close"):
        answer.close()


def _transport_errors() -> tuple[type[Exception], ...]:
    """What a lost connection raises in the middle of a stream: older versions of the client pass it on as it is."""
    loaded = [sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules]
    return tuple(getattr(module, name) for module in loaded for name in ("HTTPError", "StreamError"))


def _count(usage: Any, name: str) -> int | None:
    return _whole_number(getattr(usage, name, None))


def _whole_number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _retry_after(headers: Any) -> float | None:
    """Seconds that the server asks to wait; None where it says nothing that can be read."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            value = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if value >= 0:
            return value
    try:  # the other form: the time, by the server's clock where it tells it
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        now = parsedate_to_datetime(headers["date"]) if "date" in headers else datetime.now(UTC)
        return max(0.0, (until - now).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return None
