"""What asking costs: tokens, money, and the budgets that no run goes past. Pure.

Money is spent in two steps, so that requests in flight cannot overrun a budget together: an allowance is reserved
before an exchange begins, and what it really used is settled when its result is taken.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from evo.errors import UsageError
from evo.results.codec import Decimals, Serializable, copied

SMALLEST_REPLY = 256  # tokens: with less room no edit can be told
Money = Annotated[float, Decimals(6)]

_PRICE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*[/,:]\s*(\d+(?:\.\d+)?)\s*")


@dataclass(frozen=True, slots=True)
class Price:
    """Money per million tokens read and written."""

    prompt: float
    completion: float

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        return (self.prompt * prompt_tokens + self.completion * completion_tokens) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Totals of some requests. estimated: requests of which the server told no counts, so that they were guessed.

    money: by the prices of the models that were asked; None if no price is known.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: int = 0
    money: float | None = None

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def plus(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            estimated=self.estimated + other.estimated,
            money=None if self.money is None and other.money is None else (self.money or 0.0) + (other.money or 0.0),
        )

    def at(self, price: Price | None) -> Usage:
        """The same at a price."""
        money = price.of(self.prompt_tokens, self.completion_tokens) if price is not None else None
        return replace(self, money=money)

    @property
    def report(self) -> UsageReport:
        """What a record keeps of it."""
        return copied(UsageReport, self, estimated_calls=self.estimated or None, cost=self.money)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport(Serializable):
    """What some requests to a language model used."""

    calls: int  # requests
    prompt_tokens: int  # tokens that the model read
    completion_tokens: int  # tokens that the model wrote
    estimated_calls: int | None = None  # requests whose tokens the server did not count, so that they are estimated
    cost: Money | None = None  # in the unit of the price; absent if no price was given


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTotals(UsageReport):
    """What one of several models of a run has used and brought so far."""

    model: str  # the model's name, with its effort if one was given
    exchanges: int  # questions that it was asked
    kept: int  # trials of it that were kept


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmTotals(UsageReport):
    """What the language model of a run has used and brought so far."""

    model: str  # the model's name; several with commas between them
    models: tuple[ModelTotals, ...] = ()  # by model, if there are several
    strategy: str  # how it is prompted
    replayed: Literal[True] | None = None  # present if the replies come from a transcript
    exchanges: int  # questions that were answered, each with its repairs
    edits: int  # exchanges that gave an edit that can be applied
    compiled: int  # edits that compile
    kept: int | None = None  # trials of it that were kept, at the end of a run
    tokens_per_keep: int | None = None  # tokens per kept trial, at the end of a run
    cost_per_keep: Money | None = None  # cost per kept trial, at the end of a run


def guess_tokens(text: str) -> int:
    """More tokens than a text is likely to have: half its bytes. For budgets, if no server has counted yet."""
    return len(text.encode("utf-8", "replace")) // 2 + 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a run may use; None: no limit. money is in the unit of the price."""

    calls: int | None = None
    tokens: int | None = None
    money: float | None = None

    def minus(self, usage: Usage) -> Budget:
        spent = usage.money or 0.0
        return Budget(
            calls=None if self.calls is None else self.calls - usage.calls,
            tokens=None if self.tokens is None else self.tokens - usage.tokens,
            money=None if self.money is None else self.money - spent,
        )

    def reply_tokens(
        self, prompt: str, most: int, price: Price | None, prompt_overrun: float = 1.0, reply_overrun: float = 1.0
    ) -> int:
        """How long a reply to this prompt may be at most, so that the request stays within the budget; 0: not sent.

        prompt_overrun, reply_overrun: how many times what was expected this server has billed before.
        """
        if self.calls is not None and self.calls < 1:
            return 0
        asked = math.ceil(guess_tokens(prompt) * prompt_overrun)
        room = most
        if self.tokens is not None:
            room = min(room, math.floor((self.tokens - asked) / reply_overrun))
        if self.money is not None and price is not None:
            left = self.money - price.of(asked, 0)
            paid = price.completion * reply_overrun
            room = min(room, math.floor(left * 1e6 / paid) if paid and left >= 0 else room)
            room = room if left >= 0 else 0
        return room if room >= min(SMALLEST_REPLY, most) else 0


class Account:
    """One run's budget: allowances out and usage settled. Used from one thread."""

    def __init__(self, budget: Budget) -> None:
        self._left = budget
        self.used = Usage()
        self._out: dict[int, Budget] = {}

    def reserve(self, exchange: int, most: Budget) -> Budget:
        """An allowance for one exchange: what it may need at most, or what is left."""
        out = list(self._out.values())
        calls = _given(self._left.calls, most.calls, [one.calls for one in out])
        tokens = _given(self._left.tokens, most.tokens, [one.tokens for one in out])
        money = _given(self._left.money, most.money, [one.money for one in out])
        given = Budget(
            calls=None if calls is None else int(calls), tokens=None if tokens is None else int(tokens), money=money
        )
        self._out[exchange] = given
        return given

    def settle(self, exchange: int, used: Usage) -> None:
        """What an exchange really used."""
        self._out.pop(exchange, None)
        self.used = self.used.plus(used)
        self._left = self._left.minus(used)

    @property
    def report(self) -> UsageReport:
        return self.used.report


def _given(left: float | None, most: float | None, out: Sequence[float | None]) -> float | None:
    if left is None:
        return None
    free = left - sum(value or 0 for value in out)
    return max(0, min(free, most if most is not None else free))


def read_price(words: str) -> Price:
    """`0.15/0.60`: money per million tokens read and written."""
    match = _PRICE.fullmatch(words)
    if not match:
        hint = "money per million tokens read and written, e.g. --llm-price 0.15/0.60"
        raise UsageError(f"--llm-price {words}: not two numbers", hint=hint)
    return Price(float(match[1]), float(match[2]))


def price_of(model: str, root: Path) -> Price | None:
    """The price of a model in the repository's `evo.toml` (`[llm.prices."MODEL"]`, prompt and completion)."""
    path = root / "evo.toml"
    if not path.is_file():
        return None
    hint = f'write `[llm.prices."{model}"]`, then `prompt = 0.15` and `completion = 0.60`, per million tokens'
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read: {error}", hint=hint, problem="unreadable") from None
    section = data.get("llm", {})
    prices = section.get("prices", {}) if isinstance(section, dict) else {}
    found = prices.get(model) if isinstance(prices, dict) else None
    if found is None:
        return None
    values = [found.get(name) for name in ("prompt", "completion")] if isinstance(found, dict) else [None]
    good = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool) and v >= 0]
    if len(good) != 2 or not all(map(math.isfinite, good)):
        raise UsageError(f"{path}: llm.prices.{model}: not a price", hint=hint, problem="not-a-price")
    return Price(*good)
