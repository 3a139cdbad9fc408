"""Servers that break off, lie and overrun at random, and keep a bill of what they were asked and have written."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llm_server import KEY, Act, LlmServer, prompt_of

from evo.device import parse_device
from evo.evaluate.session import EvaluationSession
from evo.operators import Context
from evo.operators.llm import (
    Budget,
    Llm,
    LlmSettings,
    LlmTotals,
    ModelChoice,
    ModelServer,
    Price,
    Surroundings,
    transcript_file,
)
from evo.spec.task import Task
from evo.spec.variant import Variant

TIMEOUT_S = 0.2
BYTES = 4  # of text that this server bills as one token


@dataclass(frozen=True, kw_only=True)
class Billed:
    """One request: tokens read and written, and the `max_tokens` that it asked for."""

    prompt: int
    written: int
    room: int

    @property
    def tokens(self) -> int:
        return self.prompt + self.written

    @property
    def overrun(self) -> int:
        """What was written past `max_tokens`, which no client can prevent."""
        return max(0, self.written - self.room)


@dataclass
class Bill:
    """What the server would ask money for, request by request."""

    requests: list[Billed] = field(default_factory=list)

    def add(self, prompt: int, written: int, room: int) -> None:
        self.requests.append(Billed(prompt=prompt, written=written, room=room))

    @property
    def tokens(self) -> int:
        return sum(each.tokens for each in self.requests)

    def money(self, price: Price) -> float:
        return sum(price.of(each.prompt, each.written) for each in self.requests)


def adversary(rng: random.Random, bill: Bill, *, overruns: bool) -> Any:
    """A script: each request is answered in one of the ways in which servers answer, honest ones among them.

    overruns: some replies are longer than `max_tokens`, which costs.
    """

    def act(body: dict[str, Any], number: int) -> Act:
        del number
        prompt = len(prompt_of(body)) // BYTES
        room = body.get("max_tokens") or body.get("max_completion_tokens") or 0
        way = rng.choice(
            [
                "said",
                "said",
                "thought",
                "total",
                "apart",
                "over",
                "over",
                "cut",
                "drop",
                "late",
                "refused",
                "busy",
                "lies",
                "silent",
                "garbage",
                "key",
            ]
        )
        if way in ("refused", "busy", "key"):
            bill.add(0, 0, room)
            status, words = {"refused": (400, "too long"), "busy": (429, "slow down"), "key": (503, KEY)}[way]
            return Act(status=status, error={"message": words})
        written = rng.randrange(1, room + 1) if way != "over" or not overruns else room * rng.randrange(1, 4)
        written = max(written, 100) if way == "lies" else written  # enough that 0 cannot be
        bill.add(prompt, written, room)
        text = "x y " * written
        usage = (prompt, written)
        if way == "drop":
            return Act(drop=True)
        if way == "late":
            return Act(text=text, usage=usage, delay_s=1.5 * TIMEOUT_S)
        if way == "cut":
            return Act(text=text, usage=usage, cut=True)
        if way == "garbage":
            return Act(raw=b"<html>" + b"no " * rng.randrange(100))
        if way in ("thought", "total", "apart"):
            thought = written // 2
            told: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": written - thought}
            if way == "thought":
                told = {"prompt_tokens": prompt, "completion_tokens": written}
            elif way == "total":
                told["total_tokens"] = prompt + written
            else:
                told["completion_tokens_details"] = {"reasoning_tokens": written}
                told["completion_tokens"] = 0
            choice = {"index": 0, "message": {"content": ""}, "finish_reason": "length"}
            return Act(raw=json.dumps({"choices": [choice], "usage": told}).encode())
        if way == "lies":
            return Act(text=text, usage=rng.choice([(0, 0), (10**15, 10**15), (prompt, 0)]))
        return Act(text=text, usage=None if way == "silent" else usage, finish=rng.choice(["stop", "length"]))

    return act


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """What came of one run's conversations. limit: its budget. overruns: whether the server wrote past `max_tokens`."""

    bill: Bill
    limit: Budget
    price: Price
    parallel: int
    overruns: bool
    totals: LlmTotals
    transcript: Path


def converse(root: Path, task: Task, bench: EvaluationSession, parent: Variant, seed: int) -> Conversation:
    """One run's conversations until its budget is spent."""
    rng = random.Random(seed)
    bill, price = Bill(), Price(1.0, rng.choice([1.0, 4.0]))
    limit = rng.choice(
        [Budget(calls=rng.randrange(1, 9)), Budget(tokens=rng.randrange(1000, 40_000)),
         Budget(money=rng.uniform(0.001, 0.05)), Budget(calls=6, tokens=20_000, money=0.02)]
    )  # fmt: skip
    parallel, overruns = rng.choice([(1, True), (1, True), (1, False), (3, False)])
    run = f"20260101T000000-{seed:06d}"
    with LlmServer(adversary(rng, bill, overruns=overruns)) as server:
        where = ModelServer(
            url=server.url, model="m", key=KEY, timeout_s=TIMEOUT_S, retries=rng.randrange(3), first_delay_s=0.001
        )
        settings = LlmSettings(
            strategy="free", models=(ModelChoice(name="m", server=where, price=price),),
            budget=limit, max_tokens=rng.choice([300, 900]), repairs=2,
            parallel=parallel,
        )  # fmt: skip
        around = Surroundings(
            root=root, run=run, task=task, bench=bench,
            note=lambda text: None, usage=lambda totals: None, alone=False, seed=seed,
        )  # fmt: skip
        llm = Llm(settings, around)
        try:
            while llm.propose(parent, rng=rng, context=Context(task=task)) is not None:
                pass
        finally:
            llm.close()
        _settle(bill, llm.totals.calls)
    return Conversation(
        bill=bill, limit=limit, price=price, parallel=parallel, overruns=overruns, totals=llm.totals,
        transcript=transcript_file(root, task.name, run),
    )  # fmt: skip


def _settle(bill: Bill, calls: int) -> None:
    """A server that was given up on may still be about to read its last request."""
    deadline = time.monotonic() + 5
    while len(bill.requests) < calls and time.monotonic() < deadline:
        time.sleep(0.01)


def bench_session() -> EvaluationSession:
    return EvaluationSession(parse_device("sim:l4"), arch="sm_89")
