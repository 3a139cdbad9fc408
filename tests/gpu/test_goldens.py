"""The simulator's golden cases on a real GPU: the same PTX, the same inputs, bit by bit.

Writes to $EVO_GOLDENS_REPORT (default golden_report.json) how many values of each opcode family are the GPU's bits, lie
within the stated bound, or lie beyond it, and every case that is not exact, with up to 20 of its differing values.
Where hardware is known to leave the PTX ISA (`known`), the difference is measured and does not fail.
$EVO_GOLDENS may name a folder made by `python tests/gpu/test_goldens.py FOLDER`: simulated outputs and PTX, for a
machine that cannot run the simulator.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "sim"))
pytestmark = pytest.mark.gpu


def prepare() -> Iterator[dict[str, Any]]:
    """Every case with what the simulator makes of it."""
    import goldens
    import goldens_cuda

    for group, cases in (
        ("opcode", goldens.opcodes()),
        ("warp", goldens_cuda.kernels()),
        ("function", goldens_cuda.functions()),
    ):
        for case in cases:
            yield {
                "group": group, "name": case.name, "ptx": case.ptx, "kernel": case.kernel, "inputs": case.inputs,
                "outputs": case.outputs, "grid": case.grid, "block": case.block, "relative": case.relative,
                "absolute": case.absolute, "number": case.number, "known": case.known, "simulated": case.simulated(),
            }  # fmt: skip


def on_gpu(case: dict[str, Any], folder: Path) -> list[Any]:
    """CuPy remembers modules by path, so every case has a path of its own."""
    import cupy

    path = folder / f"{hashlib.sha256(case['ptx'].encode()).hexdigest()}.ptx"
    path.write_text(case["ptx"])
    kernel = cupy.RawModule(path=str(path)).get_function(case["kernel"])
    inputs = [cupy.asarray(array) for array in case["inputs"]]
    outputs = [cupy.asarray(array) for array in case["outputs"]]
    kernel((case["grid"],), (case["block"],), (*inputs, *outputs))
    return [cupy.asnumpy(array) for array in outputs]


def compared(case: dict[str, Any], gpu: list[Any]) -> dict[str, Any]:
    """How far the simulator's outputs are from the GPU's; NaN equals NaN, bits are compared apart."""
    exact_required = case["relative"] == case["absolute"] == 0.0
    row: dict[str, Any] = {"group": case["group"], "name": case["name"], "values": 0, "exact": 0, "beyond_bound": 0}
    row |= {"bound": "exact" if exact_required else {name: case[name] for name in ("relative", "absolute")}}
    row |= {"max_absolute": 0.0, "max_relative": 0.0, "differing": []}
    for mine, theirs in zip(case["simulated"], gpu, strict=True):
        pairs = case["number"].endswith("x2")
        raw = np.uint16 if pairs else f"u{mine.itemsize}"
        a, b = as_float(case, mine), as_float(case, theirs)
        both_nan = np.isnan(a) & np.isnan(b)
        differ = (mine.view(raw) != theirs.view(raw)) & ~both_nan  # no payload is defined for arithmetic
        with np.errstate(all="ignore"):
            gap = np.where((a == b) | both_nan, 0.0, np.abs(a - b))
            ratio = np.where((b != 0) & np.isfinite(a), gap / np.abs(b), 0.0)
            far = (np.isnan(a) != np.isnan(b)) | ((gap > case["absolute"]) & ~(gap <= case["relative"] * np.abs(b)))
        bad = differ if exact_required else far
        if pairs:
            differ, bad = (flags.reshape(-1, 2).any(1) for flags in (differ, bad))
        row["values"] += mine.size
        row["exact"] += int((~differ).sum())
        row["beyond_bound"] += int(bad.sum())
        # The worst first: beyond the bound, then any other difference.
        for at in [*np.flatnonzero(bad), *np.flatnonzero(differ & ~bad)]:
            inputs = [str(x[at % x.size]) for x in case["inputs"]]
            found = [*inputs, "sim", str(mine[at]), "gpu", str(theirs[at])]
            if len(row["differing"]) < 20 and found not in row["differing"]:
                row["differing"].append(found)
        finite = np.isfinite(a) & np.isfinite(b)
        if finite.any():
            row["max_absolute"] = max(row["max_absolute"], float(gap[finite].max()))
            row["max_relative"] = max(row["max_relative"], float(ratio[finite].max()))
    if case["known"]:
        row["known"] = case["known"]
    return row | {"agrees": row["beyond_bound"] == 0}


def as_float(case: dict[str, Any], array: Any) -> Any:
    """Results as numbers: 16-bit floats are stored as integers, pairs of them are two numbers."""
    kind = case["number"].removesuffix("x2")
    with np.errstate(all="ignore"):
        if kind == "f16":
            return array.view(np.float16).astype(np.float64)
        if kind == "bf16":
            return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return array.astype(np.float64)


COUNTS = ("values", "exact", "within_bound", "beyond_bound")


def family_of(row: dict[str, Any]) -> str:
    """The mnemonic of an opcode; warp kernels and library functions are a family each."""
    return str(row["name"].split(".")[0]) if row["group"] == "opcode" else f"{row['group']} kernels"


def by_family(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Values that are equal, within the bound and beyond it, by family."""
    out: dict[str, dict[str, Any]] = {}
    for row in rows:
        total = out.setdefault(family_of(row), dict.fromkeys(("cases", "not_run", *COUNTS), 0) | {"max_relative": 0.0})
        total["cases"] += 1
        if row["agrees"] is None:
            total["not_run"] += 1
            continue
        for name in ("values", "exact", "beyond_bound"):
            total[name] += row[name]
        total["within_bound"] += row["values"] - row["exact"] - row["beyond_bound"]
        total["max_relative"] = max(total["max_relative"], row["max_relative"])
    return dict(sorted(out.items()))


def report_of(rows: list[dict[str, Any]], about: dict[str, Any]) -> dict[str, Any]:
    """What is written: who was compared, the counts, the families, and every case that is not exact."""
    ran = [row for row in rows if row["agrees"] is not None]
    summary = about | {
        "cases": len(rows), "ran": len(ran), "agree": sum(row["agrees"] for row in ran),
        "bit_exact": sum(row["exact"] == row["values"] for row in ran),
        "known_differences": sum("known" in row and not row["agrees"] for row in ran),
    }  # fmt: skip
    inexact = [row for row in rows if row["agrees"] is None or row["exact"] != row["values"]]
    return {"summary": summary, "families": by_family(rows), "cases_not_exact": inexact}


def written(report: dict[str, Any]) -> str:
    """JSON with one line per family and per differing value."""
    text = json.dumps(report, indent=1, allow_nan=False)
    return re.sub(r"[\[{](?:[^][{}]|\n)*[]}]", lambda found: " ".join(found[0].split()), text) + "\n"


def driver_version() -> str:
    """The display driver's own version, which CuPy does not tell."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]


def test_goldens_on_hardware(tmp_path: Path) -> None:
    import cupy

    cupy.zeros(1)  # a context must exist before a module is loaded: without one CuPy crashes
    folder = os.environ.get("EVO_GOLDENS")
    stored = pickle.loads((Path(folder) / "cases.pickle").read_bytes()) if folder else packed()
    rows = []
    for case in stored["cases"]:
        try:
            rows.append(compared(case, on_gpu(case, tmp_path)))
        except cupy.cuda.driver.CUDADriverError as error:
            rows.append({"group": case["group"], "name": case["name"], "agrees": None, "not_run": str(error)[:200]})
    about = {
        "date": datetime.now(UTC).date().isoformat(),
        "device": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "driver": driver_version(), "driver_cuda": cupy.cuda.runtime.driverGetVersion(),
        "simulator": stored["simulator"],
    }  # fmt: skip
    report = report_of(rows, about)
    Path(os.environ.get("EVO_GOLDENS_REPORT", "golden_report.json")).write_text(written(report))
    failed = [row["name"] for row in rows if row["agrees"] is False and "known" not in row]
    print(report["summary"], failed)
    assert not failed, failed


def packed() -> dict[str, Any]:
    """Every case, and what made the simulated outputs: a digest of the simulator's source."""
    from evo import sim

    digest = hashlib.sha256()
    root = Path(sim.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return {"simulator": f"source sha256 {digest.hexdigest()[:16]}", "cases": list(prepare())}


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    (target / "cases.pickle").write_bytes(pickle.dumps(packed()))
