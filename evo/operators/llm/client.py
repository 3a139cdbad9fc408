"""An OpenAI-compatible server. The only file that knows the `openai` package, and the only one that holds the key.

What the server says passes through `_scrub` before anyone else sees it, so that an echoed key is never written down.
Retries (429, 5xx, lost connections, garbage) happen here, with a growing delay or the one that the server asks for.
"""

from __future__ import annotations

import json
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import parse_qsl

from evo.errors import HarnessFault, UsageError
from evo.operators.llm.api_forms import Answer, Sampling, api_form
from evo.operators.llm.context_limits import ContextWatch
from evo.operators.llm.endpoint import ChatRequest, Completion, Exhausted, Metered, PromptRefused
from evo.operators.llm.reply_edits import LONGEST_REPLY, one_line
from evo.operators.llm.server_answers import counts_of, reasoning_of

RETRIES = 5
_FIRST_DELAY_S = 1.0
_LONGEST_DELAY_S = 60.0
_SHORT = 2000  # characters that any reply may have
_LONGEST_WORD = 40  # of what a server says for `finish`
_SHORTEST_SECRET = 6  # a shorter "key" is a placeholder for a server that wants none
_GARBLED = (OSError, ValueError, KeyError, IndexError, AttributeError, TypeError, RecursionError)
_MOST_BYTES = 64 << 20  # of an answer, unpacked: a server may send without end, or pack a lot into little
_POLL_S = 0.2
_CHARACTERS = 6  # of a token, before a reply that nothing ends is cut: more than text has on average
_SLOW = "no complete answer within"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelServer:
    """Where to ask, and how patiently. The key is kept out of `repr`.

    url: may end in a query, such as Azure's `?api-version=`. api: `chat` or `responses`; by the end of the url if
    absent. extra: fields of the body that this server wants beside.
    """

    url: str | None
    model: str
    key: str = field(repr=False)
    timeout_s: float = 300.0
    retries: int = RETRIES
    first_delay_s: float = _FIRST_DELAY_S
    api: str | None = None
    effort: str | None = None
    temperature: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Heard:
    """What a server's answers have shown. reasoning_tokens: absent if it reports none, 0 included if it says 0."""

    model: str = ""
    streamed: bool = False
    counted: bool = False
    reasoning_tokens: int | None = None


class Client:
    """One server, asked from several threads."""

    def __init__(self, server: ModelServer, *, note: Callable[[str], None] = lambda _: None) -> None:
        try:
            import openai
        except ImportError:
            hint = "pip install 'evo-kernels[llm]'"
            raise UsageError("the operator llm needs the openai package", hint=hint) from None
        self._openai = openai
        self._server, self._note = server, note
        self._stop = threading.Event()
        self.without: set[str] = set()  # parameters that this server does not take
        self.heard = Heard()
        self.form, url = api_form(server.api, server.url)
        self._sampling = Sampling(effort=server.effort, temperature=server.temperature)
        self._context = ContextWatch(note)
        base, _, query = (url or "").partition("?")
        self._client = openai.OpenAI(
            api_key=server.key,
            base_url=base or None,
            default_query=dict(parse_qsl(query)),
            timeout=server.timeout_s,
            max_retries=0,
            http_client=openai.DefaultHttpxClient(event_hooks={"response": [_bounded]}),
        )
        self._passing: tuple[type[Exception], ...] = (openai.OpenAIError, *_GARBLED, *_transport_errors())
        self._send = self.form.send(self._client)  # loaded here, not in the first thread that asks

    @property
    def url(self) -> str:
        return str(self._client.base_url)

    def page(self, path: str) -> Any:
        """What the server says at a path or an address of its own, as JSON; None if nothing. It costs nothing."""
        try:
            return self._client.with_options(timeout=min(5.0, self._server.timeout_s)).get(path, cast_to=object)
        except self._passing:
            return None

    def close(self) -> None:
        self._stop.set()
        self._client.close()

    def complete(self, request: ChatRequest, meter: Metered) -> Completion:
        """Ask until there is a reply. Raises Refused, Exhausted, Spent, UsageError (key, model) or HarnessFault.

        Each request is metered, also those that fail or are asked again with another parameter.
        """
        last, tries = "", 0
        jitter = random.Random(f"{request.exchange}/{request.attempt}")
        while tries <= self._server.retries:
            if self._stop.is_set():
                raise Exhausted
            asked_s = None
            sent = meter.begin(request)
            try:
                found = replace(self._ask(sent), max_tokens=sent.max_tokens)
                self._context.see(sent.text, found.prompt_tokens)
                return found
            except self._openai.APIStatusError as error:
                meter.failed(sent, generated=False)
                last = self._said(error)
                asked_s = _retry_after(error.response.headers)
                if self._is_final(error, last):
                    if self._drop_parameter(last):
                        continue  # no try of its own: nothing was wrong with the server
                    raise PromptRefused(last) from None
            except self._passing as error:
                meter.failed(sent, generated=not _is_unheard(error))
                last = self._scrub(self._why(error))
            except Exhausted:
                meter.failed(sent, generated=True)
                raise
            tries += 1
            if tries <= self._server.retries:
                delay_s = asked_s if asked_s is not None else self._server.first_delay_s * 2 ** (tries - 1)
                delay_s = min(delay_s, _LONGEST_DELAY_S) * (1 + 0.1 * jitter.random())
                self._note(f"the language model's server: {last}; again in {delay_s:.1f} s")
                if self._stop.wait(delay_s):
                    raise Exhausted
        hint = "the trials so far are kept; start again when it answers (any OpenAI-compatible server: --llm-url)"
        if _SLOW in last:
            hint = f"the trials so far are kept; give it longer with --llm-timeout (now {self._server.timeout_s:.0f}s)"
        raise HarnessFault(f"{self.url}: no usable answer in {tries} tries: {last}", hint=hint)

    def _why(self, error: Exception) -> str:
        if isinstance(error, self._openai.APITimeoutError):
            return f"{_SLOW} {self._server.timeout_s:.0f} s"
        return one_line(f"{type(error).__name__}: {error}")

    def _is_final(self, error: Any, said: str) -> bool:
        """True if this request will never be answered; raises if none will be."""
        code = error.status_code
        if code in (401, 403):
            hint = "check the key in EVO_LLM_KEY or OPENAI_API_KEY, and that it is meant for this server"
            raise UsageError(f"{self.url} does not take the key: {said}", hint=hint) from None
        if code in (404, 405):
            hint = f"check --llm-url (it usually ends in /v1) and --llm-model {self._server.model}"
            raise UsageError(f"{self.url}: {said}", hint=hint) from None
        if "insufficient_quota" in said or code == 402:
            raise HarnessFault(
                f"{self.url}: {said}", hint="the trials so far are kept; the account needs credit"
            ) from None
        return 400 <= code < 500 and code not in (408, 409, 425, 429)

    def _drop_parameter(self, said: str) -> bool:
        """Leave out a parameter that the server complains about by name; False if it names none."""
        for name in self.form.droppable:
            if re.search(rf"\b{name}\b", said) and name not in self.without:
                self.without.add(name)
                return True
        return False

    def _ask(self, request: ChatRequest) -> Completion:
        fields = self.form.fields(request, self._sampling, self.without)
        options = {name: value for name, value in fields.items() if value is not None and name not in self.without}
        options["model"] = self._server.model
        if self._server.extra:
            options["extra_body"] = dict(self._server.extra)
        if "stream" in self.without:
            return self._whole(self._within(options))
        return self._streamed(self._within(options | {"stream": True}), request.max_tokens)

    def _within(self, options: dict[str, Any]) -> Any:
        """What the server begins to answer, within the time-out: it may send the head of an answer without end."""
        found: SimpleQueue[Any] = SimpleQueue()
        is_late = threading.Event()

        def ask() -> None:
            try:
                answer = self._send(**options)
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
        raise ValueError(f"{_SLOW} {self._server.timeout_s:.0f} s")

    def _whole(self, answer: Any) -> Completion:
        """An answer in one piece: an object of the client, or JSON."""
        found = Answer()
        self.form.whole(answer, found)
        return self._completion(found)

    def _completion(self, found: Answer) -> Completion:
        if found.refusal:
            raise PromptRefused(self._scrub(one_line(found.refusal)))
        prompt, written = counts_of(found.usage) if found.usage is not None else (None, None)
        self.heard.model = self._scrub(found.model) or self.heard.model
        self.heard.counted = prompt is not None and written is not None
        self.heard.reasoning_tokens = reasoning_of(found.usage)
        return Completion(
            text=self._scrub(found.text),
            finish=self._word(found.finish),
            prompt_tokens=prompt,
            completion_tokens=written,
            thought=len(found.thought),
        )

    def _plain(self, stream: Any) -> Completion | None:
        """The answer of a server that was asked for a stream and sent one object; None if it is a stream."""
        if "application/json" not in stream.response.headers.get("content-type", ""):
            return None
        try:
            body = json.loads(stream.response.read())
        finally:
            stream.close()
        return self._whole(body if isinstance(body, dict) else {"said": body})

    def _streamed(self, stream: Any, room: int) -> Completion:
        """Put a stream together, within the time-out as a whole and the length of a reply."""
        deadline = time.monotonic() + self._server.timeout_s
        alarm = threading.Timer(self._server.timeout_s, stream.close)
        alarm.daemon = True
        alarm.start()
        found = Answer()
        chunks = 0
        most = min(LONGEST_REPLY, room * _CHARACTERS + _SHORT)
        try:
            if (plain := self._plain(stream)) is not None:
                return plain
            for chunk in stream:
                chunks += 1
                if self._stop.is_set():
                    raise Exhausted
                if time.monotonic() > deadline:
                    raise ValueError(f"{_SLOW} {self._server.timeout_s:.0f} s")
                self.form.event(chunk, found)
                if found.size > most:
                    found.finish, found.usage = "length", None  # what it counts now is not what it will count
                    break
        except self._passing:
            if time.monotonic() > deadline:  # the alarm has closed the stream
                raise ValueError(f"{_SLOW} {self._server.timeout_s:.0f} s") from None
            raise
        finally:
            alarm.cancel()
            stream.close()
        if time.monotonic() > deadline:
            raise ValueError(f"{_SLOW} {self._server.timeout_s:.0f} s")
        if not chunks:
            self.without.add("stream")
            raise ValueError("an empty stream")
        if not found.finish and not found.usage:
            raise ValueError("the stream broke off")
        self.heard.streamed = True
        return self._completion(found)

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


def _is_unheard(error: Exception) -> bool:
    """Whether nobody was there to hear the request, so that nothing was written for it."""
    return any(
        type(each).__name__ in ("ConnectError", "ConnectTimeout", "ConnectionRefusedError") for each in _chain(error)
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _retry_after(headers: Any) -> float | None:
    """Seconds that the server asks to wait; None if it says nothing that can be read."""
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
