"""Write docs/prompts/: a prompt of every strategy for five tasks, on the simulated L4.

`python docs/prompts.py` writes them; a folder for each task, a file for each strategy. Four tasks show the first
question of a run at the first rung. `AFTER_A_RUN` shows what is asked after some trials: insights, failures, other
variants. They are examples: records, kernels and compilers change them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from evo.cli.prompt import prompt_text
from evo.device import parse_device
from evo.evaluate.session import EvaluationSession
from evo.operators.llm import STRATEGIES
from evo.search.loop import Settings, evolve
from evo.search.single_trial import champion_of
from evo.spec.task import load_task
from evo.spec.variant import read_variant

DOCS = Path(__file__).parent
TASKS = ("attention", "softmax", "matmul", "layernorm", "conv2d")
AFTER_A_RUN = "softmax"
TRIALS = 4
DEVICE = parse_device("sim:l4")
HEAD = """\
# Prompts

A question by task and strategy, as `evo prompt TASK --strategy NAME --device sim:l4` prints it. Four tasks show the
first one of a run, at the task's first rung. Softmax shows one after four trials of `--operators ladder,rules`, with
insights, a failure and other variants. `python docs/prompts.py` writes these files; [llm.md](../llm.md) says what each
strategy shows.

| task | | | | | | |
|---|---|---|---|---|---|---|
"""


def main(only: tuple[str, ...] = TASKS) -> None:
    rows = []
    with EvaluationSession(DEVICE, arch="sm_89") as bench, tempfile.TemporaryDirectory() as folder_of_run:
        for name in TASKS:
            root = DOCS.parent
            if name == AFTER_A_RUN and name in only:
                root = after_a_run(Path(folder_of_run), name)
            task = load_task(root, name)
            folder = DOCS / "prompts" / name
            folder.mkdir(parents=True, exist_ok=True)
            links = [f"[{strategy}]({name}/{strategy}.txt)" for strategy in STRATEGIES]
            rows.append(f"| {name} | {' | '.join(links)} |")
            for strategy in STRATEGIES.values() if name in only else ():
                rewrite = strategy.rewrites == "first"
                parent = (champion_of(task, bench) if name == AFTER_A_RUN else None) or read_variant(task.ladder()[0])
                text = prompt_text(root, task, bench, parent, strategy, rewrite=rewrite)
                (folder / f"{strategy.name}.txt").write_text(text + "\n", encoding="utf-8")
    (DOCS / "prompts" / "README.md").write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")


def after_a_run(root: Path, name: str) -> Path:
    """A repository with one task and a short run of it."""
    source = DOCS.parent / "kernels" / name
    shutil.copytree(source, root / "kernels" / name, ignore=shutil.ignore_patterns("champions"))
    identity = ("-c", "user.name=evo", "-c", "user.email=evo@example.com")
    for words in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", name)):
        subprocess.run(["git", *identity, *words], cwd=root, check=True)
    for key, value in (("user.name", "evo"), ("user.email", "evo@example.com")):
        subprocess.run(["git", "config", key, value], cwd=root, check=True)
    settings = Settings(task=name, device=DEVICE, operators=("ladder", "rules"), iterations=TRIALS, seed=1)
    evolve(settings, root, lambda _: None)
    return root


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or TASKS)
