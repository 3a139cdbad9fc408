"""What makes results comparable: the code of the rooms that make a result, whatever its comments and sentences say."""

from __future__ import annotations

from pathlib import Path

import pytest

from evo.evaluate.harness import RESULT_ROOMS, harness_hash

CODE = '''"""What it is."""

LIMIT = 3  # seconds


def check(x: int) -> int:
    """Twice x."""
    if x > LIMIT:
        raise ValueError(f"{x} is too large", "µs")
    return 2 * x
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EVO_CACHE", str(tmp_path / "cache"))
    for room in RESULT_ROOMS:
        path = tmp_path / "evo" / room
        if not room.endswith(".py"):
            path.mkdir(parents=True)
            path /= "code.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CODE)
    return tmp_path / "evo"


def hash_with(package: Path, before: str, after: str) -> str:
    path = package / "decide" / "code.py"
    assert before in CODE
    path.write_text(CODE.replace(before, after))
    return harness_hash(package)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Twice x.", "Two times x."),
        ("  # seconds", "  # how long it may take, in s"),
        ("  # seconds", ""),
        ("What it is.", "What it is for, and\nwhere it comes from."),
        ("{x} is too large", "{x} is beyond the limit"),
        ('"µs"', '"s"'),
        ("LIMIT = 3  # seconds\n", "# seconds\nLIMIT = 3\n"),
    ],
)
def test_sentences_may_change(package: Path, before: str, after: str) -> None:
    assert harness_hash(package) == hash_with(package, before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [("LIMIT = 3", "LIMIT = 4"), ("2 * x", "3 * x"), ("x > LIMIT", "x >= LIMIT"), ("ValueError", "TypeError")],
)
def test_code_may_not(package: Path, before: str, after: str) -> None:
    assert harness_hash(package) != hash_with(package, before, after)


def test_what_is_no_room_of_results_may_change(package: Path) -> None:
    found = harness_hash(package)
    (package / "cli").mkdir()
    (package / "cli" / "code.py").write_text(CODE)
    assert harness_hash(package) == found
