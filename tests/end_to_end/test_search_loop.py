"""The loop's search from outside: refused patches with their parts, controls, patience, and going on with --resume."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import FAST, evo, new_repository

RUN = ("iterate", "scale", "--device", "sim:l4", "--operators", "rules", "--json")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_repository(tmp_path_factory.mktemp("search") / "repository")


def test_a_patch_of_two_changes_is_refused_with_its_parts(root: Path) -> None:
    patch = root / "two.cu"
    patch.write_text(FAST.replace("define THREADS 128", "define THREADS 64").replace("2.0f * x[i]", "x[i] + x[i]"))
    begun = ("--from", "ladder/10_fast.cu", "--patch", patch.name)
    ran = evo(*RUN[:4], "--operators", "patch", "--json", "--iterations", "1", *begun, cwd=root)
    assert ran.code == 0, ran.err
    start, refused, done = ran.lines
    assert (start["status"], refused["status"], done["kept"]) == ("correct", "refused", 0)
    assert refused["reason"].startswith("not one change: holds 2 changes: (1) line 5: 128 -> 64; (2) line 9 in scale:")
    assert "decision" not in refused
    patch.unlink()


def test_patience_ends_a_control_and_resume_counts_on(root: Path) -> None:
    first = evo(*RUN, "--iterations", "3", "--search", "random", "--patience", "2", "--seed", "5", cwd=root)
    assert first.code == 0, first.err
    *trials, done = first.lines
    assert done["search"] == "random"
    assert len(trials) == 2 or any(line["decision"] == "keep" for line in trials)
    assert set(done["skipped"]) == {"known_code", "known_losers"}
    more = evo(*RUN, "--iterations", str(done["trials"]), "--resume", cwd=root)
    assert more.code == 0, more.err
    assert [line for line in more.lines if "trial" in line] == []
    assert more.lines[-1]["trials"] == done["trials"]


def test_questions_without_sense_are_refused(root: Path) -> None:
    for wrong in (("--search", "best"), ("--target", "120%"), ("--resume", "--from", "ladder/00_slow.cu")):
        ran = evo(*RUN, *wrong, cwd=root)
        assert ran.code == 2
        assert ran.err.startswith("error: ")
