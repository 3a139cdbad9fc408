"""A tiny task in a repository of its own, and `evo` run there as a process: for tests from outside."""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import child_copies
from evo_server import LIMIT_S, server

from evo.files import cache_folder
from evo.spec import forked_child
from evo.spec.task import Task, read_task

TASK_YAML = """\
name: scale
axes: {N: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [N]}
  - {name: y, role: out, dtype: float32, shape: [N]}
tolerance: {rtol: 1e-6, atol: 1e-6, rival_error_factor: 2, because: one rounding}
check:
  - {name: even, N: 256}
  - {name: ragged, N: 77}
bench:
  small: {N: 131072}
work: {flop: N, bytes: 8 * N}
"""
REFERENCE = """\
import numpy as np


def inputs(case, rng):
    return {"x": rng.standard_normal(case["N"], dtype=np.float32)}


def expected(inputs):
    return {"y": 2.0 * inputs["x"].astype(np.float64)}
"""
HEAD = """\
// {idea}
// evo: task   scale
// evo: knob   THREADS in 32, 64, 128
// evo: launch scale grid (ceil_div(N, THREADS * {each})) block (THREADS) shared 0
#define THREADS {threads}

extern "C" __global__ void scale(const float* x, float* y, int n) {{
"""
SLOW = (
    HEAD.format(idea="One thread, sixteen elements, one after the other.", each=16, threads=32)
    + """\
    const int first = (blockIdx.x * THREADS + threadIdx.x) * 16;
    for (int i = first; i < first + 16 && i < n; ++i) y[i] = 2.0f * x[i];
}
"""
)
FAST = (
    HEAD.format(idea="One thread per element: neighbours read neighbours.", each=1, threads=128)
    + """\
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""
)
WRONG = FAST.replace("2.0f * x[i]", "3.0f * x[i]")
UNSAFE = FAST.replace("if (i < n) ", "")
BROKEN = FAST.replace("blockIdx.x", "blockIdx.w")
SUPPORT = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def evo(*arguments: object, cwd: Path, env: Mapping[str, str] | None = None) -> Ran:
    """Run `evo` as a process of its own: a copy of one that has imported it, unless it is to begin otherwise."""
    words, environs = list(map(str, arguments)), environment(env)
    copies = None if forked_child.differs(environs) else server()
    if copies is not None and (ran := copies.run(words, cwd, environs)) is not None:
        return Ran(*ran)
    command = [sys.executable, "-m", "evo", *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=environs, timeout=LIMIT_S)
    return Ran(done.returncode, done.stdout, done.stderr)


def command(*words: object) -> list[str]:
    """How to start `evo` as a process of its own whose children are copies."""
    child_copies.socket_place()
    begin = "import sys; sys.path.append(sys.argv.pop(1)); import child_copies, evo.cli; child_copies.install()"
    return [sys.executable, "-c", f"{begin}; sys.exit(evo.cli.main())", str(SUPPORT), *map(str, words)]


def own_cache(folder: Path) -> str:
    """A cache without anything that was measured; what is compiled is kept where all tests keep it."""
    for name in ("compile", "sim", "harness"):
        shared, own = cache_folder(name), folder / "cache" / name
        assert shared is not None
        shared.mkdir(parents=True, exist_ok=True)
        own.parent.mkdir(exist_ok=True)
        own.symlink_to(shared)
    return str(folder / "cache")


def evo_here(*arguments: object, cwd: Path) -> Ran:
    """Run `evo` in this process: for complaints and reading commands, which take less time than a process to start."""
    from evo.cli.app import run

    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(list(map(str, arguments)))
    return Ran(code, out.getvalue(), err.getvalue())


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "EVO_TRACEBACK"))}
    identity = {
        f"GIT_{who}_{what}": "tester@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    return kept | identity | dict(more or {})


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True, env=environment())
    return done.stdout.strip()


def commit_all(root: Path, message: str = "change") -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)


def new_repository(root: Path) -> Path:
    """A git repository with the task and a file of each kind of variant, committed."""
    return Path(shutil.copytree(_template(), root, dirs_exist_ok=True))


# A start, a keep, then reverts: with --keep-neutral, edits without a gain are tried too.
ANEW = ("iterate", "scale", "--device", "sim:l4", "--from", "ladder/00_slow.cu", "--keep-neutral")


@functools.cache
def evolved() -> tuple[Path, Ran]:
    """A repository after one run, and what it printed: a start, a wrong patch, a rung that is kept, one revert.

    Made once in a process; read only, so whoever changes something copies it.
    """
    root = new_repository(Path(tempfile.mkdtemp(prefix="evo-tests-")) / "mine")
    atexit.register(shutil.rmtree, root.parent, ignore_errors=True)
    return root, evo(*ANEW, "--patch", "wrong.cu", "--iterations", 3, "--json", cwd=root)


@functools.cache
def _template() -> Path:
    """Made once in a process: git takes longer to start than a copy to make."""
    root = Path(tempfile.mkdtemp(prefix="evo-tests-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    git(root, "init", "--quiet", "--initial-branch", "main")
    write_task(root)
    for name, text in (("wrong", WRONG), ("unsafe", UNSAFE), ("broken", BROKEN)):
        (root / f"{name}.cu").write_text(text)
    commit_all(root, "a task")
    return root


def named(text: str, kernel: str) -> str:
    """The task's kernel by another name: what `fake_gpu` does, or how long it takes there."""
    return text.replace("launch scale", f"launch {kernel}").replace("void scale(", f"void {kernel}(")


def write_task(root: Path) -> None:
    folder = root / "kernels" / "scale"
    (folder / "ladder").mkdir(parents=True)
    (folder / "task.yaml").write_text(TASK_YAML)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "ladder" / "00_slow.cu").write_text(SLOW)
    (folder / "ladder" / "10_fast.cu").write_text(FAST)


def fails(ran: Ran, code: int, *words: str) -> None:
    """One error line and one hint line on stderr, nothing on stdout, the right exit code."""
    assert ran.code == code, ran.err
    assert ran.out == ""
    errors = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    hints = [line for line in ran.err.splitlines() if line.startswith("hint: ")]
    assert len(errors) == 1
    assert len(hints) == 1
    assert "Traceback" not in ran.err
    for word in words:
        assert word in ran.err


def tiny_task(folder: Path, text: str) -> Task:
    """The small task with another task.yaml."""
    place = folder / "scale"
    (place / "ladder").mkdir(parents=True, exist_ok=True)
    (place / "ladder" / "00_slow.cu").write_text(SLOW)
    (place / "reference.py").write_text(REFERENCE)
    (place / "task.yaml").write_text(text)
    return read_task(place)
