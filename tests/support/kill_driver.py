"""A loop of keeps and reverts with made-up evaluations, killed again and again. Run as a script, it is the loop."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ledger_samples import CHAMPION, DATE, RUN, git, keep, problems, record, renderer, start_ledger, text_of

from evo import files as disk
from evo.records.ledger import Ledger
from evo.records.ledger.git import Git
from evo.records.trials import RunFile, load_records
from evo.results import Verdict


def loop(root: Path, number: int) -> None:
    """Trials for ever; says `recorded TRIAL` once a record must survive."""
    rng = random.Random(number)
    run = f"20260101T{number:06d}-ab12"
    ledger, runs, _ = start_ledger(root, run)
    print("ready", flush=True)
    champion = root / CHAMPION
    parent = champion.read_bytes().decode() if champion.exists() else None
    while True:
        at = runs.next_number
        text = text_of(number * 1000 + at) + "// padding\n" * rng.randrange(400)
        kind = "keep" if parent is None else rng.choice(["keep", "keep placed", "revert", "fail"])
        if kind in ("keep placed", "revert"):
            ledger.place(CHAMPION, text)
        verdict = None if kind == "fail" else Verdict.REVERT if kind == "revert" else Verdict.KEEP
        trial = record(at, parent=parent, text=text, run=run, verdict=verdict)
        if trial.kept:
            keep(ledger, runs, trial, text)
            parent = text
        else:
            runs.append(trial)
            ledger.revert()
        print(f"recorded {trial.trial}", flush=True)
        if at == 12:
            ledger.finish(date=DATE)
            break
    ledger.close()


class Killed(BaseException):
    """Stands for a `kill -9` at a chosen call."""


def run_until(
    root: Path, monkeypatch: pytest.MonkeyPatch, fatal: int, run: str = RUN, recovering: bool = False
) -> bool:
    """Keep, revert, keep; killed before the `fatal`-th thing done to disk or git. Returns whether it was.

    recovering: the start counts too, so that a recovery is killed in turn.
    """
    count = 0

    def counted(real):
        def call(*arguments, **options):
            nonlocal count
            count += 1
            if count >= fatal:  # the dead do not clean up either
                raise Killed
            return real(*arguments, **options)

        return call

    ledger = None if recovering else start_ledger(root, run)[0]
    try:
        with monkeypatch.context() as patch:
            for name in ("replace", "write", "fsync", "link"):
                patch.setattr(disk.os, name, counted(getattr(os, name)))
            patch.setattr(Path, "unlink", counted(Path.unlink))
            patch.setattr(Git, "run", counted(Git.run))
            if ledger is None:
                ledger = start_ledger(root, run)[0]
            cycle(root, ledger, run)
    except Killed:
        return True
    finally:
        if ledger is not None:
            ledger.close()
    return False


def cycle(root: Path, ledger: Ledger, run: str) -> None:
    """Four trials: kept, reverted, kept after it stood in the champion's file, failed."""
    runs = RunFile(root, "attention", run)
    first, second, third = (text_of(number) + f"// {run}\n" for number in (1, 2, 3))
    keep(ledger, runs, record(1, parent=None, text=first, run=run), first)
    ledger.place(CHAMPION, second)
    runs.append(record(2, parent=first, text=second, run=run, verdict=Verdict.REVERT))
    ledger.revert()
    ledger.place(CHAMPION, third)
    keep(ledger, runs, record(3, parent=first, text=third, run=run), third)
    runs.append(record(4, parent=third, run=run, verdict=None))
    ledger.finish(date=DATE)


def kill_and_recover(root: Path, rng: random.Random, kills: int, longest_s: float = 0.7, group: bool = False) -> None:
    """Kill the loop at random instants; after each, recover and look for anything lost, doubled or dirty."""
    for number in range(1, kills + 1):
        promised, errors = _run_and_kill(root, number, rng.uniform(0.0, longest_s), group)
        assert "Traceback" not in errors, errors
        ledger = Ledger.open(root, renderer(root))
        with ledger:
            said = ledger.recover(date=DATE)
            ledger.prepare()
        assert problems(root) == [], f"kill {number}: {said}"
        there = {trial.trial for trial in load_records(root)}
        assert set(promised) <= there, f"kill {number}: lost {set(promised) - there}; {said}"
    assert load_records(root), "the loop never got to a record"
    git(root, "fsck", "--no-dangling")


def _run_and_kill(root: Path, number: int, delay_s: float, group: bool) -> tuple[list[str], str]:
    command = [sys.executable, __file__, str(root), str(number)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(delay_s)
    if group:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    out, errors = process.communicate()
    assert first == "ready\n", errors
    return [line.removeprefix("recorded ") for line in out.splitlines() if line.startswith("recorded ")], errors


if __name__ == "__main__":
    loop(Path(sys.argv[1]), int(sys.argv[2]))
