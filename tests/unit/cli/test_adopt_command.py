"""`evo adopt` as a user calls it: what --json says, corrections on a terminal, another reference, refusals."""

from __future__ import annotations

import io
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evo.cli.app import run
from evo.interop.adopt.draft import draft_of
from evo.interop.adopt.given_reference import given_reference
from evo.interop.adopt.program import read_program
from evo.spec.reference import load_reference
from evo.spec.task import load_task

SAXPY = Path(__file__).parents[2] / "data" / "adopt" / "saxpy_managed.cu"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVO_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def adopted(capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    assert run(["adopt", str(SAXPY), "--yes", "--json", "--axis", "N=70000", *options]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.long
def test_json_says_what_was_assumed_and_how_to_change_it(capsys: pytest.CaptureFixture[str]) -> None:
    found = adopted(capsys, "--name", "mine")
    assert (found["task"], Path(found["variant"]).is_file()) == ("mine", True)
    rows = {(row["what"], row["value"].split(":")[0].split(" ")[0]): row for row in found["assumed"]}
    assert rows["axis", "N"]["option"] == "--axis N=70000"
    assert rows["tensor", "y"]["option"] == "--tensor y:inout"
    assert "inout float32[N]" in rows["tensor", "y"]["value"]
    assert found["unproven"]


@pytest.mark.long
@pytest.mark.parametrize("given", ["formula", "function"])
def test_another_reference_is_what_the_outputs_are_held_against(
    given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.py").write_text("def saxpy(x, y, N, a):\n    return a * x + y\n")
    reference = "y = a * x + y" if given == "formula" else "model.py:saxpy"
    found = adopted(capsys, "--name", "mine", "--reference", reference)
    assert found["reference"] != adopted(capsys, "--name", "other")["reference"]
    task = load_task(tmp_path, "mine")
    with closing(load_reference(task)) as own:
        made = own.expectation(task.check[0], 3)
    (scalar,) = (float(each.value.text) for each in task.scalars)
    wanted = scalar * made.inputs["x"].astype(np.float64) + made.inputs["y"]
    assert np.allclose(made.expected["y"], wanted, rtol=1e-12)


@pytest.mark.long
def test_two_corrections_are_asked_for_and_no_third(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("--scalar a=5\n--scalar a=3\n--scalar a=4\n"))
    assert run(["adopt", str(SAXPY), "--name", "mine", "--axis", "N=70000"]) == 0
    capsys.readouterr()
    task = load_task(tmp_path, "mine")
    assert [float(each.value.text) for each in task.scalars] == [3.0]


@pytest.mark.long
def test_an_empty_answer_takes_what_is_assumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("\n--scalar a=3\n"))
    assert run(["adopt", str(SAXPY), "--name", "mine", "--axis", "N=70000"]) == 0
    capsys.readouterr()
    assert [float(each.value.text) for each in load_task(tmp_path, "mine").scalars] == [2.0]


@pytest.mark.parametrize(
    ("options", "words", "hint"),
    [
        (["--name", "my-kernel"], "--name my-kernel: not a task name", "--name my_kernel"),
        (["--axis", "N=5,N=6"], "--axis N is given twice: 5 and 6", "one length"),
        (["--scalar", "b=2"], "--scalar b: no kernel takes this number", "a"),
        (["--reference", "y = a * q + y"], "unknown name 'q'", "x, y, N, a"),
        (["--reference", "y = a * x +"], "not Python", "--reference"),
        (["--reference", "q = a * x + y"], "no tensor q", "x, y, N, a"),
        (["--reference", "model.py:saxpy"], "model.py: no such file", ".py file"),
        (["--reference", "model.py"], "model.py: which function", "model.py:NAME"),
        (["--axis", "N=1M"], "N=1M: not a length", "N=4096"),
        (["--axis", "N=2^20"], "N=2^20: not a length", "'N=1<<20'"),  # in C it is 22
    ],
)
def test_mistakes_are_told_before_the_original_is_run(
    options: list[str], words: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["adopt", str(SAXPY), "--yes", *options]) == 2
    said = capsys.readouterr().err
    error, _, rest = said.partition("hint:")
    assert words in error.partition("error:")[2]
    assert hint in rest
    assert "running the original" not in said


@pytest.mark.parametrize(
    ("name", "text", "words", "hint"),
    [
        ("k.cu", "int a;\n<<<<<<< HEAD\n__global__ void k() {}\n=======\n>>>>>>> b\n", "k.cu:2: a conflict", "resolve"),
        ("k.ipynb", '{"source": ["__global__ void k(float* x) {}"]}', "k.ipynb: a notebook", ".cu file"),
        (
            "k.cu",
            "__global__ void k(int n) {}\nint main() { k<<1, 32>>(7); }",
            "k.cu:2: no launch",
            "k<<<grid, block>>>",
        ),
        ("k.cu", "__global__ void k(int n) {}\nint main() { k(7); }", "k.cu:2: no launch", "`k(7);` is no launch"),
        ("k.cu", "__global__ void k() {}\nint main() { hipLaunchKernelGGL(k, 1, 1, 0, 0); }", "k.cu:1", "hipLaunch"),
        (
            "k.cu",
            '#include "mine.cuh"\n__global__ void k(float* x) { x[threadIdx.x] = twice(1.0f); }\n'
            "int main() { float* x; cudaMalloc(&x, 128); k<<<1, 32>>>(x); }",
            "it does not compile",
            "mine.cuh",
        ),
    ],
)
def test_a_file_that_is_none_of_cuda_is_refused_with_what_to_do(
    name: str, text: str, words: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(name).write_text(text)
    assert run(["adopt", name, "--yes"]) == 3
    error, _, rest = capsys.readouterr().err.partition("hint:")
    assert words in error
    assert hint in rest


@pytest.mark.long
def test_what_is_next_can_be_run_from_a_folder_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There the file of that name is the one with the host code; letters of other alphabets are none of a task's."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    Path("größe.cu").write_text(SAXPY.read_text())
    assert run(["adopt", "größe.cu", "--yes", "--axis", "N=70000"]) == 0
    commands = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("  evo check")]
    assert run([*commands[0][1:], "--device", "sim:l4"]) == 0


def test_an_option_without_its_value_is_told_with_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["adopt", "k.cu", "--kernel"]) == 2
    assert "`evo adopt --help` lists its options" in capsys.readouterr().err


def test_an_address_is_to_be_downloaded_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["adopt", "https://example.org/a/k.cu", "--yes"]) == 3
    assert "`curl -LO`), then give k.cu" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("statement", "block", "options", "words", "hint"),
    [
        ("y[i] = x[i];", "256", ["--out", "x"], "which the kernel has to write", "only reads x, a pointer to `const`"),
        ("y[i] = clock();", "256", [], "k.cu:3: the original does not run on the simulator: reads a clock", "leave it"),
        ("y[i] = x[i];", "2048", [], "block.x = 2048, allowed 1 to 1024", "1024 threads at most"),
    ],
    ids=["an output that is const", "a clock", "a large block"],
)
def test_what_a_kernel_cannot_do_is_not_blamed_on_what_was_assumed(
    statement: str, block: str, options: list[str], words: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    launcher = f"void go(const float* x, float* y) {{ k<<<4, {block}>>>(x, y); }}"
    head = "__global__ void k(const float* x, float* y) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    Path("k.cu").write_text(f"{head}    {statement}\n}}\n{launcher}\n")
    assert run(["adopt", "k.cu", "--yes", *options]) == 3
    error, _, rest = capsys.readouterr().err.partition("hint:")
    assert words in error
    assert hint in rest


def test_a_link_that_leads_to_itself_is_no_defect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "loop.cu").symlink_to("loop.cu")
    assert run(["adopt", "loop.cu", "--yes"]) == 3
    assert "hint:" in capsys.readouterr().err


@pytest.mark.long
def test_a_reference_that_contradicts_the_kernel_is_refused_with_the_first_element(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["adopt", str(SAXPY), "--yes", "--axis", "N=70000", "--reference", "y = a * x - y"]) == 2
    said = capsys.readouterr().err
    assert "N=64" in said
    assert "y[0]" in said
    assert not (tmp_path / "kernels").exists()


def test_a_bare_function_is_defined_in_the_reference(tmp_path: Path) -> None:
    draft = draft_of(read_program(SAXPY, None, {}), {})
    scope: dict[str, Any] = {"np": np}
    exec(given_reference("y = relu(a * x) + y", draft, tmp_path).body, scope)
    found = scope["expected"]({"x": np.array([-1.0, 2.0]), "y": np.ones(2)}, {"N": 2})
    assert found["y"].tolist() == [1.0, 5.0]
