"""`kill -9` in the middle of real runs of `evo iterate`, and what must hold after each."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tiny import ANEW, environment, evo, git

from evo.records import leaderboard
from evo.records.ledger import History
from evo.records.trials import Record, load_records, rebuild_text

CHAMPION = Path("kernels/scale/champions/sim-l4-sm_89.cu")
ORPHAN_LIMIT_S = 15.0


def kill_runs(root: Path, rng: random.Random, kills: int) -> int:
    """Kill a run at random instants, recover, look for damage. Returns in how many the recovery had something to do."""
    began_s = time.monotonic()
    assert evo(*ANEW, "--iterations", "50", cwd=root).code == 0
    whole_s = time.monotonic() - began_s  # an instant of any run is as likely as another, however busy the machine
    mended = 0
    for number in range(kills):
        group = number % 2 == 1
        promised, processes = _run_and_kill(root, rng.uniform(0.0, whole_s), group)
        _wait_for_end(processes)
        on_disk = _whole_lines(root)
        next_run = evo("iterate", "scale", "--device", "sim:l4", "--iterations", 0, cwd=root)
        said = f"kill {number}, {'group' if group else 'alone'}:\n{next_run.err}"
        assert next_run.code == 0, said
        mended += any(
            word in next_run.err for word in ("put back", "finished the interrupted", "committed the records")
        )
        assert on_disk <= _whole_lines(root), said
        records = load_records(root, settled=True)
        assert promised <= {record.trial for record in records}, said
        assert problems(root, records) == [], said
    git(root, "fsck", "--no-dangling", "--strict")
    return mended


def problems(root: Path, records: list[Record]) -> list[str]:
    """What is lost, doubled or dirty. `load_records` has seen to it that the numbers of each run have no gap."""
    found = []
    if status := git(root, "status", "--porcelain"):
        found.append(f"the tree is not clean: {status}")
    if len({record.trial for record in records}) != len(records):
        found.append("a trial is recorded twice")
    kept = [record for record in records if record.kept]
    named = git(root, "log", "--format=%(trailers:key=Evo-Trial,valueonly,separator=%x2C)").split()
    if sorted(named) != sorted(record.trial for record in kept):
        found.append(f"commits name {sorted(named)}, kept are {sorted(record.trial for record in kept)}")
    champion = root / CHAMPION
    expected = rebuild_text(records, kept[-1].trial).encode() if kept else None
    if (champion.read_bytes() if champion.exists() else None) != expected:
        found.append("the champion is not the text that was kept last")
    history = History.open(root)
    rebuilt = leaderboard.render(records, history.commits())
    history.close()
    if (root / "leaderboard.json").read_text() != rebuilt:
        found.append("leaderboard.json differs from its rebuild")
    return found


def descendants(pid: int) -> set[tuple[int, str]]:
    """All processes below one, each with its start time, as a number may be used again."""
    parents: dict[int, tuple[int, str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            if fields[0] != "Z":
                parents[int(folder.name)] = (int(fields[1]), fields[19])
    below, waiting = set(), [pid]
    while waiting:
        above = waiting.pop()
        for child, (parent, started) in parents.items():
            if parent == above:
                below.add((child, started))
                waiting.append(child)
    return below


def alive(process: tuple[int, str]) -> bool:
    try:
        fields = Path(f"/proc/{process[0]}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return False
    return fields[0] != "Z" and fields[19] == process[1]


def _wait_for_end(processes: set[tuple[int, str]]) -> None:
    deadline = time.monotonic() + ORPHAN_LIMIT_S
    while left := {process for process in processes if alive(process)}:
        assert time.monotonic() < deadline, f"orphans {sorted(left)}"
        time.sleep(0.05)


def _whole_lines(root: Path) -> set[bytes]:
    """Every line of every run's file that had its newline when the process died."""
    files = (root / "population").glob("*/runs/*.jsonl")
    return {line for file in files for line in file.read_bytes().split(b"\n")[:-1]}


def _run_and_kill(root: Path, delay_s: float, group: bool) -> tuple[set[str], set[tuple[int, str]]]:
    """The trials whose result was printed, and the processes that the killed one leaves behind."""
    process = subprocess.Popen(
        [sys.executable, "-m", "evo", *ANEW, "--iterations", "50", "--json"],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    time.sleep(delay_s)
    below = descendants(process.pid)
    with contextlib.suppress(ProcessLookupError):
        (os.killpg if group else os.kill)(process.pid, signal.SIGKILL)
    printed, _ = process.communicate()
    results = [json.loads(line) for line in printed.split("\n")[:-1]]
    return {str(result["id"]) for result in results if "id" in result}, below
