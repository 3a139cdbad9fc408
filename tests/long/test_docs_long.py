"""Documentation pages run from end to end, and their programs checked."""

from __future__ import annotations

from pathlib import Path

import pytest
from console import Shell, agrees, commands

pytestmark = pytest.mark.long

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", ["tutorial.md", "tour.md", "tasks.md"])
def test_a_page_prints_what_it_shows(page: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    if page != "tutorial.md":  # which begins with these
        shell.run(
            "git init --quiet . && evo init && git add kernels population leaderboard.json && git commit -qm tasks"
        )
    for command in commands(DOCS / page):
        printed = shell.run(command.text)
        assert agrees(command.shown, printed), f"{page}:{command.line}: $ {command.text}\n{printed}"
