"""`evo doctor --llm`: one tiny request, and what evo understood."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from llm_server import KEY, Act, LlmServer
from tiny import evo


@pytest.mark.long
def test_the_endpoint_is_tried_once_for_each_model(tmp_path: Path) -> None:
    pages = {"/v1/models": {"data": [{"id": "@cf/meta/llama", "max_model_len": 8192}]}}
    with LlmServer(lambda body, number: Act(text="ready", usage=(20, 2)), pages) as server:
        words = ("doctor", "--llm", "--llm-url", server.url, "--llm-price", "1/2")
        both = ("--llm-model", "@cf/meta/llama", "--llm-model", "other@high")
        ran = evo(*words, *both, "--json", cwd=tmp_path, env={"EVO_LLM_KEY": KEY})
        assert ran.code == 0, ran.err
        assert len(server.requests) == 2
        shown = evo(*words, *both, cwd=tmp_path, env={"EVO_LLM_KEY": KEY})
    first, second = json.loads(ran.out)["endpoints"]
    assert (first["model"], first["context_tokens"], first["temperature_accepted"]) == ("@cf/meta/llama", 8192, True)
    assert (second["model"], second["effort_accepted"]) == ("other", True)
    assert first["usage"] == {"calls": 1, "prompt_tokens": 20, "completion_tokens": 2, "cost": 0.000024}
    assert "num_ctx" in shown.out
    assert KEY not in ran.out + ran.err + shown.out


def test_a_wrong_key_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with LlmServer(lambda body, number: Act(status=401, error={"message": "no"})) as server:
        words = ("doctor", "--llm", "--llm-url", server.url, "--llm-model", "m")
        ran = evo(*words, cwd=tmp_path, env={"EVO_LLM_KEY": KEY})
    assert ran.code == 2
    assert "EVO_LLM_KEY" in ran.err
