"""Kernel Tuner's strategies on a measured space by its simulation mode, in a process of its own.

One JSON object on stdin: knobs, legal (values), times (null: failed), strategy, budget, seeds. Prints a JSON object as
its last line: its version, and for each seed the times of the distinct configurations in the order it tried them.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

_STAMP = "2024-01-01 00:00:00+00:00"  # a cache entry has to have one


def cache_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """The results as Kernel Tuner's own cache file."""
    names = list(job["knobs"])
    cache = {}
    for values, time in zip(job["legal"], job["times"], strict=True):
        entry = dict(zip(names, values, strict=True))
        entry["time"] = "RuntimeFailedConfig" if time is None else time
        entry["times"] = [] if time is None else [time] * 3
        spent = ("compile_time", "benchmark_time", "verification_time", "strategy_time", "framework_time")
        entry.update(dict.fromkeys(spent, 1.0), timestamp=_STAMP)
        cache[",".join(map(str, values))] = entry
    head = {"device_name": "replay", "kernel_name": "k", "problem_size": [1, 1], "objective": "time"}
    return {**head, "tune_params_keys": names, "tune_params": dict(job["knobs"]), "cache": cache}


def member(legal: set[tuple[Any, ...]]) -> Callable[..., bool]:
    def inside(*values: Any) -> bool:
        return values in legal

    return inside


def main() -> int:
    warnings.filterwarnings("ignore")
    import kernel_tuner
    from constraint import FunctionConstraint

    job = json.loads(sys.stdin.read())
    legal = {tuple(values) for values in job["legal"]}
    tried = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cache.json"
        path.write_text(json.dumps(cache_of(job)))
        for seed in job["seeds"]:
            random.seed(seed)
            np.random.seed(seed)
            with contextlib.redirect_stdout(io.StringIO()):
                results, _ = kernel_tuner.tune_kernel(
                    "k",
                    "__global__ void k(){}",
                    (1, 1),
                    [],
                    {name: list(values) for name, values in job["knobs"].items()},
                    restrictions=[FunctionConstraint(member(legal))],
                    strategy=job["strategy"],
                    strategy_options={"max_fevals": job["budget"]},
                    cache=str(path),
                    simulation_mode=True,
                    quiet=True,
                    verbose=False,
                )
            seen: dict[tuple[Any, ...], float | None] = {}
            for row in results:
                time = row["time"]
                seen.setdefault(
                    tuple(row[name] for name in job["knobs"]), float(time) if isinstance(time, int | float) else None
                )
            tried.append(list(seen.values())[: job["budget"]])
    print(json.dumps({"version": kernel_tuner.__version__, "tried": tried}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
