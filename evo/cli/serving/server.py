"""The server behind the page: loopback only, reading only, for browsers on this machine."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evo.cli.pages.html_page import LIVE_POLICY
from evo.cli.serving.content import Content
from evo.errors import UsageError

LOOPBACK = "127.0.0.1"
_LOOK_S = 0.4  # between two looks at the records
_PING_S = 15.0  # between two signs of life to a page for which nothing is new
_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
_HEADERS = {
    "content-security-policy": f"{LIVE_POLICY}; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def listen(port: int) -> socket.socket:
    """A socket on loopback; port 0 takes a free one. Raises UsageError if the port is not to be had."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen(64)
    except OSError as error:
        listener.close()
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be opened: {error.strerror}"
        raise UsageError(f"port {port} {why}", hint="give another --port, or --port 0 for a free one") from None
    return listener


def address_of(listener: socket.socket) -> str:
    return f"http://{LOOPBACK}:{listener.getsockname()[1]}/"


def run(content: Content, listener: socket.socket, *, with_stdin: bool = False) -> None:
    """Serve until a signal, or until stdin ends if `with_stdin`."""
    site = _Site(content, lambda: server.should_exit)
    config = uvicorn.Config(
        _Guard(site.application()),
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    if with_stdin:
        threading.Thread(target=_end_with_stdin, args=(server,), daemon=True).start()
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:  # uvicorn raises the signal again after it has closed
        pass
    finally:
        listener.close()


def _end_with_stdin(server: uvicorn.Server) -> None:
    while sys.stdin.buffer.read(1024):
        pass
    server.should_exit = True


@dataclass(frozen=True, slots=True)
class _Guard:
    """Answers only what a page of this machine asks: a loopback Host, no other site's request, no writing.

    Without the look at Host, a site whose name is made to mean 127.0.0.1 could read the records (DNS rebinding).
    """

    within: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = _refusal(scope["method"], headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *added]}
            await send(message)

        await self.within(scope, receive, guarded)


def _refusal(method: str, headers: dict[str, str]) -> Response | None:
    host = headers.get("host", "")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if name.lower() not in _HOSTS:
        return PlainTextResponse("This page is only for 127.0.0.1 and localhost.\n", 421)
    foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
    if foreign and headers.get("sec-fetch-mode") != "navigate":
        return PlainTextResponse("Other sites get no answer.\n", 403)
    if method not in ("GET", "HEAD"):
        return PlainTextResponse("Nothing can be changed here.\n", 405, headers={"allow": "GET, HEAD"})
    return None


@dataclass(frozen=True, slots=True)
class _Site:
    """The routes. `ending`: whether the server is about to end."""

    content: Content
    ending: Callable[[], bool]

    def application(self) -> Starlette:
        routes = [
            Route("/", self.page),
            Route("/events", self.events),
            Route("/state.json", self.state),
            Route("/section/{name}", self.section),
            Route("/trial/{name}", self.trial),
            Route("/counts/{name}", self.counts),
        ]
        return Starlette(routes=routes)

    def _task(self, request: Request) -> str | None:
        return self.content.chosen(request.query_params.get("task") or None)

    async def page(self, request: Request) -> Response:
        task = await run_in_threadpool(self._task, request)
        if task is None:
            return _unknown("task")
        return HTMLResponse(await run_in_threadpool(self.content.page, task))

    async def section(self, request: Request) -> Response:
        task = await run_in_threadpool(self._task, request)
        found = await run_in_threadpool(self.content.sections, task) if task is not None else {}
        html = found.get(request.path_params["name"])
        return HTMLResponse(html) if html is not None else _unknown("section")

    async def trial(self, request: Request) -> Response:
        html = await run_in_threadpool(self.content.trial, request.path_params["name"])
        return HTMLResponse(html) if html is not None else _unknown("trial")

    async def counts(self, request: Request) -> Response:
        html = await run_in_threadpool(self.content.counts, request.path_params["name"])
        return HTMLResponse(html) if html is not None else _unknown("trial")

    async def state(self, request: Request) -> Response:
        task = await run_in_threadpool(self._task, request)
        if task is None:
            return _unknown("task")
        status = await run_in_threadpool(self.content.status)
        records = await run_in_threadpool(self.content.records, task)
        shape = {"task": task, "tasks": self.content.tasks(), "trials": len(records)}
        if status is not None:
            shape |= {"alive": status.alive, "status": status.to_json()}
        return JSONResponse(shape)

    async def events(self, request: Request) -> Response:
        task = await run_in_threadpool(self._task, request)
        if task is None:
            return _unknown("task")
        return StreamingResponse(self._follow(task), media_type="text/event-stream")

    async def _follow(self, task: str) -> AsyncIterator[str]:
        """The marks of all sections, at first and when one has changed; the page asks for those that are new to it."""
        told, quiet_s = "", 0.0
        yield "retry: 1000\n\n"
        while not self.ending():
            begun = await run_in_threadpool(self.content.chosen, None) if not task else None
            if begun:
                yield "event: task\ndata: true\n\n"  # the first run has begun: there is something to show
                return
            marks = await run_in_threadpool(self.content.marks, task)
            if marks != told:
                told, quiet_s = marks, 0.0
                yield f"event: marks\ndata: {marks}\n\n"
            elif quiet_s >= _PING_S:
                quiet_s = 0.0
                yield ": still here\n\n"
            await asyncio.sleep(_LOOK_S)
            quiet_s += _LOOK_S
        yield f"event: end\ndata: {json.dumps(True)}\n\n"


def _unknown(what: str) -> Response:
    return PlainTextResponse(f"There is no such {what}.\n", 404)
