"""What answers a prompt: a server over HTTP, or the transcript of an earlier run. Both speak this."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Message:
    """role: system, user or assistant."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request. (exchange, attempt) is its place in the run: attempts after the first are repairs.

    less_effort: by how many levels to reason less than usual.
    """

    exchange: int
    attempt: int
    messages: tuple[Message, ...]
    max_tokens: int
    seed: int
    less_effort: int = 0

    @property
    def text(self) -> str:
        return "\n".join(message.content for message in self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A reply. finish: `stop`, `length` (cut off) or the server's word; token counts where the server told them.

    completion_tokens: with all reasoning, however the server counts that. max_tokens: the room that the request had.
    """

    text: str
    finish: str = "stop"
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    thought: int = 0
    max_tokens: int | None = field(default=None, compare=False)


class PromptRefused(Exception):
    """The server will not answer this prompt (too long, filtered); another one it may."""


class Exhausted(Exception):
    """A transcript holds no reply for this place, or the run is being stopped."""


class BudgetSpent(Exception):
    """The budget has no room for this request."""


class Metered(Protocol):
    """Asked before each HTTP request, told how it ended."""

    def begin(self, request: ChatRequest) -> ChatRequest:
        """The request as it may be sent. Raises BudgetSpent."""
        ...

    def failed(self, request: ChatRequest, *, generated: bool) -> None: ...


class Endpoint(Protocol):
    """Thread-safe. `complete` raises PromptRefused, Exhausted, BudgetSpent, or an EvoError if none can succeed."""

    def complete(self, request: ChatRequest, meter: Metered) -> Completion: ...

    def close(self) -> None: ...


def data(name: str, text: str) -> str:
    """Foreign text between marks that it cannot hold itself, since they carry a digest of it."""
    tag = hashlib.sha256(f"{name}\0{text}".encode("utf-8", "replace")).hexdigest()[:12]
    return f"[[BEGIN {name} {tag}]]\n{text.rstrip()}\n[[END {name} {tag}]]"


def joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)
