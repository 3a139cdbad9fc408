"""What one exchange may still spend. Every HTTP request passes here twice: before it is sent, and when it has ended.

A request is sent only if its prompt and the room of its reply fit what is left; until it has ended, that is what it
costs. One that failed is charged the same if the server may have worked for it, for it may bill what nobody read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from evo.operators.llm.cost import Budget, Price, Usage, guess_tokens
from evo.operators.llm.endpoint import BudgetSpent, ChatRequest, Completion

_LONGEST_TOKEN = 256  # bytes; a text cannot have fewer tokens
_SLACK = 8  # times the careful guess; it cannot have more

Ledger = Callable[[ChatRequest, int, str, Usage], None]
"""Told of each request, by number within its exchange: `reserved` before it is sent, `charged` where it failed."""


@dataclass(slots=True)
class Meter:
    """The allowance of one exchange and what it has used. most: tokens of one reply."""

    allowance: Budget
    price: Price | None
    most: int
    ledger: Ledger
    usage: Usage = field(default_factory=Usage)
    number: int = 0

    def begin(self, request: ChatRequest) -> ChatRequest:
        """The request with as much room as is left for its reply. Raises Spent if that is too little."""
        left = self.allowance.minus(self.usage, self.price)
        room = left.reply_tokens(request.text, min(self.most, request.max_tokens), self.price)
        if room == 0:
            raise BudgetSpent
        self.number += 1
        sent = replace(request, max_tokens=room)
        self.ledger(sent, self.number, "reserved", largest(sent))
        return sent

    def failed(self, request: ChatRequest, *, generated: bool) -> None:
        """A request without an answer that can be used; generated: the server may have begun to write one."""
        cost = largest(request) if generated else Usage(calls=1)
        self.usage = self.usage.plus(cost)
        self.ledger(request, self.number, "charged", cost)

    def answered(self, request: ChatRequest, completion: Completion) -> Usage:
        cost = used(request, completion)
        self.usage = self.usage.plus(cost)
        return cost


def largest(request: ChatRequest) -> Usage:
    """What a request may cost at most, if its server keeps to the length of the reply."""
    prompt = guess_tokens(request.text)
    return Usage(calls=1, prompt_tokens=prompt, completion_tokens=request.max_tokens, estimated=1)


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
    """A count as the server told it; None where a text of this length cannot have so few or so many tokens."""
    least = len(text.encode("utf-8", "replace")) // _LONGEST_TOKEN
    return told if told is not None and least <= told <= _SLACK * most else None
