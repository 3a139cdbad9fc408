"""What was asked and what was answered: `population/<task>/transcripts/<run>.jsonl`, and answering from one.

A line is written the moment its reply arrives, since it was paid for; when the run ends the lines are put in the order
of their exchanges, so that two runs with the same replies leave the same bytes. Nothing in a line tells the time.

    {version, exchange, attempt, request, model, strategy, parent, messages: [{role, content}], reply, finish,
     usage|absent, charged}
    {version, exchange, attempt, request, reserved|charged}
    {version, carried}

messages: all of the first attempt's; of a repair, only what was added after the reply before it. The other lines are
the run's account, so that a run that goes on after any end knows what was spent: a request is `reserved` at its
maximum before it is sent and, if it failed, `charged`; `carried` is what the runs before it had spent.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from evo.errors import SyntaxInvalid
from evo.files import append, split_tail, write_atomic
from evo.operators.llm.cost import Price, Usage
from evo.operators.llm.endpoint import ChatRequest, Completion, Exhausted, Message, Metered
from evo.operators.llm.server_answers import whole_number
from evo.results import Json, drop_absent

VERSION = 1
_HINT = "give a file of population/TASK/transcripts/, as an earlier run wrote it"


def transcript_file(root: Path, task: str, run: str) -> Path:
    return root / "population" / task / "transcripts" / f"{run}.jsonl"


class Transcript:
    """The transcript of the run in progress. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._lines: dict[tuple[int, int, int], bytes] = {}
        self._is_ordered = True

    def carry(self, usage: Usage) -> None:
        """What was spent before this run."""
        self._write((0, 0, 0), {"carried": _counts(usage)})

    def account(self, request: ChatRequest, number: int, what: str, usage: Usage) -> None:
        """A request, the `number`-th of its exchange, is `reserved` or `charged`."""
        fields: dict[str, Json] = {"exchange": request.exchange, "attempt": request.attempt, "request": number}
        self._write((request.exchange, request.attempt, number), {**fields, what: _counts(usage)})

    def _write(self, place: tuple[int, int, int], fields: dict[str, Json]) -> None:
        """Append a line; it stands for the earlier ones of its request."""
        line = json.dumps(drop_absent({"version": VERSION, **fields})).encode("ascii") + b"\n"
        with self._lock:
            self._is_ordered &= place not in self._lines and (not self._lines or place > max(self._lines))
            self._lines[place] = line
            append(self.path, line)

    def add(
        self,
        request: ChatRequest,
        completion: Completion,
        *,
        number: int = 1,
        charged: Usage | None = None,
        model: str,
        strategy: str,
        parent: str,
    ) -> None:
        added = request.messages if request.attempt == 1 else request.messages[-1:]
        fields: dict[str, Json] = {
            "exchange": request.exchange,
            "attempt": request.attempt,
            "request": number,
            "model": model,
            "strategy": strategy,
            "parent": parent,
            "messages": [{"role": message.role, "content": message.content} for message in added],
            "reply": completion.text,
            "finish": completion.finish,
            "usage": drop_absent(
                {"prompt_tokens": completion.prompt_tokens, "completion_tokens": completion.completion_tokens}
            )
            or None,
            "charged": _counts(charged) if charged is not None else None,
        }
        self._write((request.exchange, request.attempt, number), fields)  # ASCII: a reply may hold what UTF-8 cannot

    def close(self) -> None:
        """Put the lines in order, one of each request."""
        with self._lock:
            if not self._is_ordered:
                write_atomic(self.path, b"".join(line for _, line in sorted(self._lines.items())))


class Replay:
    """Answers from a transcript, by place: exchange and attempt. `differing`: prompts other than the recorded ones."""

    def __init__(self, path: Path) -> None:
        self._answers: dict[tuple[int, int], tuple[tuple[Message, ...], Completion]] = {}
        self._models: dict[int, str] = {}  # by exchange
        self.differing = 0
        self._lock = threading.Lock()
        try:
            whole, torn = split_tail(path.read_bytes())
        except OSError as error:
            raise SyntaxInvalid(path, None, f"cannot be read: {error.strerror}", hint=_HINT) from None
        if torn.endswith(b"\n"):
            whole += torn  # a whole line that is no record; without its newline, a run was killed while it wrote it
        for number, line in enumerate(whole.splitlines(), start=1):
            data = _object(line, path, number)
            if "reply" not in data and data.keys() & {"carried", "request"}:
                continue  # of the account
            place, model, answer = _read(data, path, number)
            if place in self._answers:
                raise SyntaxInvalid(path, number, f"a second reply for exchange {place[0]}.{place[1]}", hint=_HINT)
            self._answers[place] = answer
            self._models.setdefault(place[0], model)
        if not self._answers:
            raise SyntaxInvalid(path, None, "holds no reply", hint=_HINT)

    @property
    def models(self) -> tuple[str, ...]:
        """All models that have answered."""
        return tuple(dict.fromkeys(self._models.values()))

    def model_of(self, exchange: int) -> str:
        """Which model answered a question; empty if none did."""
        return self._models.get(exchange, "")

    def complete(self, request: ChatRequest, meter: Metered) -> Completion:
        del meter  # it costs nothing
        found = self._answers.get((request.exchange, request.attempt))
        if found is None:
            raise Exhausted
        asked, completion = found
        if request.messages[-len(asked) :] != asked:
            with self._lock:
                self.differing += 1
        return completion

    def close(self) -> None:
        return None


def spent(path: Path, price: Price | None = None) -> Usage:
    """What a run has spent, by its transcript; what is only reserved counts in full. Nothing if there is no file.

    price: of lines that do not tell their cost.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return Usage()
    found: dict[object, Usage] = {}
    for number, line in enumerate(lines, start=1):
        try:
            data = _object(line, path, number)
        except SyntaxInvalid:
            continue  # torn
        counts = next((data[name] for name in ("charged", "usage", "reserved", "carried") if data.get(name)), None)
        place = (data.get("exchange"), data.get("attempt"), data.get("request"))
        found[place] = _usage(counts)
        if found[place].money is None:
            found[place] = found[place].at(price)
    total = Usage()
    for each in found.values():
        total = total.plus(each)
    return total


def _counts(usage: Usage) -> dict[str, Json]:
    fields: dict[str, Json] = {
        "calls": usage.calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
    }
    fields |= {"estimated": usage.estimated} if usage.estimated else {}
    return fields | ({"money": usage.money} if usage.money is not None else {})


def _usage(counts: object) -> Usage:
    known = counts if isinstance(counts, dict) else {}
    return Usage(
        calls=whole_number(known.get("calls", 1)) or 0,
        prompt_tokens=whole_number(known.get("prompt_tokens")) or 0,
        completion_tokens=whole_number(known.get("completion_tokens")) or 0,
        estimated=whole_number(known.get("estimated")) or 0,
        money=float(money) if isinstance(money := known.get("money"), int | float) else None,
    )


def _object(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SyntaxInvalid(path, number, f"not JSON: {error}", hint=_HINT) from None
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise SyntaxInvalid(path, number, f"field `version`: not {VERSION}", hint=_HINT)
    return data


def _read(
    data: dict[str, Any], path: Path, number: int
) -> tuple[tuple[int, int], str, tuple[tuple[Message, ...], Completion]]:
    def invalid(problem: str) -> SyntaxInvalid:
        return SyntaxInvalid(path, number, problem, hint=_HINT)

    exchange, attempt = whole_number(data.get("exchange")), whole_number(data.get("attempt"))
    if not exchange or not attempt:
        raise invalid("fields `exchange`, `attempt`: not positive integers")
    reply, listed, usage = data.get("reply"), data.get("messages"), data.get("usage") or {}
    if not isinstance(reply, str) or not isinstance(listed, list) or not isinstance(usage, dict):
        raise invalid("fields `reply`, `messages`, `usage`: ill-typed")
    messages = [Message(str(m.get("role")), str(m.get("content"))) for m in listed if isinstance(m, dict)]
    completion = Completion(
        text=reply,
        finish=str(data.get("finish", "stop")),
        prompt_tokens=whole_number(usage.get("prompt_tokens")),
        completion_tokens=whole_number(usage.get("completion_tokens")),
    )
    return (exchange, attempt), str(data.get("model", "")), (tuple(messages), completion)
