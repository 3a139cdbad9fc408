"""docs/records.md: every `--json` is listed, and what is written and printed is what its schemas say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from long_cases import long

from evo.cli.app import parser, run

ROOT = Path(__file__).parents[2]
FILE = ROOT / "kernels" / "rmsnorm" / "ladder" / "10_block.cu"
SPACE = ROOT / "benchmarks" / "spaces" / "attention_scalar_H200_T4.json.gz"
UNLISTED: set[str] = set()


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    return json.loads((ROOT / "docs" / "data" / "schemas.json").read_text(encoding="utf-8"))


def problems(schemas: dict[str, Any], name: str, data: object) -> Iterator[str]:
    """What a schema finds in data, and each field that it does not have."""
    closed = {
        part: shape | ({"additionalProperties": False} if "properties" in shape else {})
        for part, shape in schemas["$defs"].items()
    }
    schema = schemas["written"][name] | {"$defs": closed}
    for error in jsonschema.Draft202012Validator(schema).iter_errors(data):
        yield f"{error.json_path}: {error.message}"


def test_the_schemas_are_schemas(schemas: dict[str, Any]) -> None:
    whole = {"$defs": schemas["$defs"], "anyOf": list(schemas["written"].values())}
    jsonschema.Draft202012Validator.check_schema(whole)


def test_every_command_with_json_is_listed(schemas: dict[str, Any]) -> None:
    listed = {name.split()[1] for name in schemas["written"] if name.startswith("evo ")}
    found = set()
    for name, command in parser().commands.items():  # type: ignore[attr-defined]
        commands = [command, *getattr(command, "commands", {}).values()]
        if any("--json" in param.opts for each in commands for param in each.params):
            found.add(name)
    assert found - listed == UNLISTED
    assert listed <= found


def test_every_type_and_field_is_explained(schemas: dict[str, Any]) -> None:
    shapes = {name: shape for name, shape in schemas["$defs"].items() if "properties" in shape}
    assert [name for name, shape in shapes.items() if not shape["description"]] == []
    fields = {
        f"{name}.{field}": about for name, shape in shapes.items() for field, about in shape["properties"].items()
    }
    assert [name for name, about in fields.items() if not about.get("description")] == []


def test_the_shipped_records_are_what_the_schema_says(schemas: dict[str, Any]) -> None:
    lines = [line for path in sorted(ROOT.glob("population/*/runs/*.jsonl")) for line in path.open(encoding="utf-8")]
    assert lines
    name = "population/TASK/runs/RUN.jsonl"
    assert {problem for line in lines for problem in problems(schemas, name, json.loads(line))} == set()


def test_the_shipped_leaderboard_is_what_the_schema_says(schemas: dict[str, Any]) -> None:
    data = json.loads((ROOT / "leaderboard.json").read_text(encoding="utf-8"))
    assert list(problems(schemas, "leaderboard.json", data)) == []
    data["entries"][0]["colour"] = "red"
    data["entries"][0].pop("variant")
    assert len(list(problems(schemas, "leaderboard.json", data))) == 2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("leaderboard", []),
        ("log", []),
        ("insights", []),
        ("insights --rules", []),
        ("operators", []),
        ("report", []),
        ("limits", ["rmsnorm", "--gpu", "l4"]),
        ("compile", [str(FILE)]),
        ("check", [str(FILE), "--device", "sim:l4"]),
        long("profile", [str(FILE), "--device", "sim:l4"]),
        ("tune --space FILE", [str(SPACE), "--runs", "2", "--budget", "20"]),
    ],
)
def test_what_a_command_prints_is_what_the_schema_says(
    schemas: dict[str, Any], capsys: pytest.CaptureFixture[str], name: str, words: list[str]
) -> None:
    command = [word for word in name.split() if word != "FILE"]
    assert run(["--root", str(ROOT), *command, *words, "--json"]) == 0
    assert list(problems(schemas, f"evo {name} --json", json.loads(capsys.readouterr().out))) == []
