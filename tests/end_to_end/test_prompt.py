"""`evo prompt` and `evo try --edits`: a chat window as the model, and prompts that do not mislead."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from llm_server import block
from tiny import FAST, SLOW, evo, evo_here, evolved, fails, git

from evo.analysis.roofline import limits
from evo.operators.llm import STRATEGIES
from evo.operators.llm.case_table import case_table, least_us, possible_gain
from evo.operators.llm.prompt_context import insights, past_solutions
from evo.records.trials import load_records
from evo.records.trials.elites import Elite
from evo.spec.chips import chip
from evo.spec.task import load_task
from evo.spec.variant import parse_variant

DOCS = Path(__file__).parents[2] / "docs"
SIM = ("--device", "sim:l4")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a champion after a kept rung, and a reverted trial."""
    root = Path(shutil.copytree(evolved()[0], tmp_path_factory.mktemp("prompt") / "repository"))
    slower = FAST.replace("y[i] = 2.0f * x[i];", "y[i] = 2.0f * x[i];\n    __syncthreads();")
    (root / "slower.cu").write_text(slower)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "more")
    words = ("--iterations", "1", "--operators", "patch", "--patch", "slower.cu")
    assert evo("iterate", "scale", *SIM, *words, cwd=root).code == 0
    return root


@pytest.mark.long
def test_an_answer_of_a_chat_is_judged_like_a_file(root: Path) -> None:
    shown = evo_here("prompt", "scale", *SIM, cwd=root)
    assert shown.code == 0
    kernel = re.search(r"\[\[BEGIN kernel (\w+)\]\]\n(.*?)\n\[\[END kernel \1\]\]", shown.out, re.DOTALL)
    assert kernel is not None
    assert "one thread" in kernel[2].lower() or "launch scale" in kernel[2]
    (root / "answer.txt").write_text("Sure.\n" + block("2.0f * x[i]", "x[i] + x[i]"))
    tried = evo_here("try", "--edits", "answer.txt", "--task", "scale", *SIM, "--json", cwd=root)
    assert json.loads(tried.out)["status"] == "correct"
    (root / "answer.txt").write_text(block("nowhere at all", "x"))
    wrong = evo_here("try", "--edits", "answer.txt", "--task", "scale", *SIM, cwd=root)
    fails(wrong, 2, "nowhere at all")
    assert evo_here("try", cwd=root).code == 2
    assert evo_here("prompt", "scale", "--strategy", "none", cwd=root).code == 2
    (root / "answer.txt").unlink()
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.long
def test_every_strategy_shows_its_own_parts(root: Path) -> None:
    texts = {name: evo_here("prompt", "scale", "--strategy", name, *SIM, cwd=root).out for name in STRATEGIES}
    for name, text in texts.items():
        assert ("BEGIN times" in text) == STRATEGIES[name].insights, name
        assert ("BEGIN limits" in text) == (STRATEGIES[name].inverts == "always"), name
        assert "work: " not in text  # what plans tiles is no business of a model
        assert "never measured" in text or name == "free"
    asked = evo_here("prompt", "scale", "--strategy", "rewrite", "--rewrite", *SIM, cwd=root).out
    assert "one fence" in asked
    assert "one fence" not in texts["rewrite"]


def test_the_times_are_those_that_decide(root: Path) -> None:
    task = load_task(root, "scale")
    records = load_records(root, "scale")
    champion = [record for record in records if record.kept][-1]
    l4 = chip("l4")
    lines = case_table(task, champion.evaluation, l4, 0.5)
    (row,) = champion.bench
    assert row.limiter is not None
    assert f"limited by {row.limiter}" in lines[1]
    least = least_us(task, task.case("small"), row, l4)
    assert least is not None
    assert row.launch_us is not None
    assert row.launch_us < least <= row.time_us
    assert possible_gain(task, champion.evaluation, l4) == pytest.approx(row.time_us / least)
    assert "2.00x" in lines[-2]
    assert len(case_table(task, champion.evaluation, l4, 0.001)) == len(lines) - 1  # a little can be gained
    assert case_table(task, None, l4, 0.1) == []


def test_insights_show_no_reverted_change_as_a_gain_and_no_knob_that_is_gone(root: Path) -> None:
    records = load_records(root, "scale")
    assert [record.operator for record in records if record.kept and record.proposed] == ["ladder"]
    assert not records[-1].kept
    text = "\n".join(insights(records, "scale", ("sim-l4", "sm_89"), parse_variant(FAST)))
    helped = [line for line in text.splitlines() if line.startswith("+ ")]
    assert len(helped) == 1
    assert "hand-written" in helped[0]
    assert "not kept: slower.cu" in text
    assert "because:" in text


def test_elites_are_shown_whole_or_not_at_all() -> None:
    def elite(text: str, us: float) -> Elite:
        return Elite(variant="v", text=text, summary="s", time_us=us, timing="modelled")

    assert SLOW.strip() in "\n".join(past_solutions([elite(SLOW, 12.0)], 10.0))
    assert past_solutions([elite(SLOW, 40.0)], 10.0) == []  # far slower
    assert past_solutions([elite(SLOW + "// long\n" * 4000, 9.0)], 10.0) == []


def test_the_shown_prompts_are_whole() -> None:
    for task in ("attention", "softmax", "matmul", "layernorm", "conv2d"):
        for strategy in STRATEGIES:
            text = (DOCS / "prompts" / task / f"{strategy}.txt").read_text(encoding="utf-8")
            begun, ended = (re.findall(rf"\[\[{mark} (.*?)\]\]", text) for mark in ("BEGIN", "END"))
            assert begun == ended
            assert "kernel" in {name.split()[0] for name in begun}
            assert ("times" in {name.split()[0] for name in begun}) == STRATEGIES[strategy].insights
            cases = load_task(DOCS.parent, task).bench
            assert all(f"\n{case.name} (" in text for case in cases) == STRATEGIES[strategy].insights


def test_a_measured_time_names_what_binds_its_floor_and_no_term_of_a_model() -> None:
    root = DOCS.parent
    task = load_task(root, "attention")
    kept = [record for record in load_records(root, "attention") if record.kept and record.timing == "measured"][-1]
    rows = {row.name for row in kept.bench}
    lines = case_table(task, kept.evaluation, chip("h200"), 0.03)
    assert lines[0] == "Times are measured."
    for case in task.bench:
        if case.name in rows:
            (line,) = [line for line in lines if line.startswith(f"{case.name} (")]
            assert limits(task, case, chip("h200")).limiter in line
            assert "terms" not in line
    assert not any("A term that" in line for line in lines)
