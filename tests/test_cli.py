"""Every command from outside: stdout, stderr and exit code, in a temporary repository with one small task."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from long_cases import long
from tiny import (
    FAST,
    TASK_YAML,
    UNSAFE,
    Ran,
    command,
    commit_all,
    environment,
    evo,
    evo_here,
    evolved,
    fails,
    git,
    new_repository,
    write_task,
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "mine")


@pytest.fixture(name="evolved", scope="module")
def _evolved() -> tuple[Path, Ran]:
    return evolved()


# --- the command itself


def test_help_lists_the_commands_fast(tmp_path: Path) -> None:
    """It imports nothing that takes its time: what a command works with is imported when the command runs."""
    told = evo("--help", cwd=tmp_path, env={"PYTHONPROFILEIMPORTTIME": "1"})
    imported = {line.rpartition("|")[2].strip() for line in told.err.splitlines() if line.startswith("import time:")}
    assert "evo.cli.app" in imported
    heavy = (
        "numpy",
        "torch",
        "cupy",
        "git",
        "yaml",
        "llvmlite",
        "tree_sitter",
        "msgspec",
        "evo.device",
        "evo.evaluate",
    )
    assert not {name for name in imported if name.startswith(heavy)}
    ran = evo("--help", cwd=tmp_path)
    assert ran.code == 0
    for name in ("init", "iterate", "leaderboard", "check", "bench", "try", "compile", "doctor", "replay"):
        assert f"\n  {name} " in ran.out


def test_version_and_bare_command(tmp_path: Path) -> None:
    assert evo("--version", cwd=tmp_path).out.startswith("evo ")
    assert "Evolve:" in evo(cwd=tmp_path).out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["iterat"], ["iterate"]),
        (["check"], ["FILE"]),
        (["check", "--frobnicate", "x.cu"], ["--frobnicate"]),
        (["iterate", "--iterations", "many"], ["--iterations"]),
        (["iterate", "--iterations", "-1"], ["--iterations"]),
        (["iterate", "--budget", "soon"], ["soon", "30m"]),
        (["iterate", "--operators", ","], ["--operators"]),
        (["iterate", "nothing"], ["nothing", "scale"]),
        (["report", "scale"], ["evo report --task scale"]),
        (["iterate", "--device", "tpu:0"], ["tpu:0", "sim:CHIP"]),
        (["iterate", "--device", "l4"], ["did you mean sim:CHIP such as sim:l4"]),
        (["iterate", "--device", "cuda:0"], ["did you mean gpu?"]),
        (["iterate", "--search", "bandits"], ["did you mean bandit?"]),
        (["resume"], ["did you mean `evo iterate TASK --resume`?"]),
        (["help"], ["did you mean `evo --help`?"]),
        (["leaderboard", "--task", "scale"], ["stands by itself", "evo leaderboard TASK"]),
        (["--root", "no/such/folder", "iterate"], ["no/such/folder", "evo init"]),
    ],
)
def test_usage_errors(repository: Path, arguments: list[str], words: list[str]) -> None:
    fails(evo_here(*arguments, cwd=repository), 2, *words)


def test_root_is_understood_anywhere(repository: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for arguments in (
        ["--root", repository, "leaderboard", "--json"],
        ["leaderboard", "--json", f"--root={repository}"],
    ):
        assert evo(*arguments, cwd=elsewhere).json == {"version": 1, "entries": []}


def test_no_repository_above(tmp_path: Path) -> None:
    fails(evo("iterate", cwd=tmp_path), 2, "kernels/", "evo init")


# --- bad files


def test_a_malformed_task_names_file_line_and_field(repository: Path) -> None:
    path = repository / "kernels" / "scale" / "task.yaml"
    path.write_text(TASK_YAML.replace("role: out", "role: sideways"))
    fails(evo("check", "wrong.cu", cwd=repository), 3, "task.yaml:5:", "role", "sideways")
    path.write_text("name: [")
    fails(evo("check", "wrong.cu", cwd=repository), 3, "task.yaml:")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("// evo: lunch scale grid (1) block (1) shared 0", ["bad.cu:1:", "lunch"]),
        ("// evo: knob THREADS is 3", ["bad.cu:1:", "knob"]),
        ("// evo:", ["bad.cu:1:"]),
    ],
)
def test_a_malformed_evo_line_names_file_and_line(repository: Path, line: str, words: list[str]) -> None:
    (repository / "bad.cu").write_text(f"{line}\n{FAST}")
    fails(evo("check", "bad.cu", cwd=repository), 3, *words)


def test_files_that_are_not_there_or_not_text(repository: Path) -> None:
    fails(evo("check", "nowhere.cu", cwd=repository), 3, "nowhere.cu")
    fails(evo("check", "kernels", cwd=repository), 3, "folder")  # as for adopt, and for a file that is none
    (repository / "binary.cu").write_bytes(b"\xff\xfe\x00")
    fails(evo("check", "binary.cu", cwd=repository), 3, "binary.cu")
    (repository / "taskless.cu").write_text(FAST.replace("// evo: task   scale\n", ""))
    fails(evo("check", "taskless.cu", cwd=repository), 2, "--task")


def test_a_gpu_where_there_is_none(repository: Path) -> None:
    from evo.device import gpu_present

    if gpu_present():
        fails(evo("check", "wrong.cu", "--device", "gpu:99", cwd=repository), 4, "99")
    else:
        fails(evo("check", "wrong.cu", "--device", "gpu:0", cwd=repository), 4, "sim:l4")


def test_an_unexpected_fault_is_one_line_and_a_traceback_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from evo.cli.failures import guarded

    def stumble() -> int:
        raise KeyError("lost")

    assert guarded(stumble) == 5
    quiet = capsys.readouterr().err
    path = Path(quiet.split("the traceback is in ")[1].split(";")[0])
    assert "KeyError" in path.read_text()
    path.unlink()
    assert "Traceback" not in quiet
    monkeypatch.setenv("EVO_TRACEBACK", "1")
    assert guarded(stumble) == 5
    assert "Traceback" in capsys.readouterr().err


def test_a_traceback_that_cannot_be_written_does_not_hide_the_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from evo.cli.failures import guarded

    def stumble() -> int:
        raise KeyError("lost")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    assert guarded(stumble) == 5
    said = capsys.readouterr().err
    assert "KeyError" in said
    assert "hint: " in said
    assert "Traceback" not in said


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_folder_that_is_read_only_is_no_defect(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    from evo.cli.failures import guarded

    def write() -> int:
        raise OSError(number, os.strerror(number), "/mine/kernels/new")

    assert guarded(write) == 5
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in said] == ["error", "hint"]
    assert "/mine/kernels/new" in said[0]
    assert not any("traceback" in line for line in said)


# --- init and doctor


def test_init_lays_down_tasks_once_and_overwrites_nothing(tmp_path: Path) -> None:
    fails(evo("init", cwd=tmp_path), 6, "git init")
    git(tmp_path, "init", "--quiet")
    own = tmp_path / "kernels" / "of_mine" / "task.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("name: of_mine\n")
    first = evo("init", cwd=tmp_path)
    assert first.code == 0
    assert "of_mine" not in first.out
    assert "evo iterate attention" in first.out
    assert json.loads((tmp_path / "leaderboard.json").read_text()) == {"version": 1, "entries": []}
    assert (tmp_path / "kernels" / "attention" / "task.yaml").is_file()
    assert not list((tmp_path / "kernels").glob("*/champions/*.cu"))
    assert "nothing to do" in evo("init", cwd=tmp_path).out
    changed = tmp_path / "kernels" / "attention" / "task.yaml"
    changed.write_text("name: mine\n")
    fails(evo("init", cwd=tmp_path), 2, "kernels/attention/task.yaml")
    assert changed.read_text() == "name: mine\n"


def test_doctor_says_whether_the_simulator_works(repository: Path) -> None:
    ran = evo("doctor", "--json", cwd=repository)
    assert ran.code == 0
    assert ran.json["simulator_works"] is True
    names = {finding["name"] for finding in ran.json["findings"]}
    assert {"python", "git", "compiler", "simulator", "gpu", "cache", "repository"} <= names
    assert all(finding["state"] in ("ok", "warn", "missing") for finding in ran.json["findings"])


# --- one file


def test_check_passes_a_correct_variant(repository: Path) -> None:
    ran = evo("check", "ladder/10_fast.cu", "--task", "scale", "--json", "--device", "sim:l4", cwd=repository)
    assert ran.code == 0
    shape = ran.json
    assert shape["status"] == "correct"
    assert shape["task"] == "scale"
    assert shape["device"] == "sim:l4"
    assert [case["status"] for case in shape["cases"]] == ["correct"] * len(shape["cases"])
    assert {"name", "max_error", "rms_error", "budget"} <= set(shape["cases"][0])
    assert shape["faults"] == []


def test_check_fails_a_wrong_one_with_exit_code_1(repository: Path) -> None:
    ran = evo("check", "wrong.cu", "--device", "sim:l4", cwd=repository)
    assert ran.code == 1
    assert "wrong" in ran.out
    assert "allclose" in ran.out
    assert "checking" in ran.err


def test_check_names_the_line_and_thread_of_a_fault(repository: Path) -> None:
    ran = evo("check", "unsafe.cu", "--json", "--device", "sim:l4", cwd=repository)
    assert ran.code == 1
    assert ran.json["status"] == "unsafe"
    (fault, *_) = ran.json["faults"]
    line = 1 + UNSAFE.splitlines().index("    y[i] = 2.0f * x[i];")
    assert fault["kind"] == "out_of_bounds"
    assert fault["source_line"] == line
    assert {"block", "thread", "address", "message", "kernel"} <= set(fault)
    shown = evo("check", "unsafe.cu", "--device", "sim:l4", cwd=repository).out
    assert f"unsafe.cu:{line}" in shown
    assert "thread (" in shown


@pytest.mark.long
def test_check_lists_what_no_case_exercises(repository: Path) -> None:
    text = (repository / "kernels/scale/ladder/10_fast.cu").read_text()
    hidden = text.replace("y[i] = 2.0f * x[i];", "y[i] = 3.0f * x[i] == 123.456f ? 0.0f : 2.0f * x[i];")
    assert hidden != text
    (repository / "hidden.cu").write_text(hidden)
    words = ["check", "hidden.cu", "--task", "scale", "--coverage", "--device", "sim:l4"]
    ran = evo(*words, "--json", cwd=repository)
    assert (ran.code, ran.json["status"]) == (0, "correct")
    line = 1 + next(i for i, words in enumerate(hidden.splitlines()) if "123.456f" in words)
    rows = {row["kind"]: row for row in ran.json["unexercised"] if row["line"] == line}
    assert len(rows["comparison"]["unexercised"]) == 1
    assert "memory" in rows["comparison"]["compared"]
    assert "123.456" in rows["comparison"]["compared"]
    assert "123.456f" in evo(*words, cwd=repository).out
    plain = evo(*words[:-3], "--device", "sim:l4", "--json", cwd=repository)
    assert "unexercised" not in plain.json


def test_compile_reports_resources_without_a_device(repository: Path) -> None:
    ran = evo("compile", "kernels/scale/ladder/10_fast.cu", "--json", cwd=repository)
    assert ran.code == 0
    shape = ran.json
    assert shape["status"] == "compiled"
    assert shape["arch"] == "sm_89"
    assert shape["warnings"] == []
    assert {"name", "axes", "registers", "spill_store_bytes", "shared_bytes", "sass"} <= set(shape["kernels"][0])
    failed = evo("compile", "broken.cu", "--json", cwd=repository)
    assert failed.code == 1
    assert failed.json["status"] == "uncompiled"
    assert failed.json["warnings"]


def test_bench_says_modelled_and_compares(repository: Path) -> None:
    fast, slow = "kernels/scale/ladder/10_fast.cu", "kernels/scale/ladder/00_slow.cu"
    ran = evo("bench", fast, "--against", slow, "--device", "sim:l4", "--json", cwd=repository)
    assert ran.code == 0
    assert ran.json["timing"] == "modelled"
    (case,) = ran.json["cases"]
    assert case["modelled_us"] > 0
    assert "model_version" in case
    assert not {"p50_us", "p90_us", "warm"} & set(case)
    assert ran.json["decision"]["verdict"] == "keep"
    assert ran.json["gain"]["ratio"] > 1
    shown = evo("bench", fast, "--device", "sim:l4", cwd=repository)
    assert "modelled" in shown.out
    assert "measured" not in shown.out


def test_try_judges_without_writing(repository: Path) -> None:
    ran = evo("try", "kernels/scale/ladder/10_fast.cu", "--device", "sim:l4", "--json", cwd=repository)
    assert ran.code == 0
    assert evo("try", "wrong.cu", "--device", "sim:l4", cwd=repository).code == 1
    assert git(repository, "status", "--porcelain") == ""


# --- the loop and its history


def test_iterate_writes_json_lines_and_commits(evolved: tuple[Path, Ran]) -> None:
    root, ran = evolved
    assert ran.code == 0, ran.err
    *trials, done = ran.lines
    assert done["done"] is True
    assert {"trials", "kept", "champion", "start", "end", "elapsed_s"} <= set(done)
    for trial in trials:
        assert {"trial", "variant", "operator", "kind", "summary", "status", "elapsed_s"} <= set(trial)
        assert ("cases" in trial) == (trial["status"] == "correct")
        assert trial["timing"] == "modelled"
    assert {"wrong", "correct"} <= {trial["status"] for trial in trials}
    kept = [trial for trial in trials if trial.get("decision") == "keep"]
    assert [trial["operator"] for trial in kept] == ["ladder"]
    subjects = git(root, "log", "--format=%H")
    assert all(trial["commit"][:7] in subjects for trial in kept)
    assert git(root, "status", "--porcelain") == ""


def test_leaderboard_is_the_file(evolved: tuple[Path, Ran]) -> None:
    root, ran = evolved
    assert evo("leaderboard", "--json", cwd=root).json == json.loads((root / "leaderboard.json").read_text())
    shown = evo("leaderboard", cwd=root)
    assert "modelled" in shown.out
    assert ran.lines[-1]["champion"] in shown.out


def test_a_leaderboard_that_is_gone_is_written_again(evolved: tuple[Path, Ran], tmp_path: Path) -> None:
    root = tmp_path / "copy"
    shutil.copytree(evolved[0], root)
    before = (root / "leaderboard.json").read_text()
    (root / "leaderboard.json").unlink()
    assert "evo leaderboard --rebuild" in evo("leaderboard", cwd=root).err
    assert evo("leaderboard", "--rebuild", cwd=root).code == 0
    assert (root / "leaderboard.json").read_text() == before


def test_log_show_and_diff(evolved: tuple[Path, Ran]) -> None:
    root, ran = evolved
    trials = evo_here("log", "--json", cwd=root).json
    assert len(trials) >= len(ran.lines) - 1
    variant = ran.lines[-1]["champion"]
    assert variant in evo_here("show", variant, cwd=root).out
    assert evo_here("show", variant, "--json", cwd=root).json["variant"] == variant
    fails(evo_here("show", "nothing-like-it", cwd=root), 2, "evo log")
    first = "kernels/scale/ladder/00_slow.cu"
    differing = evo_here("diff", first, variant, cwd=root)
    assert differing.code == 0
    assert differing.out.startswith("--- ")
    assert evo_here("diff", first, first, cwd=root).out == ""


def test_replay_repeats_a_trial(evolved: tuple[Path, Ran]) -> None:
    root, ran = evolved
    replayed = evo("replay", ran.lines[-1]["champion"], "--json", cwd=root)
    assert replayed.code == 0, replayed.err
    assert replayed.json["same"] is True


def test_insights_and_operators(evolved: tuple[Path, Ran]) -> None:
    root, _ = evolved
    assert evo_here("insights", cwd=root).code == 0
    assert isinstance(evo_here("insights", "--json", cwd=root).json, list)
    rules = evo_here("insights", "--rules", "--json", cwd=root)
    assert (rules.code, type(rules.json)) == (0, list)
    fails(evo_here("insights", "--rules", "--failed", cwd=root), 2, "--rules")
    operators = evo_here("operators", "--json", cwd=root).json
    assert {"ladder", "patch"} <= {operator["name"] for operator in operators}
    assert all(operator["sentence"] for operator in operators)
    assert "ladder" in evo_here("operators", cwd=root).out


def test_plain_lines_say_modelled_and_stdout_ends_with_one_sentence(repository: Path) -> None:
    ran = evo("iterate", "--from", "ladder/10_fast.cu", "--device", "sim:l4", "--iterations", 0, cwd=repository)
    assert ran.code == 0, ran.err
    assert "modelled" in ran.err
    assert "\x1b" not in ran.err
    assert len(ran.out.splitlines()) == 1
    assert "modelled" in ran.out


def test_uncommitted_changes_where_evo_writes(repository: Path) -> None:
    champions = repository / "kernels" / "scale" / "champions"
    champions.mkdir()
    (champions / "sim-l4-sm_89.cu").write_text(FAST)
    fails(evo("iterate", "--device", "sim:l4", cwd=repository), 6, "champions")


def test_a_corrupt_leaderboard_is_named(repository: Path) -> None:
    (repository / "leaderboard.json").write_text('{"version": 1, "entries": [')
    commit_all(repository)
    fails(evo("leaderboard", cwd=repository), 5, "leaderboard.json")


def test_outside_git(tmp_path: Path) -> None:
    write_task(tmp_path)
    fails(evo("iterate", "--device", "sim:l4", cwd=tmp_path), 6, "git")


def test_a_closed_pipe_is_silent(evolved: tuple[Path, Ran]) -> None:
    root, _ = evolved
    command = f"'{sys.executable}' -m evo operators --json | head -c 1"
    done = subprocess.run(
        ["bash", "-c", command], cwd=root, capture_output=True, text=True, check=False, env=environment()
    )
    assert done.stdout == "["
    assert done.stderr == ""


@pytest.mark.parametrize("number", [signal.SIGINT, long(signal.SIGTERM)])
def test_a_signal_ends_the_run_after_the_step(repository: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        command("iterate", "--device", "sim:l4", "--iterations", 500, "--json"),
        cwd=repository,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    process.send_signal(number)
    rest, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "stopping" in err
    assert json.loads((first + rest).splitlines()[-1])["done"] is True
    assert git(repository, "status", "--porcelain") == ""


@pytest.mark.long
def test_a_second_run_goes_on_from_the_champion(repository: Path) -> None:
    words = ["iterate", "--device", "sim:l4", "--operators", "ladder", "--json"]
    first = evo(*words, cwd=repository).lines
    assert [line.get("kind") for line in first[:-1]] == ["start", "rung"]
    second = evo(*words, cwd=repository)
    assert second.code == 0, second.err
    assert [line.get("kind") for line in second.lines] == [None]
    assert second.lines[-1]["champion"] == first[-1]["champion"]
    tried = evo("try", "kernels/scale/ladder/00_slow.cu", "--device", "sim:l4", "--json", cwd=repository)
    assert tried.json["decision"]["verdict"] == "revert"
