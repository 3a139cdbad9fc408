"""The simulator's golden cases on a real GPU: the same PTX, the same inputs, bit by bit.

Writes to $EVO_GOLDENS_REPORT (default golden_report.json) how many values of each opcode family are the GPU's bits, lie
within the stated bound, or lie beyond it, and every case that is not exact, with up to 20 of its differing values.
Where hardware is known to leave the PTX ISA (`known`), the difference is measured and does not fail.
Beside the report it leaves golden_bits.xz, the GPU's bits of all cases. Stored as tests/data/sim/golden_h200.xz they
are what test_golden_cases.py compares the simulator with on every machine.
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

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "sim"))
from golden_bits import Measured, compared, digest_of
from golden_bits import packed as packed_bits

from evo.cuda.compile import toolkit_version

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
    rows, measured = [], {}
    for case in stored["cases"]:
        try:
            found = on_gpu(case, tmp_path)
            rows.append(compared(case, case["simulated"], found))
            measured[f"{case['group']}:{case['name']}"] = Measured(digest_of(case["ptx"], case["inputs"]), found)
        except cupy.cuda.driver.CUDADriverError as error:
            rows.append({"group": case["group"], "name": case["name"], "agrees": None, "not_run": str(error)[:200]})
    about = {
        "date": datetime.now(UTC).date().isoformat(),
        "device": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "compiler": toolkit_version(), "driver": driver_version(), "driver_cuda": cupy.cuda.runtime.driverGetVersion(),
        "simulator": stored["simulator"],
    }  # fmt: skip
    report = report_of(rows, about)
    target = Path(os.environ.get("EVO_GOLDENS_REPORT", "golden_report.json"))
    target.write_text(written(report))
    target.with_name("golden_bits.xz").write_bytes(packed_bits(about, measured))
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
