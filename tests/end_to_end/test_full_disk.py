"""A disk that is full, met at any size: the right exit code, nothing half written, and the next run goes on."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from run_killer import problems
from tiny import FAST, environment, evo, git, new_repository

from evo.records.trials import load_records

ITERATE = ("iterate", "scale", "--device", "sim:l4", "--from", "ladder/00_slow.cu", "--operators", "ladder")

NO_BYTE_CODE = {"PYTHONDONTWRITEBYTECODE": "1"}  # Python cuts its own short too, and never notices


def limited(size: int) -> Callable[[], None]:
    """No file of this process and its children grows past `size` bytes: a write that would fails as on a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.long
@pytest.mark.parametrize("size", [900, 3_500, 6_000])
def test_a_full_disk_ends_the_run_and_the_next_goes_on(tmp_path: Path, size: int) -> None:
    assert evo(*ITERATE, cwd=new_repository(tmp_path / "whole")).code == 0  # and what it compiles is cached
    root = new_repository(tmp_path / "mine")
    done = subprocess.run(
        [sys.executable, "-m", "evo", *ITERATE],
        cwd=root,
        capture_output=True,
        text=True,
        env=environment(NO_BYTE_CODE),
        preexec_fn=limited(size),
        check=False,
    )
    assert done.returncode == 5, done.stderr
    assert "File too large" in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert evo("iterate", "scale", "--device", "sim:l4", "--iterations", 0, cwd=root).code == 0
    assert problems(root, load_records(root, settled=True)) == []
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_output_that_is_full_is_an_error_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "evo", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment({}),
            check=False,
        )
    assert done.returncode == 5
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert "defect of evo" not in done.stderr


@pytest.mark.long
def test_a_compiler_without_room_is_no_verdict_on_the_text(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")
    rare = FAST.replace("if (i < n)", 'if (n < 0) asm volatile("brkpt;");\n    if (i < n)')  # needs the disassembler
    (root / "rare.cu").write_text(rare)
    done = subprocess.run(
        [sys.executable, "-m", "evo", "check", "rare.cu", "--device", "sim:l4"],
        cwd=root,
        capture_output=True,
        text=True,
        env=environment({"EVO_CACHE": str(tmp_path / "cache"), **NO_BYTE_CODE}),
        preexec_fn=limited(3_000),
        check=False,
    )
    assert done.returncode == 5, done.stdout + done.stderr
    assert "File too large" in done.stderr
