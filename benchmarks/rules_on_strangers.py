"""What 45 trials by rules bring on kernels as strangers write them, beside versions that an expert would write.

The kernels: tests/data/foreign, those that `evo adopt` makes of tests/data/adopt (`--adopted`), and set_aside, which no
rule is written for (`--tasks`). Each is evolved by rules alone from the file as it stands, in a repository below
`--root`; then champion and expert (experts/NAME.cu) are checked and timed on the same device. Rows that `--json` has
already are kept, so a run can be continued.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from report import ROOT, run, say, table, verdict, write_json

HERE = Path(__file__).parent
FOREIGN = ROOT / "tests" / "data" / "foreign" / "kernels"
ADOPTED = ROOT / "tests" / "data" / "adopt"
EXPERTS = HERE / "experts"
VALID = ("correct", "measured")
LIMIT_S = 600


def main(words: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("--root", type=Path, required=True, metavar="DIR", help="where the repository is made")
    made.add_argument("--adopted", action="store_true", help="the files with host code instead")
    made.add_argument("--tasks", type=Path, default=FOREIGN, metavar="DIR", help="other kernels: set_aside")
    made.add_argument("--only", default="", metavar="NAMES", help="only these kernels")
    made.add_argument("--iterations", type=int, default=45, metavar="N")
    made.add_argument("--budget", default="60s", metavar="TIME", help="of one kernel")
    made.add_argument("--device", default="sim:l4", metavar="NAME")
    made.add_argument("--seed", type=int, default=0, metavar="N")
    made.add_argument("--json", type=Path, required=True, metavar="OUT", help="every figure, after each kernel")
    asked = made.parse_args(words)
    rows: dict[str, dict[str, Any]] = {}
    if asked.json.exists():
        rows = json.loads(asked.json.read_text(encoding="utf-8"))["kernels"]
    names = [name for name in asked.only.split(",") if name] or list(kernels(asked.adopted, asked.tasks))
    for name in names:
        start = prepared(asked.root, name, asked.adopted, asked.tasks)
        if name not in rows:
            rows[name] = evolved(asked, name, start)
        if (expert := EXPERTS / f"{name}.cu").exists() and "expert_us" not in rows[name]:
            rows[name]["expert_us"] = timed(asked, expert, name)
        say(f"{name}: {rows[name]}")
        write_json(asked.json, {"device": asked.device, "seed": asked.seed, "budget": asked.budget, "kernels": rows})
    return report({name: rows[name] for name in names})


def kernels(adopted: bool, tasks: Path) -> list[str]:
    return sorted(p.stem for p in ADOPTED.glob("*.cu")) if adopted else sorted(p.name for p in tasks.iterdir())


def prepared(root: Path, name: str, adopted: bool, tasks: Path) -> Path:
    """The start variant in the repository, which is made if it is not there."""
    if not (root / ".git").exists():
        root.mkdir(parents=True, exist_ok=True)
        for command in (["init", "-q"], ["config", "user.name", "benchmark"], ["config", "user.email", "-"]):
            subprocess.run(["git", *command], cwd=root, check=True)
    start = root / (f"{name}.cu" if adopted else f"kernels/{name}/ladder/00_stranger.cu")
    if not start.exists():
        if adopted:
            evo(root, "adopt", str(ADOPTED / f"{name}.cu"), "--yes")
        else:
            shutil.copytree(tasks / name, root / "kernels" / name)
        subprocess.run(["git", "add", "-A"], cwd=root, check=True)
        subprocess.run(["git", "commit", "-qm", name], cwd=root, check=True)
    return start


def evo(root: Path, *words: str) -> list[dict[str, Any]]:
    """The JSON that a command prints, one value for each line or one in all; [] if it prints none."""
    command = [sys.executable, "-m", "evo", *words]
    done = subprocess.run(command, cwd=root, text=True, capture_output=True, timeout=LIMIT_S, check=False)
    if not done.stdout.strip():
        say(f"{' '.join(words)}: exit {done.returncode}: {done.stderr[-300:]}")
        return []
    try:
        return [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    except json.JSONDecodeError:
        try:
            return [json.loads(done.stdout)]
        except json.JSONDecodeError:
            return []


def evolved(asked: argparse.Namespace, name: str, start: Path) -> dict[str, Any]:
    began = time.monotonic()
    lines = evo(
        asked.root, "iterate", name, "--from", str(start.relative_to(asked.root)), "--operators", "rules",
        "--iterations", str(asked.iterations), "--budget", asked.budget, "--seed", str(asked.seed),
        "--device", asked.device, "--json",
    )  # fmt: skip
    trials = [line for line in lines if line.get("trial", 0) > 1]
    end = next((line for line in lines if line.get("done")), {})
    first = next((n for n, line in enumerate(trials, 1) if line.get("decision") == "keep"), None)
    return {
        "trials": len(trials),
        "valid": sum(line.get("status") in VALID for line in trials),
        "kept": [line["summary"] for line in trials if line.get("decision") == "keep"],
        "first_keep": first,
        "start_us": _mean(end.get("start", {})),
        "end_us": _mean(end.get("end", {})),
        "seconds": round(time.monotonic() - began, 1),
        "bad": [f"{line.get('operator')}: {line.get('reason')}" for line in trials if line.get("status") not in VALID],
    }


def timed(asked: argparse.Namespace, file: Path, name: str) -> float | None:
    found = evo(asked.root, "bench", str(file), "--task", name, "--device", asked.device, "--json")
    if found and found[0].get("status") not in VALID:
        say(f"  {file.name}: {found[0].get('status')}: {found[0].get('reason')}")
        return None
    return _mean({case["name"]: case for case in found[0]["cases"]}) if found else None


def _mean(cases: dict[str, dict[str, Any]]) -> float | None:
    """The geometric mean over the cases in microseconds, measured or modelled."""
    times = [case.get("modelled_us") or case.get("p50_us") for case in cases.values()]
    known = [float(each) for each in times if each]
    return round(math.exp(statistics.fmean(map(math.log, known))), 3) if known else None


def report(rows: dict[str, dict[str, Any]]) -> int:
    shown, gains, shares = [], [], []
    for name, row in rows.items():
        gain = row["start_us"] / row["end_us"] if row["start_us"] and row["end_us"] else None
        share = row["expert_us"] / row["end_us"] if row.get("expert_us") and row["end_us"] else None
        gains.append(gain or 1.0)
        shares += [share] if share else []
        kept = f"{len(row['kept'])}, first at {row['first_keep']}" if row["kept"] else "none"
        shown.append([name, row["start_us"], row["end_us"], gain and f"{gain:.2f}", share and f"{share:.0%}",
                      row["trials"], row["valid"], kept, row["seconds"]])  # fmt: skip
    head = ["kernel", "start us", "end us", "gain", "of expert's speed", "trials", "valid", "kept", "s"]
    say(table(head, shown))
    median, mean = statistics.median(gains), math.exp(statistics.fmean(map(math.log, gains)))
    trials, valid = (sum(row[key] for row in rows.values()) for key in ("trials", "valid"))
    say(verdict("gain at the median", median >= 2.72, f"{median:.2f}x"))
    say(verdict("geometric mean of the gains", mean >= 6, f"{mean:.2f}x"))
    say(verdict("valid trials", valid >= 0.95 * trials, f"{valid} of {trials}"))
    if shares:
        at = statistics.median(shares)
        say(verdict("of an expert's speed at the median", at >= 0.8, f"{at:.0%} of {len(shares)}"))
    return 0


if __name__ == "__main__":
    run(main)
