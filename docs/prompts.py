"""Write docs/prompts/: the first prompt of every strategy for five tasks, at a shipped kernel, on the simulated L4.

`python docs/prompts.py` writes them; a folder for each task, a file for each strategy. They are examples: records,
kernels and compilers change them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from evo.cli.prompt import prompt_text
from evo.device import parse_device
from evo.evaluate.session import EvaluationSession
from evo.operators.llm import STRATEGIES
from evo.spec.task import load_task
from evo.spec.variant import read_variant

DOCS = Path(__file__).parent
TASKS = ("attention", "softmax", "matmul", "layernorm", "conv2d")
HEAD = """\
# Prompts

The first question of a run, by task and strategy, as `evo prompt TASK --strategy NAME --device sim:l4` prints it at the
task's first rung. `python docs/prompts.py` writes these files; [llm.md](../llm.md) says what each strategy shows.

| task | | | | | | |
|---|---|---|---|---|---|---|
"""


def main(only: tuple[str, ...] = TASKS) -> None:
    rows = []
    with EvaluationSession(parse_device("sim:l4"), arch="sm_89") as bench:
        for name in TASKS:
            task = load_task(DOCS.parent, name)
            folder = DOCS / "prompts" / name
            folder.mkdir(parents=True, exist_ok=True)
            links = [f"[{strategy}]({name}/{strategy}.txt)" for strategy in STRATEGIES]
            rows.append(f"| {name} | {' | '.join(links)} |")
            for strategy in STRATEGIES.values() if name in only else ():
                rewrite = strategy.rewrites == "first"
                parent = read_variant(task.ladder()[0])
                text = prompt_text(DOCS.parent, task, bench, parent, strategy, rewrite=rewrite)
                (folder / f"{strategy.name}.txt").write_text(text + "\n", encoding="utf-8")
    (DOCS / "prompts" / "README.md").write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or TASKS)
