"""Budgets hold: whatever a server does, nothing costs more than was allowed but what one request may cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from llm_billing import Bill, converse, workbench
from llm_server import KEY
from tiny import new_repository

from evo.operators.llm import transcript_file
from evo.operators.llm.answers import counts_of
from evo.operators.llm.cost import Usage
from evo.operators.llm.endpoint import ChatRequest, Completion, Message
from evo.operators.llm.transcript import Transcript, spent
from evo.spec.task import load_task
from evo.spec.variant import read_variant


@pytest.mark.parametrize(
    "seeds", [range(25), pytest.param(range(25, 1000), marks=pytest.mark.long)], ids=["few", "many"]
)
def test_no_budget_is_exceeded_by_more_than_one_request(tmp_path: Path, seeds: range) -> None:
    root = new_repository(tmp_path / "mine")
    task = load_task(root, "scale")
    parent, bench = read_variant(task.ladder()[0]), workbench()
    asked = 0
    try:
        for seed in seeds:
            bill, budget, price, totals = converse(root, task, bench, parent, seed)
            asked += len(bill.tokens)
            assert_within(bill, budget, price)
            assert totals.calls == len(bill.tokens), seed
            assert totals.prompt_tokens + totals.completion_tokens >= bill.total - bill.overrun, (
                seed
            )  # the account is never too low
            account = spent(transcript_file(root, "scale", f"20260101T000000-{seed:06d}"))
            assert account.calls == totals.calls
            assert (account.prompt_tokens, account.completion_tokens) == (
                totals.prompt_tokens,
                totals.completion_tokens,
            )
    finally:
        bench.close()
    assert asked > 2 * len(seeds)
    assert not any(KEY.encode() in path.read_bytes() for path in root.rglob("*") if path.is_file())


def assert_within(bill: Bill, budget, price) -> None:  # type: ignore[no-untyped-def]
    largest = max(bill.tokens, key=sum, default=(0, 0))
    if budget.calls is not None:
        assert len(bill.tokens) <= budget.calls
    if budget.tokens is not None:
        assert bill.total - bill.overrun <= budget.tokens + sum(largest)
    if budget.money is not None:
        assert bill.money(price) - price.of(0, bill.overrun) <= budget.money + max(
            (price.of(*each) for each in bill.tokens), default=0.0
        )


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
