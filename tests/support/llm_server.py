"""A real HTTP server that speaks chat completions and the Responses API, and misbehaves on request."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from llm_responses import response
from llm_responses import stream as responses_stream

from evo.operators.llm.client import Client, ModelServer
from evo.operators.llm.endpoint import ChatRequest, Message

KEY = "sk-test-0123456789abcdef"


class Unmetered:
    """No budget, no account."""

    def begin(self, request: ChatRequest) -> ChatRequest:
        return request

    def failed(self, request: ChatRequest, *, generated: bool) -> None:
        del request, generated


FREE = Unmetered()
ASKED = ChatRequest(
    exchange=1, attempt=1, messages=(Message("system", "s"), Message("user", "u")), max_tokens=99, seed=5
)
STREAM = {"content-type": "text/event-stream"}


@dataclass(frozen=True, kw_only=True)
class Act:
    """What the server does with one request. usage: (prompt, completion) tokens; raw: bytes sent as the body as is.

    cut: the stream breaks off without an end. delay_s: before each piece. whole: one object, also where a stream was
    asked for. drop: the connection is closed without an answer. echo_key: the key is put at the end of the reply.
    drip_s: header lines without end, one each so many seconds.
    """

    text: str = ""
    finish: str = "stop"
    usage: tuple[int, int] | None = (100, 20)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    raw: bytes | None = None
    cut: bool = False
    delay_s: float = 0.0
    whole: bool = False
    drop: bool = False
    echo_key: bool = False
    drip_s: float = 0.0


Script = Callable[[dict[str, Any], int], Act]


class LlmServer:
    """Answers by a script: (request body, number of the request) -> Act. Use it as a context manager."""

    def __init__(self, script: Script, pages: dict[str, Any] | None = None) -> None:
        self.pages = pages or {}  # what GET finds, by path
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.paths: list[str] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                found = outer.pages.get(self.path)
                raw = json.dumps(found if found is not None else {"error": {"message": "no such page"}}).encode()
                self._body(200 if found is not None else 404, raw, {}, "application/json")

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with outer._lock:
                    outer.requests.append(body)
                    outer.paths.append(self.path)
                    outer.keys.append(self.headers.get("authorization", ""))
                    number = len(outer.requests)
                    outer._at_once += 1
                    outer.most_at_once = max(outer.most_at_once, outer._at_once)
                try:
                    self._act(script(body, number), body)
                except (BrokenPipeError, ConnectionResetError):
                    pass
                finally:
                    with outer._lock:
                        outer._at_once -= 1

            def _act(self, act: Act, body: dict[str, Any]) -> None:
                if act.delay_s:
                    time.sleep(act.delay_s)
                if act.drop:
                    self.close_connection = True
                    self.connection.close()
                    return
                if act.drip_s:
                    self._drip(act.drip_s)
                    return
                text = act.text + (self.headers["authorization"].removeprefix("Bearer ") if act.echo_key else "")
                if act.raw is not None or act.status != 200:
                    raw = act.raw if act.raw is not None else json.dumps({"error": act.error or {}}).encode()
                    self._body(act.status, raw, act.headers, "application/json")
                elif self.path.partition("?")[0].endswith("/responses"):
                    self._respond(act, text, stream=bool(body.get("stream")) and not act.whole)
                elif body.get("stream") and not act.whole:
                    self._stream(act, text)
                else:
                    self._body(200, json.dumps(_whole(act, text)).encode(), act.headers, "application/json")

            def _drip(self, seconds: float) -> None:
                self.close_connection = True
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                for number in range(100):
                    self.wfile.write(f"x-{number}: 1\r\n".encode())
                    time.sleep(seconds)

            def _body(self, status: int, raw: bytes, headers: dict[str, str], kind: str) -> None:
                self.send_response(status)
                for name, value in {"content-type": kind, "content-length": str(len(raw)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(raw)

            def _respond(self, act: Act, text: str, *, stream: bool) -> None:
                is_short = act.finish == "length"
                ended = {"status": "incomplete", "reason": "max_output_tokens"} if is_short else {}
                whole = response(text, usage=act.usage, **ended)
                if stream:
                    self._body(200, responses_stream(whole, cut=act.cut), act.headers, "text/event-stream")
                else:
                    self._body(200, json.dumps(whole).encode(), act.headers, "application/json")

            def _stream(self, act: Act, text: str) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                self.close_connection = True
                pieces = [text[at : at + 40] for at in range(0, len(text), 40)] or [""]
                for piece in pieces[: len(pieces) // 2] if act.cut else pieces:
                    if act.delay_s:
                        time.sleep(act.delay_s)
                    self._event({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]})
                if act.cut:
                    return
                self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": act.finish}]})
                if act.usage is not None:
                    self._event({"choices": [], "usage": _usage(act.usage)})
                self.wfile.write(b"data: [DONE]\n\n")

            def _event(self, fields: dict[str, Any]) -> None:
                whole = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "test", **fields}
                self.wfile.write(b"data: " + json.dumps(whole).encode() + b"\n\n")
                self.wfile.flush()

            def log_message(self, *_: object) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> LlmServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Stop listening; connections that are open stay as they are."""
        self._server.shutdown()
        self._server.server_close()


def _usage(counts: tuple[int, int]) -> dict[str, int]:
    return {"prompt_tokens": counts[0], "completion_tokens": counts[1], "total_tokens": sum(counts)}


def _whole(act: Act, text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    fields: dict[str, Any] = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "test",
        "choices": [{"index": 0, "message": message, "finish_reason": act.finish}],
    }
    return fields | ({"usage": _usage(act.usage)} if act.usage is not None else {})


def block(search: str, replace: str, **words: str) -> str:
    """A reply in the form that is asked for."""
    said = "\n".join(f"{name.upper()}: {text}" for name, text in words.items())
    return f"{said}\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


def prompt_of(body: dict[str, Any]) -> str:
    if "input" in body:  # the Responses API
        return "\n".join([body.get("instructions", ""), *(message["content"] for message in body["input"])])
    return "\n".join(message["content"] for message in body["messages"])


def kernel_of(body: dict[str, Any]) -> str:
    """The kernel that a prompt shows."""
    found = re.search(r"\[\[BEGIN kernel (\w+)\]\]\n(.*?)\n\[\[END kernel \1\]\]", prompt_of(body), re.DOTALL)
    assert found is not None
    return found[2]


@contextmanager
def client(
    script: Script, path: str = "{}", retries: int = 3, **words: Any
) -> Iterator[tuple[Client, LlmServer, list[str]]]:
    """A client of a server with this script, and what it notes. path: with `{}` for the server's address."""
    notes: list[str] = []
    with LlmServer(script) as server:
        given = {"model": "m", "key": KEY, "timeout_s": 30.0, "first_delay_s": 0.01, **words}
        where = ModelServer(url=path.format(server.url), retries=retries, **given)
        with closing(Client(where, note=notes.append)) as asked:
            yield asked, server, notes


def event(delta: dict[str, Any], **more: Any) -> bytes:
    """One event of a streamed chat completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    fields = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice], **more}
    return b"data: " + json.dumps(fields).encode() + b"\n\n"
