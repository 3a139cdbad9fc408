"""A plug-in as docs/plugins.md has it, installed into a folder: listed, asked, and refused if it is broken."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from long_cases import long
from tiny import evo, fails, new_repository

from evo.cuda.source import classify, tree_difference
from evo.operators.rules import Rule, example_variant
from evo.records.trials import load_records

PAGE = Path(__file__).parents[3] / "docs" / "plugins.md"
OPERATOR, RULE, PROJECT, LAB, LAB_PROJECT = (
    re.search(rf"<!-- run: {label} -->\n```\w+\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]  # type: ignore[index]
    for label in ("operator", "rule", "entry points", "device and importer", "device and importer entry points")
)
CODE = f"{OPERATOR}\n\n{RULE}"


def installed(folder: Path, code: str = CODE, project: str = PROJECT) -> dict[str, str]:
    """What `pip install` leaves behind of the package, and the environment in which evo finds it."""
    made = tomllib.loads(project)["project"]
    info = folder / f"{made['name'].replace('-', '_')}-{made['version']}.dist-info"
    info.mkdir(parents=True)
    (folder / f"{made['name'].replace('-', '_')}.py").write_text(code, encoding="utf-8")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {made['name']}\nVersion: {made['version']}\n")
    points = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in rows.items())
        for group, rows in made["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(points), encoding="utf-8")
    return {"PYTHONPATH": str(folder)}


def test_a_plugin_adds_a_rule_and_an_operator_that_a_run_can_ask(tmp_path: Path) -> None:
    env, root = installed(tmp_path / "site"), new_repository(tmp_path / "mine")
    listed = evo("operators", "--json", cwd=root, env=env).json
    by_name = {row["name"]: row for row in listed}
    assert by_name["doubled"]["sentence"] == "Doubles one knob."
    assert "__ldcs" in by_name["rules.cache/streamed"]["after"]
    assert {row["name"] for row in evo("operators", "--json", cwd=root).json} == by_name.keys() - {
        "doubled",
        "rules.cache/streamed",
    }
    ran = evo(
        *("iterate", "scale", "--device", "sim:l4", "--operators", "doubled,rules.cache"),
        *("--iterations", 2, "--from", "ladder/00_slow.cu", "--keep-neutral"),  # so what gains nothing is tried too
        cwd=root,
        env=env,
    )
    assert ran.code == 0, ran.err
    trials = [record for record in load_records(root, "scale") if record.proposed]
    assert {record.operator for record in trials} == {"doubled", "rules.cache"}
    assert all(record.status.passed for record in trials)


def test_the_operator_of_the_page_is_a_plugin_of_thirty_lines() -> None:
    assert len(OPERATOR.splitlines()) <= 30


@pytest.mark.long
def test_a_plugin_that_pip_installs_is_listed(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "evo_more.py").write_text(CODE, encoding="utf-8")
    (tmp_path / "package" / "pyproject.toml").write_text(
        f'{PROJECT}\n[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    )
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--target", tmp_path / "site", tmp_path / "package"], check=True, capture_output=True)
    root = new_repository(tmp_path / "mine")
    listed = evo("operators", "--json", cwd=root, env={"PYTHONPATH": str(tmp_path / "site")}).json
    assert {"doubled", "rules.cache/streamed"} <= {row["name"] for row in listed}


@pytest.fixture
def lab(tmp_path: Path) -> dict[str, str]:
    return installed(tmp_path / "lab", LAB, LAB_PROJECT)


@pytest.mark.long
def test_a_plugin_adds_a_device_that_models_times(tmp_path: Path, lab: dict[str, str]) -> None:
    root = new_repository(tmp_path / "mine")
    file = "kernels/scale/ladder/00_slow.cu"
    plain = evo("bench", file, "--device", "sim:l4", "--json", cwd=root).json
    eager = evo("bench", file, "--device", "eager", "--json", cwd=root, env=lab).json
    assert (eager["device"], eager["timing"], eager["status"]) == ("eager", "modelled", "correct")
    longer = [a["modelled_us"] - b["modelled_us"] for a, b in zip(eager["cases"], plain["cases"], strict=True)]
    assert longer == [pytest.approx(3.0, abs=1e-3)] * len(longer)
    assert evo("check", "wrong.cu", "--device", "eager:h200", "--json", cwd=root, env=lab).json["status"] == "wrong"
    fails(evo("bench", file, "--device", "eager", cwd=root), 2, "eager")  # without the plug-in


@pytest.mark.long
def test_a_plugin_adds_an_importer(tmp_path: Path, lab: dict[str, str]) -> None:
    root = new_repository(tmp_path / "mine")
    (root / "wave.json").write_text('{"formula": "torch.sin(x) + 1", "shape": [64, 96]}')
    ran = evo("import", "formula", "wave.json", "--json", cwd=root, env=lab)
    assert ran.code == 0, ran.err
    assert ran.json["name"] == "wave"
    assert (root / "kernels" / "wave" / "reference.py").is_file()
    fails(evo("import", "formula", "wave.json", cwd=root), 2, "kernelbench")  # without the plug-in


def test_the_rule_of_the_page_does_what_its_examples_say() -> None:
    names: dict[str, object] = {"__name__": "page"}
    exec(compile(CODE, "plugins.md", "exec"), names)
    rule = names["STREAMED"]
    assert isinstance(rule, Rule)
    parent = example_variant(rule.examples[0].before)
    child = rule.build(parent, rule.applications(parent)[0])
    assert child is not None
    assert child.text == example_variant(rule.examples[0].after).text
    assert classify(tree_difference(parent.text, child.text)).is_single


@pytest.mark.parametrize(
    ("code", "project", "word"),
    [
        (CODE, PROJECT.replace("evo_more:STREAMED", "evo_more:GONE"), "GONE"),
        long(CODE, PROJECT.replace("evo_more:STREAMED", "evo_more:HEAD"), "streamed"),
        long(CODE.replace('name="streamed"', 'name="unroll"'), PROJECT, "unroll"),
        long(CODE, PROJECT.replace("doubled =", "ladder ="), "ladder"),
        long(CODE.replace('name = "doubled"', 'name = "tripled"'), PROJECT, "tripled"),
    ],
    ids=["no such name", "no rule", "a rule of that name", "an operator of that name", "another name than its own"],
)
def test_a_plugin_that_does_not_fit_is_an_error_of_the_command_line(
    tmp_path: Path, code: str, project: str, word: str
) -> None:
    env, root = installed(tmp_path / "site", code, project), new_repository(tmp_path / "mine")
    asked = ("iterate", "scale", "--device", "sim:l4", "--operators", "rules.unroll,doubled,ladder", "--iterations", 1)
    fails(evo(*asked, cwd=root, env=env), 2, word)
