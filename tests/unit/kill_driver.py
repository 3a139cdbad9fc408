"""A loop of keeps and reverts with made-up evaluations, killed again and again. Run as a script, it is the loop."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from ledger_samples import CHAMPION, DATE, git, keep, problems, record, renderer, start_ledger, text_of

from evo.ledger import Ledger
from evo.population import load_records
from evo.result import Verdict


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


def kill_and_recover(root: Path, rng: random.Random, kills: int, group: bool = False) -> None:
    """Kill the loop at random instants; after each, recover and look for anything lost, doubled or dirty."""
    for number in range(1, kills + 1):
        promised, errors = _run_and_kill(root, number, rng.uniform(0.0, 0.7), group)
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
