"""What a hostile user can hand to evo: each gets one error line, one hint line and its exit code."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from long_cases import long
from tiny import FAST, REFERENCE, TASK_YAML, Ran, commit_all, environment, evo, evo_here, fails, git, new_repository

ONE = ("iterate", "scale", "--device", "sim:l4", "--iterations", 1)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose files each test replaces as it likes and no run commits to."""
    return new_repository(tmp_path_factory.mktemp("bad") / "mine")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("dtype: float32", "dtype: [a]", ["task.yaml:4:", "dtype"]),
        ("shape: [N]", "shape: [N - 300]", ["task.yaml:4:", "shape", "even"]),
        ("shape: [N]", "shape: [N * 10000000000]", ["task.yaml:4:", "shape"]),
        ("name: y, role: out", "name: x, role: out", ["task.yaml:5:", "a second 'x'"]),
        ("role: in,", "role: in, colour: red,", ["task.yaml:4:", "colour"]),
        ("name: even", "name: {a: b}", ["task.yaml:8:", "check.0.name"]),
        ("small:", "even:", ["even", "bench"]),
        ("work: {flop: N, bytes: 8 * N}", "work: [1]", ["task.yaml:12:", "work"]),
        ("flop: N,", "flop: ,", ["task.yaml:12:", "work.flop", "missing"]),
        ("work:", "score: [a]\nwork:", ["task.yaml:12:", "score"]),
        ("work:", "score: {small: .nan}\nwork:", ["task.yaml:12:", "score.small"]),
        ("work:", "flags: 3\nwork:", ["task.yaml:12:", "flags"]),
        ("work:", "targets: [a]\nwork:", ["task.yaml:12:", "targets"]),
        ("work:", "scalars: [{name: s, dtype: float32}]\nwork:", ["task.yaml:12:", "value"]),
        ("work:", "name: scale\nwork:", ["task.yaml:12:", "twice", "line 1"]),
        ("name: scale", "name: 2001-99-01", ["task.yaml:", "month"]),
        ("name: scale", "name: " + "[" * 5000, ["task.yaml:", "deeply"]),
        ("name: scale", "name: &a [*a]", ["task.yaml:"]),
    ],
)
def test_malformed_task(shared: Path, old: str, new: str, words: list[str]) -> None:
    (shared / "kernels/scale/task.yaml").write_text(TASK_YAML.replace(old, new, 1))
    try:
        fails(evo_here("compile", "wrong.cu", cwd=shared), 3, *words)
    finally:
        (shared / "kernels/scale/task.yaml").write_text(TASK_YAML)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["bad.cu", "launch"]),
        (FAST.replace("// evo: task", "// evo: task scale\n// evo: task"), ["bad.cu:3:", "task"]),
        (FAST.replace("in 32", "in " + "9" * 5000), ["bad.cu:3:", "knob"]),
        (FAST.replace("(THREADS)", "(" + "-" * 600 + "1)"), ["bad.cu:4:", "longer than"]),
        (FAST + "// padding line\n" * 100_000, ["bad.cu", "characters"]),
    ],
)
def test_malformed_variant(shared: Path, text: str, words: list[str]) -> None:
    (shared / "bad.cu").write_text(text)
    ran = evo_here("check", "bad.cu", "--device", "sim:l4", cwd=shared)
    fails(ran, 3, *words)
    assert max(map(len, ran.err.splitlines())) < 1100


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_standard_files_that_are_closed_are_nothing(shared: Path, closed: str) -> None:
    command = f'"{sys.executable}" -m evo check kernels/scale/ladder/10_fast.cu --device sim:l4 {closed}'
    assert subprocess.run(["sh", "-c", command], cwd=shared, env=environment(), check=False).returncode == 0


def test_long_comments_do_not_stop_the_static_rules(shared: Path) -> None:
    (shared / "long.cu").write_text(FAST + "// padding line\n" * 15_000)
    assert evo("compile", "long.cu", cwd=shared).code == 0  # took minutes


def test_a_byte_order_mark_and_carriage_returns_are_read(shared: Path) -> None:
    (shared / "windows.cu").write_bytes(b"\xef\xbb\xbf" + FAST.replace("\n", "\r\n").encode())
    assert evo("check", "windows.cu", "--device", "sim:l4", cwd=shared).code == 0


def test_names_that_no_file_has(shared: Path) -> None:
    fails(evo_here("check", "a" * 5000 + ".cu", cwd=shared), 2, "file name")
    fails(evo_here("check", "a\nb.cu", cwd=shared), 3, "a b.cu")
    fails(evo_here("check", "wrong.cu", "--device", "sim:foo", cwd=shared), 2, "foo", "l4")
    for branch in ("refs/heads/x", "a..b"):
        fails(evo(*ONE, f"--branch={branch}", cwd=shared), 2, branch)
    assert git(shared, "symbolic-ref", "HEAD") == "refs/heads/main"


@pytest.mark.parametrize(
    "body",
    [
        "raise SystemExit(4)",
        *(long(body) for body in ("return {'x': 3}", "raise ValueError('one\\ntwo')")),
    ],
)
def test_a_reference_that_breaks_its_contract(shared: Path, body: str) -> None:
    path = shared / "kernels/scale/reference.py"
    path.write_text(f"def inputs(case, rng):\n    {body}\n\n\ndef expected(inputs):\n    return None\n")
    try:
        fails(evo("check", "wrong.cu", "--device", "sim:l4", cwd=shared), 3, "reference.py", "inputs()")
    finally:
        path.write_text(REFERENCE)


@pytest.mark.long
def test_a_torn_record_that_is_no_longer_being_written(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")
    assert evo(*ONE, cwd=root).code == 0
    (path,) = (root / "population/scale/runs").glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-40])
    commit_all(root)
    board = (root / "leaderboard.json").read_text()
    fails(evo(*ONE, cwd=root), 5, f"{path.name}:2")
    fails(evo("leaderboard", "--rebuild", cwd=root), 5, f"{path.name}:2")
    assert (root / "leaderboard.json").read_text() == board
    assert evo("log", cwd=root).code == 0


@pytest.mark.long
def test_no_identity_and_no_git(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")
    nobody = {"HOME": str(tmp_path / "nowhere"), "GIT_CONFIG_NOSYSTEM": "1"}
    unset = {f"GIT_{who}_{what}": "" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    assert evo(*ONE, cwd=root, env={**unset, **nobody}).code == 0
    assert git(root, "show", "-s", "--format=%an <%ae> %cn <%ce>") == "evo <evo@localhost> evo <evo@localhost>"
    fails(evo(*ONE, cwd=root, env={"PATH": str(tmp_path)}), 6, "no git command")


@pytest.mark.parametrize("share", ["0", "-3%", "120%", "much", "nan"])
def test_a_margin_that_is_no_share_is_refused(shared: Path, share: str) -> None:
    fails(evo_here("iterate", "scale", f"--margin={share}", cwd=shared), 2, "--margin", "write it like 3% or 0.03")


def test_ctrl_c_says_that_it_was_heard(shared: Path) -> None:
    """Where a command has no word of its own for it: while it works, and while it imports what it works with."""
    (shared / "slow.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    (shared / "waiting.cu").write_text(FAST)
    importing = "import evo.cli.failures as f\nwith f.interruptible():\n    import slow"
    for command in (["-m", "evo", "check", "waiting.cu", "--device", "sim:l4"], ["-c", importing]):
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=shared,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            # a script's background jobs have it ignored
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no lock taken
        )
        assert process.stderr is not None
        assert process.stdout is not None
        first = process.stderr.readline()
        if "checking" in first:
            process.send_signal(signal.SIGINT)
        rest, out = process.stderr.read(), process.stdout.read()  # `communicate` loses what `readline` took ahead
        fails(Ran(process.wait(60), out, first + rest), 130)
