"""`evo profile` on a GPU: the launch that a profiler watches, and Nsight Compute's counts beside the simulator's."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_programs import inputs, program

from evo.device import RunRequest

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parents[2]


def test_the_watched_launch_runs_alone(tmp_path: Path) -> None:
    request = tmp_path / "request"
    for body, code in (("if (i < n) y[i] = 2.0f * x[i];", 0), ("*(volatile float*)8 = x[i];", 1)):
        request.write_bytes(pickle.dumps(RunRequest(program=program(body), inputs=inputs())))
        command = [sys.executable, "-P", "-m", "evo.device.ncu_target", str(request), "0"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=120)
        assert done.returncode == code, done.stderr
        assert done.stdout == ""
        assert (code == 0) == (done.stderr == "")


@pytest.mark.parametrize(
    ("file", "case"),
    [
        ("attention/ladder/40_mma.cu", "b2"),
        ("attention/ladder/50_wide.cu", "b2"),
        ("matmul/ladder/30_mma.cu", "square1k"),
    ],
)
def test_measured_counts_equal_the_simulators(file: str, case: str) -> None:
    command = [sys.executable, "-m", "evo", "profile", f"kernels/{file}", "--case", case, "--device", "gpu:0", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=600)
    assert done.returncode == 0, done.stderr
    shape = json.loads(done.stdout)
    print(json.dumps({key: shape.get(key) for key in ("profile", "expected", "measured")}, indent=1))
    rows = {(row["metric"], row["from"]): row for row in shape["expected"]}
    assert rows["hmma", "counted"]["exact"]  # full tiles: FLOP / 4096
    if shape["profile"] != "measured":
        pytest.skip(shape["profile"])
    assert rows["hmma", "measured"]["exact"]
    assert rows["global_sectors", "measured"]["exact"]
    assert rows["dram_bytes", "measured"]["ratio"] <= 1.1
