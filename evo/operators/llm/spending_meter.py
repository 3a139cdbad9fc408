"""What is left to one exchange. Every HTTP request passes here twice: before it is sent, and when it has ended.

A request is sent only if its prompt and the room of its reply fit what is left; until it has ended, that is what it
costs. One that failed is charged the same if the server may have worked for it, for it may bill what nobody read.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from evo.operators.llm.cost import Budget, Price, Usage, guess_tokens
from evo.operators.llm.endpoint import BudgetSpent, ChatRequest, Completion

_LONGEST_TOKEN = 256  # bytes; a text cannot have fewer tokens
_SLACK = 8  # times the careful guess; it cannot have more

Ledger = Callable[[ChatRequest, int, str, Usage], None]
"""Told of each request, by number within its exchange: `reserved` before it is sent, `charged` where it failed."""


class Overrun:
    """How far a server goes past what it was asked for, as factors: 1 for one that keeps to it. Thread-safe.

    No client can keep a server from billing more than `max_tokens`. Once it has said so, later requests are reserved at
    the largest factor seen, and those that fail are charged that much.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._prompt = self._reply = 1.0

    @property
    def prompt(self) -> float:
        return self._prompt

    @property
    def reply(self) -> float:
        return self._reply

    def learn(self, request: ChatRequest, cost: Usage) -> None:
        with self._lock:
            self._prompt = max(self._prompt, cost.prompt_tokens / guess_tokens(request.text))
            self._reply = max(self._reply, cost.completion_tokens / request.max_tokens)


@dataclass(slots=True)
class Meter:
    """The allowance of one exchange and what it has used. most: tokens of one reply."""

    allowance: Budget
    price: Price | None
    most: int
    ledger: Ledger
    overrun: Overrun = field(default_factory=Overrun)
    usage: Usage = field(default_factory=Usage)
    number: int = 0

    def begin(self, request: ChatRequest) -> ChatRequest:
        """The request with as much room as is left for its reply. Raises Spent if that is too little."""
        left = self.allowance.minus(self.usage)
        most = min(self.most, request.max_tokens)
        room = left.reply_tokens(request.text, most, self.price, self.overrun.prompt, self.overrun.reply)
        if room == 0:
            raise BudgetSpent
        self.number += 1
        sent = replace(request, max_tokens=room)
        self.ledger(sent, self.number, "reserved", largest(sent, self.overrun).at(self.price))
        return sent

    def failed(self, request: ChatRequest, *, generated: bool) -> None:
        """A request without an answer that can be used; generated: the server may have begun to write one."""
        cost = (largest(request, self.overrun) if generated else Usage(calls=1)).at(self.price)
        self.usage = self.usage.plus(cost)
        self.ledger(request, self.number, "charged", cost)

    def answered(self, request: ChatRequest, completion: Completion) -> Usage:
        cost = used(request, completion).at(self.price)
        if not cost.estimated:
            self.overrun.learn(request, cost)
        self.usage = self.usage.plus(cost)
        return cost


def largest(request: ChatRequest, overrun: Overrun) -> Usage:
    """What a request may cost at most, if its server overruns no further than it did before."""
    prompt = math.ceil(guess_tokens(request.text) * overrun.prompt)
    reply = math.ceil(request.max_tokens * overrun.reply)
    return Usage(calls=1, prompt_tokens=prompt, completion_tokens=reply, estimated=1)


def used(request: ChatRequest, completion: Completion) -> Usage:
    """What one reply cost. Where the server told no counts, or none that can be, the most that it may have cost."""
    said = guess_tokens(completion.text) + completion.thought // 2
    longest = max(request.max_tokens, said)  # what is thought and not said counts too
    asked = _believed(completion.prompt_tokens, request.text, guess_tokens(request.text))
    written = _believed(completion.completion_tokens, completion.text, longest)
    return Usage(
        calls=1,
        prompt_tokens=asked if asked is not None else guess_tokens(request.text),
        completion_tokens=written if written is not None else longest,
        estimated=int(asked is None or written is None),
    )


def _believed(told: int | None, text: str, most: int) -> int | None:
    """A count as the server told it; None if a text of this length cannot have so few or so many tokens."""
    least = len(text.encode("utf-8", "replace")) // _LONGEST_TOKEN
    return told if told is not None and least <= told <= _SLACK * most else None
