"""compute-sanitizer as a process: a stand-in on PATH that writes what NVIDIA documents, and what becomes of it."""

import os
import stat
import sys
from pathlib import Path

import pytest

from evo.evaluate import gate
from evo.evaluate.gate.sanitize import first_finding

MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at scale_rows(const float *, float *, int)+0x110 in /variant.cu:12
=========     by thread (65,0,0) in block (3,1,0)
=========     Address 0x7f5a04e00d04 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f5a04e00c00 of size 260 bytes
=========
========= ERROR SUMMARY: 1 error
"""
MISALIGNED = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at 0x160 in /variant.cu:21:load_tile(__half const *)
=========     by thread (1,0,0) in block (0,0,0)
=========     Address 0x7f0b2a600002 is misaligned
========= ERROR SUMMARY: 1 error
"""
RACECHECK = """\
========= COMPUTE-SANITIZER
========= Warning: Race reported between Read access at tile(float *)+0x90 in /variant.cu:7
=========     and Write access at tile(float *)+0xd0 in /variant.cu:8 [16 hazards]
=========
========= Error: Race reported between Write access at tile(float *)+0x1c0 in /variant.cu:9
=========     and Read access at tile(float *)+0x2d0 in /variant.cu:14 [512 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""
UNMANGLED = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at softmax+0x1b0 in /variant.cu:12
=========     by thread (0,0,0) in block (3,0,0)
=========     Access to 0x7f5a04e00d04 is out of bounds
========= ERROR SUMMARY: 1 error
"""
INLINED = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at load_chunk(const __half *, int)+0x50 in /variant.cu:9
=========     by thread (1,0,0) in block (0,0,0)
=========     Address 0x7f0b2a600002 is misaligned
=========         Device Frame: load_row(const __half *)+0x80 in /variant.cu:15
=========         Device Frame: rmsnorm+0x150 in /variant.cu:30
========= ERROR SUMMARY: 1 error
"""
UNMANGLED_RACE = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at matmul+0x5d0 in /variant.cu:30
=========     and Read access at matmul+0x6a0 in /variant.cu:33 [512 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
INITCHECK = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at combine(const float *, float *)+0x70 in /variant.cu:30
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7fd2c1e00000
=========
========= ERROR SUMMARY: 1 error
"""
SYNCCHECK = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at reduce(float *)+0x1b0 in /variant.cu:18
=========     by thread (32,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error
"""
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
CLEAN_RACES = "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
REFUSED = """\
========= COMPUTE-SANITIZER
========= Error: Target application terminated before first instrumented API call
"""


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A compute-sanitizer that writes the given reports by tool, and exits with 86 where there is an error."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def reports(by_tool: dict[str, str], *, code: int = 86, sleep_s: float = 0.0) -> None:
        program = folder / "compute-sanitizer"
        program.write_text(
            f"#!{sys.executable}\n"
            "import pathlib, sys, time\n"
            f"time.sleep({sleep_s})\n"
            "given = sys.argv[1:]\n"
            "tool, log = given[given.index('--tool') + 1], given[given.index('--log-file') + 1]\n"
            "assert given[given.index('-m') + 1] == 'evo.device.sanitizer_target', given\n"
            "assert pathlib.Path(given[-2]).is_file() and given[-1] == '0', given\n"
            f"report = {by_tool!r}.get(tool, {CLEAN!r})\n"
            "pathlib.Path(log).write_text(report)\n"
            f"sys.exit({code} if report not in ({CLEAN!r}, {CLEAN_RACES!r}) else 0)\n"
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    return reports


def test_four_clean_reports_are_clean(say):
    say({"racecheck": CLEAN_RACES})
    found = gate.sanitize([], "0")
    assert found.shown().to_json() == {"state": "clean", "tools": ["memcheck", "racecheck", "initcheck", "synccheck"]}


def test_a_finding_is_a_fault_with_its_place(say):
    say({"memcheck": MEMCHECK})
    found = gate.sanitize([], "0")
    assert found.state == "found"
    assert "memcheck: Invalid __global__ write of size 4 bytes" in found.reason
    fault = found.fault
    assert (fault.kind, fault.kernel, fault.source_line) == ("out_of_bounds", "scale_rows", 12)
    assert (fault.thread, fault.block, fault.address) == ((65, 0, 0), (3, 1, 0), 0x7F5A04E00D04)


@pytest.mark.parametrize(
    ("report", "kind", "kernel", "line"),
    [
        (MEMCHECK, "out_of_bounds", "scale_rows", 12),
        (MISALIGNED, "misaligned", "load_tile", 21),
        (RACECHECK, "race", "tile", 9),
        (INITCHECK, "uninitialised", "combine", 30),
        (SYNCCHECK, "barrier", "reduce", 18),
        (UNMANGLED, "out_of_bounds", "softmax", 12),
        (UNMANGLED_RACE, "race", "matmul", 30),
        (INLINED, "misaligned", "rmsnorm", 9),
    ],
)
def test_each_tool_is_understood(report, kind, kernel, line):
    fault = first_finding(report)
    assert (fault.kind, fault.kernel, fault.source_line) == (kind, kernel, line)


def test_a_finding_is_in_a_kernel_that_was_launched():
    without_frames = "\n".join(line for line in INLINED.splitlines() if "Frame" not in line)
    assert first_finding(without_frames, ["rmsnorm"]).kernel == "rmsnorm"
    assert first_finding(INLINED, ["first", "rmsnorm"]).kernel == "rmsnorm"
    assert first_finding(without_frames).kernel == "load_chunk"
    nameless = UNMANGLED.replace("at softmax+0x1b0 in /variant.cu:12", "at 0x1b0")
    assert first_finding(nameless, ["softmax"]).kernel == "softmax"
    assert first_finding(nameless, ["softmax", "other"]).kernel == ""


@pytest.mark.parametrize("report", [CLEAN, CLEAN_RACES, REFUSED, ""])
def test_no_finding_where_there_is_none(report):
    assert first_finding(report) is None


def test_a_tool_that_may_not_attach_is_no_verdict(say):
    say(dict.fromkeys(["memcheck", "racecheck", "initcheck", "synccheck"], REFUSED), code=1)
    found = gate.sanitize([], "0")
    assert (found.state, found.fault) == ("unavailable", None)
    assert "ended with code 1: Error: Target application terminated" in found.reason


def test_one_silent_tool_leaves_the_others_their_say(say):
    say({"racecheck": REFUSED}, code=1)
    found = gate.sanitize([], "0")
    assert found.state == "clean"
    assert "racecheck" not in found.tools
    assert found.reason.startswith("racecheck: ended with code 1")


def test_a_tool_that_hangs_is_killed_and_named(say):
    say({}, sleep_s=60)
    found = gate.sanitize([], "0", limit_s=0.3)
    assert found.state == "unavailable"
    assert "did not end within 0.3 s" in found.reason


def test_an_absent_tool_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(sys.modules["evo.evaluate.gate.sanitize"], "_USUAL_PLACES", ())
    found = gate.sanitize([], "0")
    assert (found.state, found.fault) == ("unavailable", None)
    assert "not installed" in found.reason
