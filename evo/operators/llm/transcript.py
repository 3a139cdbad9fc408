"""What was asked and what was answered: `population/<task>/transcripts/<run>.jsonl`, and answering from one.

A line is written the moment its reply arrives, since it was paid for; when the run ends the lines are put in the order
of their exchanges, so that two runs with the same replies leave the same bytes. Nothing in a line tells the time.

    {version, exchange, attempt, model, strategy, parent, messages: [{role, content}], reply, finish, usage|absent}

messages: all of the first attempt's; of a repair, only what was added after the reply before it.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

from evo.errors import SyntaxInvalid
from evo.files import append, split_tail, write_atomic
from evo.operators.llm.endpoint import Completion, Exhausted, Message, Request
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
        self._lines: dict[tuple[int, int], bytes] = {}

    def add(self, request: Request, completion: Completion, *, model: str, strategy: str, parent: str) -> None:
        added = request.messages if request.attempt == 1 else request.messages[-1:]
        fields: dict[str, Json] = {
            "version": VERSION,
            "exchange": request.exchange,
            "attempt": request.attempt,
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
        }
        line = json.dumps(drop_absent(fields)).encode("ascii") + b"\n"  # a reply may hold what UTF-8 cannot
        with self._lock:
            self._lines[(request.exchange, request.attempt)] = line
            append(self.path, line)

    def close(self) -> None:
        """Put the lines in order."""
        with self._lock:
            if self._lines and list(self._lines) != sorted(self._lines):
                write_atomic(self.path, b"".join(line for _, line in sorted(self._lines.items())))


class Replay:
    """Answers from a transcript, by place: exchange and attempt. `differing`: prompts other than the recorded ones."""

    replayed = True

    def __init__(self, path: Path) -> None:
        self._answers: dict[tuple[int, int], tuple[tuple[Message, ...], Completion]] = {}
        self.differing = 0
        self.model = ""
        self._lock = threading.Lock()
        try:
            whole, torn = split_tail(path.read_bytes())
        except OSError as error:
            raise SyntaxInvalid(path, None, f"cannot be read: {error.strerror}", hint=_HINT) from None
        if torn.endswith(b"\n"):
            whole += torn  # a whole line that is no record; without its newline, a run was killed while it wrote it
        for number, line in enumerate(whole.splitlines(), start=1):
            place, model, answer = _read(line, path, number)
            if place in self._answers:
                raise SyntaxInvalid(path, number, f"a second reply for exchange {place[0]}.{place[1]}", hint=_HINT)
            self._answers[place] = answer
            self.model = self.model or model
        if not self._answers:
            raise SyntaxInvalid(path, None, "holds no reply", hint=_HINT)

    def complete(self, request: Request) -> Completion:
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


def _read(line: bytes, path: Path, number: int) -> tuple[tuple[int, int], str, tuple[tuple[Message, ...], Completion]]:
    def invalid(problem: str) -> SyntaxInvalid:
        return SyntaxInvalid(path, number, problem, hint=_HINT)

    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise invalid(f"not JSON: {error}") from None
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise invalid(f"field `version`: not {VERSION}")
    exchange, attempt = _count(data.get("exchange")), _count(data.get("attempt"))
    if not exchange or not attempt:
        raise invalid("fields `exchange`, `attempt`: not positive integers")
    reply, listed, usage = data.get("reply"), data.get("messages"), data.get("usage") or {}
    if not isinstance(reply, str) or not isinstance(listed, list) or not isinstance(usage, dict):
        raise invalid("fields `reply`, `messages`, `usage`: ill-typed")
    messages = [Message(str(m.get("role")), str(m.get("content"))) for m in listed if isinstance(m, dict)]
    completion = Completion(
        text=reply,
        finish=str(data.get("finish", "stop")),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
    )
    return (exchange, attempt), str(data.get("model", "")), (tuple(messages), completion)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
