"""A few of the kills of tests/long/test_kill_run.py, and the deaths of children alone."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_killer import descendants, kill_runs
from tiny import ANEW, commit_all, environment, git, new_repository

pytestmark = pytest.mark.long


def test_two_kills_of_a_real_run(tmp_path: Path) -> None:
    kill_runs(new_repository(tmp_path / "mine"), random.Random(4), kills=2)


@pytest.mark.parametrize("child", ["sim device", "nvrtc_process", "fork_server"])
@pytest.mark.parametrize("delay_s", [pytest.param(0.0, id="starting"), pytest.param(0.4, id="at work")])
def test_the_death_of_a_child_costs_no_trial(tmp_path: Path, child: str, delay_s: float) -> None:
    root = new_repository(tmp_path / "mine")
    for rung in (root / "kernels" / "scale" / "ladder").glob("*.cu"):
        rung.write_text(rung.read_text() + f"// {tmp_path}\n")  # not in the cache yet, so a compiler is needed
    commit_all(root)
    process = subprocess.Popen(
        [sys.executable, "-m", "evo", *ANEW, "--operators", "ladder"],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    victims: set[int] = set()
    deadline = time.monotonic() + 60
    while not victims and process.poll() is None and time.monotonic() < deadline:
        victims = {pid for pid, _ in descendants(process.pid) if _shown(pid) == child}
    time.sleep(delay_s)
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert victims
    assert process.returncode == 0, err
    assert "1 kept" in out
    assert "crashed" not in err
    assert git(root, "status", "--porcelain") == ""


def _shown(pid: int) -> str:
    """What the process shows itself as."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
