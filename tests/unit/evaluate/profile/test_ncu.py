"""Nsight Compute from outside: its output in the documented format, and every way in which it may refuse to work."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from evo.evaluate.profile import NcuCounters, Unavailable, measure
from evo.evaluate.profile.ncu import QUANTITIES, parse_csv, resolve

# As `ncu --csv --page raw --print-units base` writes it: lines of its own, header, a row of units, a row per launch.
RECORDED = (Path(__file__).parents[3] / "data" / "ncu" / "raw.csv").read_text()
HEADER, UNITS = RECORDED.splitlines()[3:5]


def test_the_documented_csv_is_read() -> None:
    rows = parse_csv(RECORDED)
    assert [kernel for kernel, _ in rows] == ["attention", "combine"]
    assert rows[0][1]["dram__bytes_read.sum"] == (3145728.0, "byte")
    assert rows[0][1]["l1tex__t_sector_hit_rate.pct"] == (41.25, "%")
    assert "l1tex__t_sector_hit_rate.pct" not in rows[1][1]  # not a number: absent, never 0


@pytest.mark.parametrize("text", ["", "==ERROR== nothing\n", HEADER, f"{HEADER}\n{UNITS}\n", '"ID"\n"1"\n'])
def test_output_without_launches_has_none(text: str) -> None:
    assert parse_csv(text) == []


def test_names_are_resolved_against_the_chip() -> None:
    firsts = [names for groups in QUANTITIES.values() for g in groups for names in g if names]
    listed = {names[0].partition(".")[0] for names in firsts}
    chosen, missing = resolve(frozenset(listed - {"l1tex__t_sectors_pipe_lsu_mem_global_op_st"}))
    assert "global_sectors" in missing  # a sum without one of its parts would be another quantity
    assert chosen["hmma"] == (("sm__inst_executed_pipe_tensor_op_hmma.sum",),)
    assert chosen["registers"] == (("launch__registers_per_thread",),)  # ncu does not list these
    chosen, missing = resolve(frozenset({"sm__inst_executed_pipe_tensor"}))
    assert chosen["hmma"] == (("sm__inst_executed_pipe_tensor.sum",),)
    assert "dram_bytes" in missing
    loads = frozenset({"l1tex__t_sectors_pipe_lsu_mem_global_op_ld", "l1tex__t_sectors_pipe_lsu_mem_global_op_st"})
    assert [len(names) for names in resolve(loads)[0]["global_sectors"]] == [1, 1, 0]  # loads with the copies in them
    assert resolve(frozenset())[1] == []  # an ncu that lists nothing is asked for the first choices


def test_names_that_no_chip_has_are_not_asked_for() -> None:
    asked = {name for groups in QUANTITIES.values() for g in groups for alternatives in g for name in alternatives}
    assert not any("transactions_per_request" in name for name in asked)
    assert "lts__t_sectors_op_read_hit_rate.pct" not in asked


def fake(folder: Path, body: str) -> dict[str, str]:
    """An environment whose `ncu` is a script: `arguments` holds its own, `option(name)` the value of one."""
    script = folder / "ncu"
    script.write_text(
        f"#!{sys.executable}\nimport sys, subprocess, time\narguments = sys.argv[1:]\n"
        "def option(name): return arguments[arguments.index(name) + 1]\n"
        "def log(text): open(option('--log-file'), 'w').write(text)\n" + body
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {**os.environ, "PATH": str(folder)}


QUERY = """
if '--query-metrics' in arguments:
    print('Device NVIDIA H200 (GH100)\\n' + '-' * 40)
    for name in ('dram__bytes_read', 'dram__bytes_write', 'sm__inst_executed_pipe_tensor_op_hmma'):
        print(f'{name:60} Counter         inst            # something')
    raise SystemExit
"""
TARGET = [sys.executable, "-c", "pass"]


def test_a_run_asks_for_what_the_chip_has_and_leaves_its_clocks_alone(tmp_path: Path) -> None:
    body = f"{QUERY}\nopen({str(tmp_path / 'asked')!r}, 'w').write(' '.join(arguments))\nlog({RECORDED!r})"
    found = measure(TARGET, fake(tmp_path, body), time_limit_s=20)
    assert isinstance(found, NcuCounters)
    assert found.sums() == {"hmma": 262144.0, "dram_bytes": 4194304.0 + 1024}
    assert "l1_hit_pct" in found.missing
    asked = (tmp_path / "asked").read_text()
    assert "--clock-control none" in asked
    assert "--profile-from-start off" in asked
    assert "l1tex__t_sector_hit_rate" not in asked
    assert asked.endswith(" ".join(TARGET))
    shown = found.to_json()["launches"]
    assert isinstance(shown, list)
    assert shown[0] == {
        "kernel": "attention",
        "metrics": {
            "hmma": {"metric": "sm__inst_executed_pipe_tensor_op_hmma.sum", "value": 262144.0, "unit": "inst"},
            "dram_bytes": {"metric": "dram__bytes_read.sum+dram__bytes_write.sum", "value": 4194304.0, "unit": "byte"},
        },
    }


REFUSALS = {
    "permission": (
        "log('==PROF== Connected to process 1\\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to '"
        "'access NVIDIA GPU Performance Counters on device 0.'); raise SystemExit(1)",
        ["ERR_NVGPUCTRPERM", "root"],
    ),
    "permission with exit code 0": (
        "log(''); print('==ERROR== ERR_NVGPUCTRPERM - The user does not have permission')",
        ["ERR_NVGPUCTRPERM"],
    ),
    "the target fails": (
        "log('==ERROR== The application returned an error code (1).\\n'); sys.stderr.write('attention: illegal memory"
        " access\\n'); raise SystemExit(1)",
        ["error code (1)", "illegal memory access"],
    ),
    "nothing launched": ("log('==WARNING== No kernels were profiled.\\n')", ["No kernels were profiled"]),
    "no words at all": ("raise SystemExit(9)", ["exit code 9", "no counters"]),
    "a broken table": (f"log({HEADER!r})", ["no counters"]),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_are_one_line(tmp_path: Path, name: str) -> None:
    body, words = REFUSALS[name]
    found = measure(TARGET, fake(tmp_path, QUERY + body), time_limit_s=20)
    assert isinstance(found, Unavailable)
    assert "\n" not in found.reason
    for word in words:
        assert word in found.reason


def test_no_ncu_no_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evo.evaluate.profile.ncu._PLACES", ())
    found = measure(TARGET, {"PATH": str(tmp_path)}, time_limit_s=20)
    assert isinstance(found, Unavailable)
    assert "not installed" in found.reason


def test_an_ncu_that_hangs_is_ended(tmp_path: Path) -> None:
    found = measure(TARGET, fake(tmp_path, QUERY + "time.sleep(60)"), time_limit_s=0.5)
    assert isinstance(found, Unavailable)
    assert "0.5 s" in found.reason


def test_an_ncu_that_cannot_start(tmp_path: Path) -> None:
    script = tmp_path / "ncu"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    found = measure(TARGET, {"PATH": str(tmp_path)}, time_limit_s=5)
    assert isinstance(found, Unavailable)
    assert "does not start" in found.reason
