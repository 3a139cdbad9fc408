"""`evo tune` from outside: replay, ask-tell, a kernel file's knobs on the simulator."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tiny import Ran, environment, evo, fails, new_repository

from evo.search.knobs.t1_t4_files import read_results

SHIPPED = Path(__file__).parents[1] / "benchmarks" / "spaces" / "convolution_A4000_T4.json.gz"


def talk(*lines: object, words: tuple[str, ...] = ()) -> Ran:
    """One conversation whose lines are known beforehand."""
    given = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    done = subprocess.run(
        [sys.executable, "-m", "evo", "tune", "--ask-tell", *words],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=60,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def init(**more: Any) -> dict[str, Any]:
    knobs = [{"name": "n", "values": [1, 2.5, "three", True]}, {"name": "m", "values": [16, 32]}]
    return {"op": "init", "knobs": knobs, "budget": 3, "seed": 1, **more}


def test_replay_of_a_space_reports_evaluations_curve_and_loss(tmp_path: Path) -> None:
    words = ["tune", "--space", SHIPPED, "--strategy", "random", "--runs", 3, "--budget", 40]
    found = evo(*words, "--json", cwd=tmp_path).json
    assert (found["legal"], found["failed"], found["budget"], found["seeds"]) == (4362, 161, 40, [0, 1, 2])
    assert len(found["curve"]) == 40
    assert found["loss"] == pytest.approx(1 - sum(found["curve"]) / 40)
    assert found["loss_interval"][0] <= found["loss"] <= found["loss_interval"][1]
    assert len(found["within_5_percent"]) == 3


def test_ask_and_tell_as_the_protocol_says(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "evo", "tune", "--ask-tell"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={name: value for name, value in environment().items() if not name.endswith("_NUM_THREADS")},
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def say(message: dict[str, Any]) -> None:
        process.stdin.write(json.dumps(message) + "\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]

    legal = [[1, 16], [2.5, 16], ["three", 32], [True, 32], [True, 16]]
    say(init(legal=legal, budget=3))
    tasks = Path(f"/proc/{process.pid}/task")
    answers = [("ok", 3.5), ("failed", None), ("outside", None), ("ok", 2.0)]
    left, asked = 3, []
    for status, value in answers:
        asked.append(json.loads(process.stdout.readline())["ask"])
        if tasks.is_dir():  # Linux; many searches side by side would wait for each other's threads
            assert len(list(tasks.iterdir())) == 1
        left -= status != "outside"
        say({"tell": value, "status": status, "left": left})
    assert json.loads(process.stdout.readline()) == {"done": True}
    assert process.wait(timeout=20) == 0
    texts = [json.dumps(point) for point in asked]
    assert len(set(texts)) == 4
    assert set(texts) <= {json.dumps(point) for point in legal}


def test_an_init_without_budget_and_seed_takes_those_of_the_command_line() -> None:
    bare = {"op": "init", "knobs": init()["knobs"]}
    answers = [{"tell": 1.0}] * 3
    by_option = talk(bare, *answers, words=("--budget", "2", "--seed", "7"))
    assert by_option.out == talk(init(budget=2, seed=7), *answers, words=("--budget", "1")).out
    assert [list(json.loads(line)) for line in by_option.out.splitlines()] == [["ask"], ["ask"], ["done"]]


def test_a_conversation_may_end_at_any_line_and_a_malformed_one_ends_it() -> None:
    ended = talk(init())
    assert (ended.code, ended.err) == (0, "")
    assert len(ended.lines) == 1
    malformed = talk(init(), "{")
    assert malformed.code == 3
    assert malformed.err.startswith("error: <stdin>:2: not JSON")
    assert "\nhint: " in malformed.err


def test_a_kernel_file_is_swept_kept_and_replayed(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")
    file, kept = root / "kernels" / "scale" / "ladder" / "10_fast.cu", tmp_path / "scale_T4.json.gz"
    words = ["tune", file, "--device", "sim:l4", "--strategy", "all", "--out", kept]
    swept = evo(*words, "--json", cwd=root).json
    assert swept["timing"] == "modelled"
    assert [trial["configuration"]["THREADS"] for trial in swept["trials"]] == [32, 64, 128]
    best = min(swept["trials"], key=lambda trial: trial["measurements"][0]["value"])
    assert swept["best"]["time_us"] == best["measurements"][0]["value"]
    assert read_results(kept).optimum == swept["best"]["time_us"]
    file.write_text(file.read_text().replace("2.0f * x[i]", "x[i] + x[i]"))
    fails(evo(*words, cwd=root), 2, "another", "--out")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["tune"], 2, ["--space", "--ask-tell"]),
        (["tune", "--space", "mine/broken.cu"], 3, ["broken.cu", "results"]),
        (["tune", "--space", "x", "--strategy", "best"], 2, ["best", "random"]),
    ],
)
def test_what_cannot_be_tuned(tmp_path: Path, words: list[str], code: int, said: list[str]) -> None:
    new_repository(tmp_path / "mine")
    fails(evo(*words, cwd=tmp_path), code, *said)
