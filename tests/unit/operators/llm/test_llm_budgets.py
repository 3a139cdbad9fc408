"""Budgets hold: whatever a server does, no request is sent that does not fit, and what it tells is in the account."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from llm_billing import Conversation, bench_session, converse
from llm_server import KEY
from tiny import new_repository

from evo.operators.llm import Budget
from evo.operators.llm.cost import Usage
from evo.operators.llm.endpoint import BudgetSpent, ChatRequest, Completion, Message
from evo.operators.llm.server_answers import counts_of
from evo.operators.llm.spending_meter import Meter, Overrun
from evo.operators.llm.transcript import Transcript, spent
from evo.spec.task import load_task
from evo.spec.variant import read_variant

MANY = pytest.param(range(8, 1000), marks=[pytest.mark.long, pytest.mark.timeout(3000)])


@pytest.mark.parametrize("seeds", [range(8), MANY], ids=["few", "many"])
def test_no_budget_is_exceeded(tmp_path: Path, seeds: range) -> None:
    """A server that keeps to `max_tokens` is never owed more than the budget. One that does not is owed what it wrote
    past `max_tokens` in the last request, which was sent within the budget; and what it wrote so in requests that
    failed, of which it never told. Every other token is in the account before the next request is sent."""
    root = new_repository(tmp_path / "mine")
    task = load_task(root, "scale")
    parent, bench = read_variant(task.ladder()[0]), bench_session()
    asked = overran = 0
    try:
        for seed in seeds:
            held = converse(root, task, bench, parent, seed)
            asked += len(held.bill.requests)
            overran += any(each.overrun for each in held.bill.requests)
            account = spent(held.transcript)
            assert account.calls == held.totals.calls == len(held.bill.requests), seed
            assert account.prompt_tokens == held.totals.prompt_tokens
            assert account.completion_tokens == held.totals.completion_tokens
            if not held.overruns:
                assert_never_exceeded(held)
            else:
                assert_each_request_fits(held)
    finally:
        bench.close()
    assert asked > 2 * len(seeds)
    assert overran > len(seeds) // 20
    assert not any(KEY.encode() in path.read_bytes() for path in root.rglob("*") if path.is_file())


def assert_never_exceeded(held: Conversation) -> None:
    bill, limit = held.bill, held.limit
    assert held.totals.prompt_tokens + held.totals.completion_tokens >= bill.tokens
    if limit.calls is not None:
        assert len(bill.requests) <= limit.calls
    if limit.tokens is not None:
        assert bill.tokens <= limit.tokens
    if limit.money is not None:
        assert bill.money(held.price) <= limit.money


def assert_each_request_fits(held: Conversation) -> None:
    """Request by request, since they were sent one after the other."""
    limit, price = held.limit, held.price
    lines = held.transcript.read_text().splitlines() if held.transcript.exists() else []  # none: too little for one
    charged = [json.loads(line) for line in lines]
    left_tokens, left_money = limit.tokens, limit.money
    if limit.calls is not None:
        assert len(held.bill.requests) <= limit.calls
    for line, billed in zip(charged, held.bill.requests, strict=True):
        if left_tokens is not None:
            assert billed.prompt + billed.room <= left_tokens or not billed.tokens
            left_tokens -= sum(tokens_of(line))
        if left_money is not None:
            assert price.of(billed.prompt, billed.room) <= left_money + 1e-12 or not billed.tokens
            left_money -= price.of(*tokens_of(line))
        untold = billed.overrun if "reply" not in line else 0
        assert tokens_of(line)[0] >= billed.prompt
        assert tokens_of(line)[1] >= billed.written - untold


def tokens_of(line: dict[str, Any]) -> tuple[int, int]:
    return line["charged"]["prompt_tokens"], line["charged"]["completion_tokens"]


def test_a_server_that_bills_beyond_the_length_is_reserved_at_what_it_bills() -> None:
    booked: list[tuple[str, Usage]] = []

    def meter(overrun: Overrun) -> Meter:
        budget = Budget(tokens=5000)
        return Meter(budget, None, 1000, lambda request, number, what, usage: booked.append((what, usage)), overrun)

    asked = ChatRequest(exchange=1, attempt=1, messages=(Message("user", "u"),), max_tokens=1000, seed=1)
    overrun = Overrun()
    first = meter(overrun)
    first.answered(first.begin(asked), Completion(text="x " * 900, prompt_tokens=4, completion_tokens=3000))
    second = meter(overrun)
    sent = second.begin(asked)
    assert sent.max_tokens == 1000
    assert booked[-1] == ("reserved", Usage(calls=1, prompt_tokens=8, completion_tokens=3000, estimated=1))
    second.failed(sent, generated=True)
    assert second.usage.completion_tokens == 3000
    assert second.begin(asked).max_tokens == (5000 - 8 - 3008) // 3
    second.failed(sent, generated=True)
    with pytest.raises(BudgetSpent):
        second.begin(asked)


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, (10, 5)),
        ({"prompt_tokens": 2000, "completion_tokens": 60, "total_tokens": 12_060}, (2000, 10_060)),
        (
            {"prompt_tokens": 10, "completion_tokens": 500, "completion_tokens_details": {"reasoning_tokens": 400}},
            (10, 500),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 50, "completion_tokens_details": {"reasoning_tokens": 400}},
            (10, 450),
        ),
        ({"input_tokens": 7, "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 4}}, (7, 9)),
        ({"prompt_tokens": -1, "completion_tokens": True}, (None, None)),
    ],
)
def test_reasoning_counts_however_it_is_told(usage: dict[str, object], counts: tuple[int | None, int | None]) -> None:
    assert counts_of(usage) == counts


def test_a_request_in_flight_when_the_run_dies_counts_at_its_maximum(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    request = ChatRequest(exchange=1, attempt=1, messages=(Message("user", "u"),), max_tokens=100, seed=1)
    largest = Usage(calls=1, prompt_tokens=10, completion_tokens=100, estimated=1)
    real = Usage(calls=1, prompt_tokens=8, completion_tokens=3)
    killed = Transcript(path)
    killed.carry(Usage(calls=4, prompt_tokens=40, completion_tokens=4))
    killed.account(request, 1, "reserved", largest)
    killed.account(request, 1, "charged", Usage(calls=1))
    killed.account(request, 2, "reserved", largest)
    killed.add(request, Completion(text="a"), number=2, charged=real, model="m", strategy="free", parent="p")
    killed.account(request, 3, "reserved", largest)
    assert spent(path) == Usage(calls=7, prompt_tokens=58, completion_tokens=107, estimated=1)
    path.write_bytes(path.read_bytes() + b'{"version": 1, "exch')  # torn
    assert spent(path).calls == 7
    killed.close()
    assert spent(path).calls == 7
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line.get("request") for line in lines] == [None, 1, 2, 3]
    assert spent(tmp_path / "none.jsonl") == Usage()
