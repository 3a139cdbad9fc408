"""What people run, timed: `evo iterate TASK` from the first rung by rules alone, over all tasks, as a command.

Per task: wall seconds in all, the start, the A/A control (none: nobody waited for it), how many edits were tried and
how many of them were valid. An edit is first looked at (compiled, run, compared, timed beside its parent), and most are
rejected by that; the best go through a whole trial. So: the median time of a rejected edit, and of those that a whole
trial has rejected; the median of a kept trial; the seconds of the search divided by its edits; the share of the time
that the GPU was busy (NVML, sampled), peak memory of the driver and of all processes, gain.
Below the table, what the clock went to (`waits_s` of the run, which add up to its time; `stages_s` of the records say
what each trial took, but trials overlap), and what held the memory at its peak, by process. With --problems, problems
in KernelBench's form with a plain kernel beside each (NAME.py, NAME.cu) are imported first and run the same way.
All runs share a cache, which is empty at the first; with --cold each has its own. On a simulator (--device sim:l4)
everything but the GPU's share is shown.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from report import ROOT, parser, run, say, table, verdict, write_json

AIM_RUN_S, AIM_REJECTED_S, AIM_KEPT_S, AIM_START_S, AIM_CONTROL_S = 120.0, 0.7, 5.0, 8.0, 3.0
AIM_GAIN, AIM_VALID = 2.72, 0.95
AIM_DRIVER_GB, AIM_ALL_GB = 1.0, 6.0
VALID = {"correct", "measured"}
SAMPLE_S = 0.1
WORTH_BYTES = 20 << 20  # of growth, after which it is worth to ask what kind of memory it is


# --- what the processes took ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Watched:
    """Peaks over a run, in bytes, and the mean GPU utilisation (None without NVML).

    by_process: at the peak of all, by what a process is for. in_driver: at the driver's peak, by kind of memory.
    """

    driver: int = 0
    everything: int = 0
    busy: list[float] = field(default_factory=list)
    by_process: dict[str, int] = field(default_factory=dict)
    in_driver: dict[str, int] = field(default_factory=dict)

    def see(self, driver: int, sizes: dict[int, int]) -> None:
        """The sizes of all processes at one moment."""
        if sizes.get(driver, 0) > self.driver:
            grown = sizes[driver] > self.driver + WORTH_BYTES
            self.driver = sizes[driver]
            self.in_driver = kinds_of_memory(driver) if grown else self.in_driver
        if (total := sum(sizes.values())) > self.everything:
            self.everything, self.by_process = total, {}
            for pid, size in sizes.items():
                name = "driver" if pid == driver else purpose(pid)
                self.by_process[name] = self.by_process.get(name, 0) + size

    @property
    def gpu_busy(self) -> float | None:
        return statistics.fmean(self.busy) if self.busy else None


def resident_bytes(pid: int) -> int:
    """Proportional set size of one process (what it shares is divided among those that share it); 0 once it is gone."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def kinds_of_memory(pid: int) -> dict[str, int]:
    """The same by kind: shared arrays, libraries and other files, and what the process has for itself."""
    found: dict[str, int] = {}
    kind = "own"
    try:
        for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
            words = line.split()
            if not words[0].endswith(":"):
                name = words[5] if len(words) > 5 else ""
                kind = "shared arrays" if name.startswith("/memfd:") else "files" if name.startswith("/") else "own"
            elif words[0] == "Pss:":
                found[kind] = found.get(kind, 0) + int(words[1]) * 1024
    except OSError:
        pass
    return found


def purpose(pid: int) -> str:
    """What a process is for: the name that evo's own show, else that of its program."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "gone"


def family(pid: int) -> set[int]:
    """The process and all its descendants."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(words[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def watch(pid: int, gpu: int | None, seen: Watched, done: threading.Event) -> None:
    handle = nvml = None
    if gpu is not None:
        import pynvml as nvml

        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(gpu)
    while not done.wait(SAMPLE_S):
        seen.see(pid, {each: resident_bytes(each) for each in family(pid)})
        if handle is not None:
            seen.busy.append(nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100)


# --- one run --------------------------------------------------------------------------------------------------------


def repository(folder: Path) -> Path:
    """A fresh repository with the shipped tasks, without champions and records."""
    root = folder / "repository"
    shutil.copytree(ROOT / "kernels", root / "kernels", ignore=shutil.ignore_patterns("champions", "__pycache__"))
    (root / "population").mkdir()
    (root / "population" / ".gitkeep").touch()
    (root / "leaderboard.json").write_text('{"version": 1, "entries": []}\n')
    for words in (["init", "-q"], ["add", "-A"], ["-c", "commit.gpgsign=false", "commit", "-qm", "tasks"]):
        git(root, *words)
    return root


def git(root: Path, *words: str) -> None:
    who = ["-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost"]
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)


def command(task: str, start: str, args: Any) -> list[str]:
    words = [sys.executable, "-m", "evo", "iterate", task, "--device", args.device, "--arch", args.arch]
    words += ["--from", start, "--operators", args.operators, "--iterations", str(args.iterations)]
    return [*words, "--seed", str(args.seed), "--budget", f"{args.limit}s", "--json", *args.more]


def iterate(root: Path, task: str, start: str, args: Any, cache: Path) -> dict[str, Any]:
    """One `evo iterate` as a process: its lines with the time at which each came, and what it took."""
    environment = {
        **os.environ,
        "EVO_CACHE": str(cache),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        **{f"GIT_{role}_{what}": "benchmark" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    errors = root.parent / f"{task}.stderr"
    began = time.perf_counter()
    with errors.open("w") as log:
        process = subprocess.Popen(
            command(task, start, args), cwd=root, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
        seen, done = Watched(), threading.Event()
        gpu = int(args.device.partition(":")[2] or 0) if args.device.startswith("gpu") else None
        watcher = threading.Thread(target=watch, args=(process.pid, gpu, seen, done), daemon=True)
        watcher.start()
        assert process.stdout is not None
        lines = [(time.perf_counter() - began, json.loads(line)) for line in process.stdout]
        code = process.wait()
        done.set()
        watcher.join()
    return {
        "task": task,
        "exit": code,
        "wall_s": time.perf_counter() - began,
        "lines": [{"at_s": at, **line} for at, line in lines],
        "stages_s": added_up(records(root, task)),
        "trials": [stages_of(record) for record in records(root, task)],
        "looks": list(json_lines(root, task, "looks")),
        "driver_bytes": seen.driver,
        "all_bytes": seen.everything,
        "in_driver": seen.in_driver,
        "by_process": seen.by_process,
        "gpu_busy": seen.gpu_busy,
        "stderr": errors.read_text()[-2000:],
    }


def records(root: Path, task: str) -> Iterator[dict[str, Any]]:
    return json_lines(root, task, "runs")


def json_lines(root: Path, task: str, folder: str) -> Iterator[dict[str, Any]]:
    for path in sorted((root / "population" / task / folder).glob("*.jsonl")):
        for line in path.read_text().splitlines():
            yield json.loads(line)


def stages_of(record: dict[str, Any]) -> dict[str, Any]:
    judged = record.get("evaluation", {})
    return {"id": record.get("trial"), "operator": record.get("operator"), "stages_s": judged.get("stages_s")}


def added_up(found: Iterator[dict[str, Any]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for record in found:
        for name, seconds in record.get("evaluation", {}).get("stages_s", {}).items():
            total[name] = total.get(name, 0.0) + seconds
    return {name: round(total[name], 3) for name in sorted(total, key=lambda name: -total[name])}


# --- figures --------------------------------------------------------------------------------------------------------


def figures(ran: dict[str, Any]) -> dict[str, Any]:
    """The row of one task. A trial's time is what passed on the clock since the line before it, looks included."""
    trials = [line for line in ran["lines"] if "trial" in line]
    ends = [line["at_s"] for line in trials]
    spans = [end - before for before, end in zip([0.0, *ends], ends, strict=False)]
    judged = list(zip(spans[1:], trials[1:], strict=True))
    kept = [span for span, line in judged if line.get("decision") == "keep"]
    lost = [span for span, line in judged if line.get("decision") != "keep"]
    last = ran["lines"][-1] if ran["lines"] and ran["lines"][-1].get("done") else {}
    looks = ran["looks"]
    lost_at_a_look = [look["elapsed_s"] for look in looks if look.get("ratio", 0.0) <= 1]
    invalid = {look["variant"] for look in looks if "ratio" not in look}
    invalid |= {line["variant"] for _, line in judged if line["status"] not in VALID}
    edits = {look["variant"] for look in looks} | {line["variant"] for _, line in judged}
    return {
        "task": ran["task"],
        "exit": ran["exit"],
        "trials": len(judged),
        "wall_s": ran["wall_s"],
        "start_s": spans[0] if trials else None,
        "control_s": last.get("waits_s", {}).get("A/A control"),
        "rejected_s": median([*lost_at_a_look, *lost]),
        "rejected_in_full_s": median(lost),
        "kept_s": median(kept),
        "kept": len(kept),
        "edits": len(edits),
        "valid": 1 - len(invalid) / len(edits) if edits else None,
        "edit_s": (ran["wall_s"] - spans[0]) / len(edits) if edits and trials else None,
        "gain": gain_of(last),
        "gpu_busy": ran["gpu_busy"],
        "driver_gb": ran["driver_bytes"] / 1e9,
        "all_gb": ran["all_bytes"] / 1e9,
        "stages_s": ran["stages_s"],
        "waits_s": {"process": max(0.0, ran["wall_s"] - last["elapsed_s"]), **last["waits_s"]} if last else {},
        "in_driver": ran["in_driver"],
        "by_process": ran["by_process"],
    }


def median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def gain_of(last: dict[str, Any]) -> float | None:
    """Geometric mean over the bench cases of start over end, from the last line of a run."""
    begin, end = last.get("start", {}), last.get("end", {})
    both = [(time_of(begin[name]), time_of(end[name])) for name in begin if name in end]
    ratios = [one / other for one, other in both if one and other]
    return statistics.geometric_mean(ratios) if ratios else None


def time_of(row: dict[str, Any]) -> float | None:
    value = row.get("modelled_us", row.get("warm", row).get("p50_us"))
    return float(value) if value else None


HEAD = (
    "task", "s", "start", "control", "edits", "valid", "each", "rejected", "in full", "trials", "kept", "n kept",
    "gain", "GPU busy", "GB", "GB all",
)  # fmt: skip


def shown(row: dict[str, Any]) -> list[object]:
    def figure(name: str, form: str) -> str | None:
        return None if row[name] is None else format(row[name], form)

    return [
        row["task"], figure("wall_s", ".1f"), figure("start_s", ".1f"), figure("control_s", ".1f"),
        row["edits"], figure("valid", ".0%"), figure("edit_s", ".2f"),
        figure("rejected_s", ".2f"), figure("rejected_in_full_s", ".2f"), row["trials"],
        figure("kept_s", ".1f"), row["kept"],
        figure("gain", ".2f"), figure("gpu_busy", ".0%"), figure("driver_gb", ".2f"), figure("all_gb", ".2f"),
    ]  # fmt: skip


def below(row: dict[str, Any]) -> Iterator[str]:
    """What the clock of a run went to, and what held the memory."""
    waits = {name: value for name, value in row["waits_s"].items() if value >= 0.05}
    share = sum(row["waits_s"].values()) / row["wall_s"]
    words = ", ".join(f"{name} {waits[name]:.1f}" for name in sorted(waits, key=lambda name: -waits[name]))
    yield f"{row['task']}: {words or 'not told'} s; {share:.0%} of the clock"
    for name, words in (("in_driver", "the driver"), ("by_process", "all")):
        held = sorted(row[name].items(), key=lambda item: -item[1])
        yield f"  memory of {words}: " + ", ".join(f"{kind} {size / 1e9:.2f}" for kind, size in held) + " GB"


def aims(rows: Sequence[dict[str, Any]]) -> list[str]:
    """One line per aim, over all tasks of the run."""

    def most(name: str, aim: float, words: str, unit: str = "s") -> str:
        found = [row[name] for row in rows if row[name] is not None]
        worst = max(found) if found else None
        figure = f"{worst:.2f} {unit} at most, {aim:g} asked" if worst is not None else "no such trial"
        return verdict(words, worst <= aim if worst is not None else None, figure)

    gains = [row["gain"] for row in rows if row["gain"] is not None]
    edits = sum(row["edits"] for row in rows)
    valid = sum(row["edits"] * (row["valid"] or 0.0) for row in rows) / edits if edits else None
    middle = statistics.median(gains) if gains else None
    return [
        most("wall_s", AIM_RUN_S, "a run"),
        most("rejected_s", AIM_REJECTED_S, "median rejected edit"),
        most("kept_s", AIM_KEPT_S, "median kept trial"),
        most("start_s", AIM_START_S, "start"),
        most("control_s", AIM_CONTROL_S, "A/A control"),
        most("driver_gb", AIM_DRIVER_GB, "memory of the driver", "GB"),
        most("all_gb", AIM_ALL_GB, "memory of all processes", "GB"),
        verdict("median gain", middle >= AIM_GAIN if middle else None, f"{middle or 0:.2f}x, {AIM_GAIN} asked"),
        verdict("valid", valid >= AIM_VALID if valid is not None else None, f"{valid or 0:.1%}, {AIM_VALID:.0%} asked"),
    ]


# --- problems from elsewhere ----------------------------------------------------------------------------------------


def imported(root: Path, folder: Path) -> list[tuple[str, str]]:
    """Import every NAME.py that has a NAME.cu; the tasks and their first kernels."""
    found = []
    for problem in sorted(folder.resolve().glob("*.py")):
        kernel = problem.with_suffix(".cu")
        if not kernel.is_file():
            continue
        words = [sys.executable, "-m", "evo", "import", "kernelbench", str(problem), "--name", problem.stem, "--json"]
        done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            say(f"{problem.name}: {(done.stdout + done.stderr).strip()[-600:]}")
            continue
        shutil.copy(kernel, root / "kernels" / problem.stem / "ladder" / "00_plain.cu")
        found.append((problem.stem, "ladder/00_plain.cu"))
    if found:
        git(root, "add", "-A")
        git(root, "commit", "-qm", "problems")
    return found


def first_rungs(names: Sequence[str]) -> list[tuple[str, str]]:
    tasks = sorted(path.parent.name for path in (ROOT / "kernels").glob("*/task.yaml"))
    chosen = [name for name in tasks if not names or name in names]
    return [(name, f"ladder/{min((ROOT / 'kernels' / name / 'ladder').glob('*.cu')).name}") for name in chosen]


def main(argv: Sequence[str] | None = None) -> int:
    made = parser(__doc__ or "")
    made.add_argument("--device", default="gpu:0")
    made.add_argument("--arch", default="sm_89")
    made.add_argument("--tasks", default="", help="comma-separated; all shipped ones by default")
    made.add_argument("--problems", type=Path, metavar="FOLDER", help="NAME.py and NAME.cu pairs, imported first")
    made.add_argument("--cold", action="store_true", help="an empty cache for each run")
    made.add_argument("--operators", default="rules")
    made.add_argument("--iterations", type=int, default=45)
    made.add_argument("--limit", type=int, default=120, help="seconds for one run")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("more", nargs="*", help="further options of evo iterate, after --")
    args = made.parse_args(argv)
    args.iterations = min(args.iterations, 5) if args.quick else args.iterations
    rows: list[dict[str, Any]] = []
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="evo-loop-") as scratch:
        folder = Path(scratch)
        root = repository(folder)
        todo = first_rungs([name for name in args.tasks.split(",") if name])
        todo += imported(root, args.problems) if args.problems else []
        for task, start in todo:
            ran = iterate(root, task, start, args, folder / (f"cache-{task}" if args.cold else "cache"))
            runs.append(ran)
            rows.append(figures(ran))
            say(" ".join(str(cell) for cell in shown(rows[-1])))
            if ran["exit"]:
                say(ran["stderr"])
            write_json(args.json, {"rows": rows, "runs": runs})
    print(table(HEAD, [shown(row) for row in rows]))
    for row in rows:
        for line in below(row):
            print(line)
    for line in aims(rows):
        print(line)
    return 0


if __name__ == "__main__":
    run(main)
