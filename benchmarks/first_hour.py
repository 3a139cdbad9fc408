"""From a stranger's file to the first kept gain: `evo adopt FILE`, then `evo iterate NAME` by rules, by the clock.

Each file is adopted in a repository below `--root` as it is, without an answer, and its run ends with the first keep.
It prints the rows of docs/adopt.md. Rows that `--json` has already are kept, so a table can be continued.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from report import ROOT, run, say, write_json

FILES = ROOT / "tests" / "data" / "adopt" / "fourteenth"


def main(words: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("--root", type=Path, required=True, metavar="DIR", help="where the repository is made")
    made.add_argument("--files", type=Path, default=FILES, metavar="DIR", help="the folder of the files")
    made.add_argument("--only", default="", metavar="NAMES", help="only these, by their names without an ending")
    made.add_argument("--iterations", default="12", metavar="N")
    made.add_argument("--budget", default="120s", metavar="TIME", help="of one run")
    made.add_argument("--json", type=Path, required=True, metavar="OUT", help="every figure, after each file")
    asked = made.parse_args(words)
    rows: dict[str, dict[str, Any]] = {}
    if asked.json.exists():
        rows = json.loads(asked.json.read_text(encoding="utf-8"))
    for file in sorted(p for p in asked.files.iterdir() if p.suffix in (".cu", ".py")):
        if asked.only and file.stem not in asked.only.split(","):
            continue
        rows[file.stem] = rows.get(file.stem) or timed(asked, file)
        say(row(file.stem, rows[file.stem]))
        write_json(asked.json, rows)
    say(f"{sum('gain' in each for each in rows.values())} of {len(rows)} gain")
    return 0


def timed(asked: argparse.Namespace, file: Path) -> dict[str, Any]:
    """Seconds of adopt, to the verified start and to the first keep since adopt began; what was kept, or why not."""
    if not (asked.root / ".git").exists():
        asked.root.mkdir(parents=True, exist_ok=True)
        for command in (["init", "-q"], ["config", "user.name", "benchmark"], ["config", "user.email", "-"]):
            subprocess.run(["git", *command], cwd=asked.root, check=True)
    began, evo = time.monotonic(), [sys.executable, "-m", "evo"]
    command = [*evo, "adopt", str(file), "--yes", "--json"]
    done = subprocess.run(command, cwd=asked.root, text=True, capture_output=True, check=False)
    found: dict[str, Any] = {"adopt_s": round(time.monotonic() - began)}
    if done.returncode:
        return found | {"end": done.stderr.strip().splitlines()[-2:]}
    written = json.loads(done.stdout)
    git = ["git", "-C", str(asked.root)]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", file.stem], check=True)
    name, variant = written["task"], Path(written["variant"]).name
    command = [*evo, "iterate", name, "--from", variant, "--device", "sim:l4",
               "--operators", "rules", "--iterations", asked.iterations, "--budget", asked.budget,
               "--json"]  # fmt: skip
    pipe, at = subprocess.PIPE, asked.root
    with subprocess.Popen(command, cwd=at, text=True, stdout=pipe, stderr=pipe) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        for line in map(json.loads, child.stdout):
            now_s = round(time.monotonic() - began)
            if line.get("kind") == "start":
                found |= {"start_s": now_s, "start_us": line.get("cases")}  # none of a start that fails
            elif line.get("decision") == "keep" and "gain" not in found:
                found |= {"gain_s": now_s, "gain": line["gain"], "summary": line["summary"]}
                child.send_signal(signal.SIGINT)
            elif "trial" in line:
                found.setdefault("reverted", []).append([line["summary"], line["status"], line["reason"]])
        found["end"] = child.stderr.read().strip().splitlines()[-2:]
    return found | {"end_s": round(time.monotonic() - began)}


def row(name: str, found: dict[str, Any]) -> str:
    seconds = ", ".join(str(found[key]) for key in ("adopt_s", "start_s", "gain_s") if key in found)
    if "gain" in found:
        return f"| `{name}` | {seconds} | {found['summary']}: {found['gain']['ratio']:.3g}x |"
    return f"| `{name}` | {seconds} | none: {found.get('reverted', '')} {found['end']} |"


if __name__ == "__main__":
    run(main)
