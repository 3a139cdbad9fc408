"""A competent model for attention: answers from `data/competent_model/attention`, by what a prompt asks and shows."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from llm_server import KEY, Act, kernel_of, prompt_of
from tiny import environment, git

ROOT = Path(__file__).parents[2]
EDITS = ROOT / "tests" / "data" / "competent_model" / "attention"
MOST_REPLIES = 12


def repository(root: Path) -> Path:
    """A repository with the task attention and no champion."""
    shutil.copytree(
        ROOT / "kernels" / "attention", root / "kernels" / "attention", ignore=shutil.ignore_patterns("champions")
    )
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "attention")
    return root


def competent(body: dict[str, Any], number: int) -> Act:
    """What a model would answer that knows the chip: the whole kernel if asked for it, else the next edit that fits."""
    del number
    if "new file in one fence" in prompt_of(body):
        text = (EDITS / "rewrite.cu").read_text()
        return Act(text=f"SUMMARY: both products on tensor cores\nREASON: scalar loads bind\n```cuda\n{text}```\n")
    kernel = kernel_of(body)
    for path in sorted(EDITS.glob("*.txt")):
        reply = path.read_text()
        search = reply.split("SEARCH\n")[1].split("\n=======")[0]
        if search in kernel and reply.splitlines()[0].removeprefix("SUMMARY: ") not in prompt_of(body):
            return Act(text=reply)
    return Act(text="I have no further idea.")


def iterate(root: Path, device: str, *words: object) -> list[dict[str, Any]]:
    """The lines of a run of four trials from the scalar rung, with the model alone."""
    command = [sys.executable, "-m", "evo", "iterate", "attention", "--device", device, "--operators", "llm"]
    command += ["--strategy", "rewrite", "--iterations", "4", "--from", "ladder/00_scalar.cu", "--seed", "1", "--json"]
    done = subprocess.run(
        [*command, *map(str, words)], cwd=root, capture_output=True, text=True, check=False, timeout=1800,
        env=environment({"EVO_LLM_KEY": KEY}),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
