"""What a run spends on a language model, and whom it asks: nothing without hope, then by what it brings."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from llm_runs import new_repository
from llm_server import KEY, Act, LlmServer, block, kernel_of, prompt_of
from run_killer import CHAMPION
from tiny import SLOW, Ran, evo

from evo.records.trials import load_records

LAUNCH = "// evo: launch scale grid (ceil_div(N, THREADS * 16)) block (THREADS) shared 0"
THREADS = "#define THREADS 128"
BODY = "\n".join(SLOW.splitlines()[7:9])
ONE = "    const int i = blockIdx.x * THREADS + threadIdx.x;\n    if (i < n) y[i] = 2.0f * x[i];"
SHARED = """\
    __shared__ float held[THREADS];
    held[threadIdx.x] = i < n ? x[i] : 0.0f;
    if (i < n) y[i] = 2.0f * held[threadIdx.x];"""
ADD = block("2.0f * x[i]", "x[i] + x[i]", summary="add")


def coalesced() -> str:
    return block(LAUNCH, LAUNCH.replace(" * 16", ""), summary="one element a thread") + block(BODY, ONE)


def iterate(root: Path, server: LlmServer, *words: object, iterations: int = 2) -> Ran:
    common = ("--device", "sim:l4", "--operators", "llm", "--iterations", iterations, "--json", "--llm-retries", 0)
    where = ("--llm-url", server.url, "--llm-model", "test")
    return evo("iterate", "scale", *common, *where, *words, cwd=root, env={"EVO_LLM_KEY": KEY})


@pytest.mark.long
def test_nothing_is_spent_where_no_case_can_pay_the_margin(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")
    with LlmServer(lambda body, number: Act(text=ADD)) as server:
        ran = iterate(root, server, "--margin", "80%")
        assert ran.code == 0, ran.err
        assert server.requests == []
    assert ran.lines[-1]["llm"]["calls"] == 0
    assert [record.kind for record in load_records(root, "scale")] == ["start"]


# --- several samples, several models, other parents, summaries


def aim_of(body: dict[str, Any]) -> str:
    found = re.search(r"Yours is ([a-z ]+): ", prompt_of(body))
    return found[1] if found else ""


def thoughtful(body: dict[str, Any], number: int) -> Act:
    """Another change for each aim; the change for memory is the good one, and two aims give the same machine code."""
    del number
    kernel, aim = kernel_of(body), aim_of(body)
    if LAUNCH in kernel and aim in ("memory", ""):
        return Act(text=coalesced(), usage=(1000, 100))
    line = next(line for line in kernel.splitlines() if "2.0f * x[i]" in line)
    ideas = {
        "latency": block(line, line.replace("2.0f * x[i]", "x[i] + x[i]"), summary="add"),
        "occupancy": block(THREADS, "#define THREADS 64", summary="64 threads"),
        "instructions": block(line, line.replace("2.0f * x[i]", "(x[i] + x[i])"), summary="add again"),
    }
    return Act(text=ideas.get(aim, "I have no further idea."), usage=(1000, 100))


@pytest.mark.long
def test_samples_differ_by_aim_and_are_screened_before_one_is_tried(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")
    with LlmServer(thoughtful) as server:
        words = ("--llm-samples", 4, "--margin", "5%", "--llm-repairs", 0)
        ran = iterate(root, server, "--llm-api", "responses", *words, iterations=1)
        assert ran.code == 0, ran.err
        assert set(server.paths) == {"/v1/responses"}
        assert sorted(map(aim_of, server.requests)) == ["instructions", "latency", "memory", "occupancy"]
        shared = {prompt_of(body).partition("Others are asked")[0] for body in server.requests}
        assert len(shared) == 1  # the same question
    estimates = next(line for line in ran.err.splitlines() if "estimated gains" in line)
    others = [estimates.index(aim) for aim in ("latency", "instructions", "occupancy") if aim in estimates]
    assert estimates.index("memory") < min(others)
    assert "of 4 samples" not in estimates  # the two with the same machine code count once
    records = load_records(root, "scale")
    assert [(r.kind, r.kept, r.arguments.get("aim")) for r in records] == [
        ("start", True, None),
        ("mutation", True, "memory"),
    ]
    other = new_repository(tmp_path / "other")
    (transcript,) = (root / "population/scale/transcripts").iterdir()
    again = evo(
        "iterate", "scale", "--device", "sim:l4", "--operators", "llm", "--iterations", 1, "--json",
        "--llm-replay", transcript, *words, cwd=other,
    )  # fmt: skip
    assert again.code == 0, again.err
    assert "differed" not in again.err
    assert (other / CHAMPION).read_bytes() == (root / CHAMPION).read_bytes()


@pytest.mark.long
def test_the_model_that_brings_more_for_its_cost_is_asked_more(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")

    def script(body: dict[str, Any], number: int) -> Act:
        if body["model"] == "idle":
            return Act(text="I have no idea.", usage=(1000, 100))
        assert body["reasoning_effort"] == "low"
        return Act(text=coalesced() if LAUNCH in kernel_of(body) else f"none {number}", usage=(1000, 100))

    with LlmServer(script) as server:
        words = ("--llm-model", "idle", "--llm-model", "able@low", "--llm-price", "1/1", "--llm-repairs", 0)
        ran = evo(
            "iterate", "scale", "--device", "sim:l4", "--operators", "llm", "--iterations", 2, "--json",
            "--llm-url", server.url, "--margin", "1%", *words, cwd=root, env={"EVO_LLM_KEY": KEY},
        )  # fmt: skip
    assert ran.code == 0, ran.err
    used = {row["model"]: row for row in ran.lines[-1]["llm"]["models"]}
    assert (used["idle"]["kept"], used["able@low"]["kept"]) == (0, 1)
    assert used["able@low"]["exchanges"] > used["idle"]["exchanges"] > 0
    assert used["idle"]["cost"] == pytest.approx(used["idle"]["calls"] * 1100 / 1e6)
    assert sum(row["calls"] for row in used.values()) == ran.lines[-1]["llm"]["calls"] == len(server.requests)
    assert load_records(root, "scale")[1].arguments["model"] == "able@low"


@pytest.mark.long
def test_a_run_that_keeps_nothing_goes_on_from_another_parent_and_sums_up(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")
    made = evo("iterate", "scale", "--device", "sim:l4", "--operators", "ladder", "--iterations", 1, "--json", cwd=root)
    assert made.lines[1]["decision"] == "keep"

    def script(body: dict[str, Any], number: int) -> Act:
        line = next(line for line in kernel_of(body).splitlines() if "2.0f * " in line)
        if number == 1:  # correct, of another niche, and no faster
            return Act(text=block(line, SHARED))
        return Act(text=block(line, line.replace("2.0f * ", f"{number}e-12f + 2.0f * ")))

    with LlmServer(script) as server:
        words = ("--llm-parents", "elites", "--llm-summary", "3", "--margin", "1%")
        ran = iterate(root, server, *words, iterations=5)
        assert ran.code == 0, ran.err
    parents = [record.parent for record in load_records(root, "scale") if record.operator == "llm"]
    assert len(set(parents[:3])) == 1
    assert len(set(parents)) == 2
    last = prompt_of(server.requests[-1])
    assert "3 trials, 0 kept" in last
    assert "is not the champion" in last
    assert "3 trials, 0 kept" not in prompt_of(server.requests[0])


@pytest.mark.long
def test_a_seed_and_a_transcript_give_the_same_run(tmp_path: Path) -> None:
    """Samples, models, other parents and summaries together, with several questions in flight."""

    def script(body: dict[str, Any], number: int) -> Act:
        time.sleep(0.1 * (number % 3))  # in no order
        kernel, aim, seed = kernel_of(body), aim_of(body), body["seed"]
        if LAUNCH in kernel and aim == "memory":
            return Act(text=coalesced(), usage=(1000, 100))
        line = next(line for line in kernel.splitlines() if "x[i]" in line and "=" in line)
        if body["model"] == "b" or aim == "latency":
            return Act(text=block(line, line.replace("x[i]", f"(x[i] + {seed % 97 + 1}e-12f)")), usage=(1000, 300))
        return Act(text=block(THREADS, f"#define THREADS {(64, 32)[seed % 2]}"), usage=(900, 100))

    words = ("--llm-samples", 3, "--llm-parallel", 2, "--llm-summary", 2, "--llm-parents", "elites", "--margin", "1%")
    both = ("--llm-model", "a", "--llm-model", "b@low", "--seed", 5)
    common = ("iterate", "scale", "--device", "sim:l4", "--operators", "llm", "--iterations", 6, "--json", *words)
    roots = [new_repository(tmp_path / name) for name in ("first", "second", "replayed")]
    with LlmServer(script) as server:
        for root in roots[:2]:
            ran = evo(*common, *both, "--llm-url", server.url, cwd=root, env={"EVO_LLM_KEY": KEY})
            assert ran.code == 0, ran.err
    first, second = [next((root / "population/scale/transcripts").iterdir()) for root in roots[:2]]
    assert first.read_bytes() == second.read_bytes()
    again = evo(*common, "--seed", 5, "--llm-replay", first, cwd=roots[2])
    assert again.code == 0, again.err
    assert "differed" not in again.err
    told = [[(r.variant, r.parent, r.kept, r.arguments.get("model"), r.arguments.get("aim"))
             for r in load_records(root, "scale")] for root in roots]  # fmt: skip
    assert told[0] == told[1] == told[2]
    assert len(told[0]) == 7
    assert len({(root / CHAMPION).read_bytes() for root in roots}) == 1
