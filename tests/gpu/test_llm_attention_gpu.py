"""The competent model on a GPU: from the scalar rung past the first one with tensor cores, by measured times."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from competent_model import MOST_REPLIES, competent, iterate, repository
from llm_server import LlmServer
from tiny import evo

from evo.records.trials import load_records

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


def test_a_rewrite_then_single_changes_reach_the_tensor_core_rung_by_measured_times(tmp_path: Path) -> None:
    root = repository(tmp_path / "mine")
    with LlmServer(competent) as server:
        words = ("--llm-url", server.url, "--llm-model", "competent", "--llm-calls", MOST_REPLIES)
        iterate(root, "gpu:0", *words)
        assert len(server.requests) <= MOST_REPLIES
    kept = [record for record in load_records(root, "attention", settled=True) if record.kept]
    assert [record.kind for record in kept[:2]] == ["start", "rewrite"]
    assert any(record.kind == "mutation" for record in kept[2:])
    best = {row.name: row.time_us for row in kept[-1].bench}
    ran = evo("bench", "ladder/40_mma.cu", "--task", "attention", "--device", "gpu:0", "--json", cwd=root)
    rung = {row["name"]: row["warm"]["p50_us"] for row in json.loads(ran.out)["cases"]}
    sys.stdout.write(f"champion and 40_mma, microseconds: {best}, {rung}\n")
    assert all(best[name] <= 1.05 * us for name, us in rung.items())
