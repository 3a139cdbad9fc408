"""A competent model takes attention from its scalar rung to tensor cores: a rewrite, then single changes of it.

The model is a server that answers from `data/competent_model/attention`, by what the prompt asks for and shows; and an
agent that has the same ideas and sends them to `evo mcp` by the SDK's client.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from competent_model import EDITS, MOST_REPLIES, competent, iterate, repository
from llm_server import LlmServer
from mcp import Client, StdioServerParameters
from tiny import environment, evo, git

from evo.records.trials import Record, load_records

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def modelled(record: Record) -> dict[str, float]:
    return {row.name: row.modelled_us for row in record.bench if row.modelled_us is not None}


@pytest.fixture(scope="module")
def by_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository after a run with the model, which is checked here."""
    tmp_path = tmp_path_factory.mktemp("model")
    root = repository(tmp_path / "mine")
    with LlmServer(competent) as server:
        lines = iterate(
            root, "sim:l4", "--llm-url", server.url, "--llm-model", "competent", "--llm-calls", MOST_REPLIES
        )
        assert len(server.requests) <= MOST_REPLIES
    records = load_records(root, "attention", settled=True)
    assert git(root, "status", "--porcelain") == ""
    # The clock decides which single changes are kept: a wider block gains on large grids and loses at b2.
    assert [(record.kind, record.kept) for record in records[:2]] == [("start", True), ("rewrite", True)]
    assert {record.kind for record in records[2:]} == {"mutation"}
    start, best = records[0], [record for record in records if record.kept][-1]
    rung = rung_times(root)
    assert all(best_us <= 1.05 * rung[name] for name, best_us in modelled(best).items())
    assert all(best_us < modelled(start)[name] / 3 for name, best_us in modelled(best).items())
    assert json.loads((root / "leaderboard.json").read_text())["entries"][0]["rewrites"] == 1

    other = repository(tmp_path / "other")
    (transcript,) = (root / "population" / "attention" / "transcripts").iterdir()
    again = iterate(other, "sim:l4", "--llm-replay", transcript)
    assert [line.get("variant") for line in again] == [line.get("variant") for line in lines]
    champion = champion_of(root)
    assert (other / champion.relative_to(root)).read_bytes() == champion.read_bytes()
    return root


def champion_of(root: Path) -> Path:
    (champion,) = (root / "kernels" / "attention" / "champions").rglob("*.cu")
    return champion


def test_a_rewrite_then_single_changes_reach_the_tensor_core_rung(by_model: Path) -> None:
    assert "mma.sync" in champion_of(by_model).read_text()


def test_an_agent_gets_as_far_over_mcp(by_model: Path, tmp_path: Path) -> None:
    root = repository(tmp_path / "mine")
    calls: list[str] = []

    async def ask(client: Client, name: str, **words: Any) -> dict[str, Any]:
        calls.append(name)
        result = await client.call_tool(name, {"task": "attention", **words})
        assert not result.is_error, result.content
        return dict(result.structured_content or {})

    async def judged(client: Client, **words: Any) -> dict[str, Any]:
        found = await ask(client, "try", commit=True, wait_s=600.0, reason="an expert's idea", **words)
        assert found["status"] == "correct", found["reason"]
        return found

    async def agent(client: Client) -> None:
        assert (await ask(client, "champion"))["file"] == "00_scalar.cu"
        text = (EDITS / "rewrite.cu").read_text()
        assert (await judged(client, text=text, rewrite=True, summary="tensor cores"))["committed"] is True
        for path in sorted(EDITS.glob("*.txt")):
            await judged(client, edits=path.read_text(), summary=path.stem)

    async def talk() -> None:
        arguments = ["-m", "evo", "mcp", "--device", "sim:l4", "--commit", "--rewrites", "1"]
        parameters = StdioServerParameters(command=sys.executable, args=arguments, cwd=str(root), env=environment())
        async with Client(parameters, read_timeout_seconds=1200) as client:
            await agent(client)

    asyncio.run(talk())
    assert len(calls) <= MOST_REPLIES
    assert git(root, "status", "--porcelain") == ""
    records = load_records(root, "attention", settled=True)
    assert [record.kind for record in records] == ["start", "rewrite"] + ["mutation"] * (len(records) - 2)
    assert {record.operator for record in records[1:]} == {"patch"}
    rung = rung_times(root)
    best = [record for record in records if record.kept][-1]
    assert all(best_us <= 1.05 * rung[name] for name, best_us in modelled(best).items())
    assert champion_of(root).read_bytes() == champion_of(by_model).read_bytes()


def rung_times(root: Path) -> dict[str, float]:
    """The modelled times of the shipped tensor-core rung."""
    ran = evo("bench", "ladder/40_mma.cu", "--task", "attention", "--device", "sim:l4", "--json", cwd=root)
    return {row["name"]: row["modelled_us"] for row in json.loads(ran.out)["cases"]}
