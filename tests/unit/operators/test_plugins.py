"""A plug-in as docs/plugins.md has it, installed into a folder: listed, asked, and refused if it is broken."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from tiny import evo, fails, new_repository

from evo.cuda.source import classify, tree_difference
from evo.operators.rules import Rule, example_variant
from evo.records.trials import load_records

PAGE = Path(__file__).parents[3] / "docs" / "plugins.md"
CODE, PROJECT = (
    re.search(rf"<!-- run: {label} -->\n```\w+\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]  # type: ignore[index]
    for label in ("plugin", "entry points")
)


def installed(folder: Path, code: str = CODE, project: str = PROJECT) -> dict[str, str]:
    """What `pip install` leaves behind of the package, and the environment in which evo finds it."""
    made = tomllib.loads(project)["project"]
    info = folder / f"{made['name'].replace('-', '_')}-{made['version']}.dist-info"
    info.mkdir(parents=True)
    (folder / "evo_more.py").write_text(code, encoding="utf-8")
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
        *("--iterations", 2, "--from", "ladder/00_slow.cu"),
        cwd=root,
        env=env,
    )
    assert ran.code == 0, ran.err
    trials = [record for record in load_records(root, "scale") if record.proposed]
    assert {record.operator for record in trials} == {"doubled", "rules.cache"}
    assert all(record.status.passed for record in trials)


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
        (CODE, PROJECT.replace("evo_more:STREAMED", "evo_more:HEAD"), "streamed"),
        (CODE.replace('name="streamed"', 'name="unroll"'), PROJECT, "unroll"),
        (CODE, PROJECT.replace("doubled =", "ladder ="), "ladder"),
        (CODE.replace('name = "doubled"', 'name = "tripled"'), PROJECT, "tripled"),
    ],
    ids=["no such name", "no rule", "a rule of that name", "an operator of that name", "another name than its own"],
)
def test_a_plugin_that_does_not_fit_is_an_error_of_the_command_line(
    tmp_path: Path, code: str, project: str, word: str
) -> None:
    env, root = installed(tmp_path / "site", code, project), new_repository(tmp_path / "mine")
    asked = ("iterate", "scale", "--device", "sim:l4", "--operators", "rules.unroll,doubled,ladder", "--iterations", 1)
    fails(evo(*asked, cwd=root, env=env), 2, word)
