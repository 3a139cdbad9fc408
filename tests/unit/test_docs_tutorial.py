"""The quick part of the tutorial, run as a reader runs it. The whole is in tests/long/test_docs.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from console import Shell, agrees, commands

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"


def test_the_quick_part_of_the_tutorial_prints_what_it_shows(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    quick = [command for command in commands(PAGE) if command.group == "quick"]
    assert len(quick) >= 8
    for command in quick:
        printed = shell.run(command.text)
        assert agrees(command.shown, printed), f"tutorial.md:{command.line}: $ {command.text}\n{printed}"


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a b\nc", "a   b\nc", True),
        ("a ... c", "a b\nb c", True),
        ("a\n...\nc", "a\nc", True),
        ("id ...  x", "id 7  x", True),
        ("a ... c", "a b", False),
        ("", "a", False),
        ("8.40", "8x40", False),
    ],
)
def test_how_output_is_compared(shown: str, printed: str, same: bool) -> None:
    assert agrees(shown, printed) is same
