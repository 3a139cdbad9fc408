"""`kill -9` at every instant: nothing lost, nothing recorded twice, a clean tree (see tests/support/kill_driver.py)."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kill_driver import kill_and_recover, run_until
from ledger_samples import DATE, keep, problems, record, repository, start_ledger, text_of

from evo.errors import HarnessFault
from evo.records.trials import load_records

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("group", [False, True], ids=["evo alone", "evo and its group"])
def test_fifty_kills_at_random_instants(tmp_path: Path, group: bool) -> None:
    kill_and_recover(repository(tmp_path), random.Random(group), kills=25, longest_s=4.0, group=group)


@pytest.mark.parametrize("again", [False, True], ids=["once", "and again while recovering"])
def test_killed_before_every_single_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool) -> None:
    fatal, killed, rng = 0, True, random.Random(5)
    while killed:
        fatal += 1 if not again else rng.randrange(1, 6)
        root = repository(tmp_path / str(fatal))
        killed = run_until(root, monkeypatch, fatal)
        if again:
            for number in range(1, 4):
                run_until(root, monkeypatch, rng.randrange(1, 40), run=f"20260102T{number:06d}-cd34", recovering=True)
        ledger, _, said = start_ledger(root, "20260109T000000-cd34")
        with ledger:
            ledger.finish(date=DATE)
        assert problems(root) == [], f"killed at {fatal}: {said}"
    assert fatal > 100


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1.5 MB; skips where this user may not mount one."""
    command = ["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", str(tmp_path)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("cannot mount a small tmpfs")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_disk_that_fills_up_at_any_point_of_a_keep(tiny_disk: Path) -> None:
    failed = 0
    text = text_of(2) + "// padding\n" * 600
    for left in range(0, 112, 4):
        shutil.rmtree(tiny_disk / "r", ignore_errors=True)
        root = repository(tiny_disk / "r")
        shutil.rmtree(root / ".git" / "hooks", ignore_errors=True)
        ledger, runs, _ = start_ledger(root)
        with ledger:
            keep(ledger, runs, record(1, parent=None), text_of(1))
            state = os.statvfs(tiny_disk)
            (tiny_disk / "filler").write_bytes(b"x" * (state.f_bavail * state.f_frsize - left * 1024))
            try:
                keep(ledger, runs, record(2, parent=text_of(1), text=text), text)
            except HarnessFault as fault:
                failed += 1
                assert "space" in fault.hint, fault.message  # noqa: PT017 (late ones have room enough)
            journalled = (root / ".git" / "evo-journal.json").exists()
        (tiny_disk / "filler").unlink()
        ledger, _, said = start_ledger(root, "20260102T093000-cd34")
        with ledger:
            ledger.finish(date=DATE)
        assert problems(root) == [], f"{left} KiB left: {said}"
        assert len(load_records(root)) == (2 if journalled or left > 90 else 1)
    assert failed > 10
