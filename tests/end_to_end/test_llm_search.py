"""What a run spends on a language model, and whom it asks: nothing without hope, then by what it brings."""

from __future__ import annotations

from pathlib import Path

from llm_server import KEY, Act, LlmServer, block
from tiny import Ran, evo, new_repository

from evo.records.trials import load_records

ADD = block("2.0f * x[i]", "x[i] + x[i]", summary="add")


def iterate(root: Path, server: LlmServer, *words: object, iterations: int = 2) -> Ran:
    common = ("--device", "sim:l4", "--operators", "llm", "--iterations", iterations, "--json", "--llm-retries", 0)
    where = ("--llm-url", server.url, "--llm-model", "test")
    return evo("iterate", "scale", *common, *where, *words, cwd=root, env={"EVO_LLM_KEY": KEY})


def test_nothing_is_spent_where_no_case_can_pay_the_margin(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")
    with LlmServer(lambda body, number: Act(text=ADD)) as server:
        ran = iterate(root, server, "--margin", "80%")
        assert ran.code == 0, ran.err
        assert server.requests == []
    assert "no case can pay the margin" in ran.err
    assert ran.lines[-1]["llm"]["calls"] == 0
    assert [record.kind for record in load_records(root, "scale")] == ["start"]
