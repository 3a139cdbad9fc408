"""docs/records.md and docs/data/schemas.json, from the types that are written. docs/generate.py runs it."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from json_schema import schema_of, types_within

# What is written -> (its types, whether as an array, what it holds).
FILES: Mapping[str, tuple[str, bool, str]] = {
    "population/TASK/runs/RUN.jsonl": ("evo.records.trials:Record", False, "one trial a line, in order"),
    "population/TASK/looks/RUN.jsonl": ("evo.records.trials:FirstLook", False, "one first look a line, in order"),
    "leaderboard.json": ("evo.records.leaderboard:Leaderboard", False, "the champions; follows from the records"),
    "nightly.json": ("evo.audit.nightly.results:Night", False, "what `evo nightly` has found"),
    "measured/CHIP/rates-DRIVER.json": ("evo.analysis.calibration:Calibration", False, "in the user's cache"),
    "measured/CHIP/baseline-TASK-DRIVER.json": (
        "evo.analysis.calibration:MeasuredBaseline",
        False,
        "in the user's cache",
    ),
}
COMMANDS: Mapping[str, tuple[str, bool, str]] = {
    "iterate": ("evo.search.events:TrialResult evo.search.events:RunSummary", False, "an object a line, one per trial"),
    "leaderboard": ("evo.records.leaderboard:Leaderboard", False, "the champions"),
    "check": ("evo.cli.outputs:CheckOutput", False, "the verdict"),
    "bench": ("evo.cli.outputs:BenchOutput", False, "the times"),
    "try": ("evo.cli.outputs:BenchOutput", False, "the verdict, the times and the decision"),
    "explain": ("evo.cli.explain_outputs:ExplainOutput", False, "loops, accesses and what may be rewritten"),
    "compile": ("evo.results:CompileReport", False, "what the compiler says"),
    "limits": ("evo.cli.analysis_outputs:LimitsOutput", False, "floors by case"),
    "derive": ("evo.cli.analysis_outputs:DeriveOutput", False, "configurations"),
    "derive --check": ("evo.cli.analysis_outputs:LayoutsOutput", False, "the layouts of a file"),
    "baseline": ("evo.cli.analysis_outputs:BaselineOutput", False, "library calls"),
    "profile": ("evo.cli.profile_output:Profile", False, "counts"),
    "tune FILE": ("evo.cli.analysis_outputs:TuneOutput", False, "configurations that were tried"),
    "tune --space FILE": (
        "evo.cli.analysis_outputs:ReplayedSpaceOutput evo.cli.analysis_outputs:DeclaredSpaceOutput",
        False,
        "a replay, or what a declaration says",
    ),
    "operators": ("evo.operators.proposal:OperatorDoc", True, "one object per operator"),
    "insights": ("evo.records.insights:Insight", True, "one object per kind of change"),
    "insights --rewrites": ("evo.records.insights:RewriteStatistics", True, "one object per operator with rewrites"),
    "insights --rules": ("evo.records.insights:RuleEvidence", True, "one object per rule"),
    "log": ("evo.cli.outputs:LoggedTrial", True, "one object per trial"),
    "log --looks": ("evo.records.trials:FirstLook", True, "one object per first look"),
    "show": ("evo.cli.outputs:ShownRecord", False, "one trial"),
    "replay": ("evo.cli.outputs:ReplayOutput", False, "a trial then and now"),
    "adopt": ("evo.cli.analysis_outputs:AdoptOutput", False, "what was made and what was assumed"),
    "report": ("evo.cli.pages.csv_json:ReportOutput", False, "what the page shows"),
    "import kernelbench": ("evo.interop.kernelbench:ImportAnswer", True, "one object per file"),
    "redteam": ("evo.cli.analysis_outputs:RedteamOutput", False, "one row per attack"),
    "nightly": ("evo.audit.nightly.results:Night", False, "what was found"),
    "doctor": ("evo.cli.analysis_outputs:DoctorOutput", False, "what is here"),
    "doctor --llm": ("evo.cli.analysis_outputs:EndpointsOutput", False, "what a language model's endpoint understands"),
    "doctor --calibrate": ("evo.cli.analysis_outputs:CalibrationOutput", False, "the rates of a GPU"),
}

INTRO = """\
# Records and `--json`

What evo writes is JSON of the types below. Its JSON Schemas (2020-12) are in [data/schemas.json](data/schemas.json),
under `written` by the names of the first two tables.

- What was not measured is absent, never 0. An optional field is also absent if it is an empty list, object or text.
- Measured times (`warm`, `cold`, `p50_us`) and modelled times (`modelled_us`) are different fields. Names that end in
  `_us` are microseconds, in `_s` seconds.
- Fields may be added. The meaning of a field of this page stays.
- Files are read strictly: a field of the wrong type is refused with file, line and field. Fields that earlier versions
  did not write have defaults.
"""


@dataclass(frozen=True, slots=True)
class _Written:
    name: str
    types: Any
    many: bool
    holds: str

    @property
    def schema(self) -> dict[str, Any]:
        return schema_of(self.types, many=self.many)


def records_page(note: str) -> str:
    """The page: files, commands, then every type with its fields."""
    files, commands = list(_all(FILES)), list(_all(COMMANDS))
    lines = [note, INTRO, "| file | holds | type |", "|---|---|---|"]
    lines += [f"| `{one.name}` | {one.holds} | {_links(one)} |" for one in files]
    lines += ["", "| command | prints | type |", "|---|---|---|"]
    lines += [f"| `evo {one.name} --json` | {one.holds} | {_links(one)} |" for one in commands]
    for kind, shape in _types([*files, *commands]).items():
        if "enum" in shape:
            lines += ["", f"## {kind}", "", "One of " + ", ".join(f"`{word}`" for word in shape["enum"]) + "."]
            continue
        lines += ["", f"## {kind}", "", shape["description"], "", "| field | type | is |", "|---|---|---|"]
        for field, about in shape["properties"].items():
            always = "" if field in shape["required"] else " (optional)"
            lines.append(f"| `{field}` | {_words(about)}{always} | {_cell(about.get('description', ''))} |")
    return "\n".join(lines) + "\n"


def schemas_text() -> str:
    """The schemas by file and command, with the types that they share in one `$defs`."""
    whole = [*_all(FILES), *_all(COMMANDS)]
    roots = {(f"evo {one.name} --json" if one.name in COMMANDS else one.name): one.schema for one in whole}
    parts: dict[str, Any] = {}
    for schema in roots.values():
        parts |= schema.pop("$defs")
        schema.pop("$schema")
    written = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": dict(sorted(parts.items()))}
    return json.dumps(written | {"written": roots}, indent=1) + "\n"


def _all(table: Mapping[str, tuple[str, bool, str]]) -> Iterator[_Written]:
    for name, (places, many, holds) in table.items():
        kinds = [getattr(importlib.import_module(place.split(":")[0]), place.split(":")[1]) for place in places.split()]
        union = kinds[0]
        for kind in kinds[1:]:
            union = union | kind
        yield _Written(name, union, many, holds)


def _types(whole: list[_Written]) -> dict[str, dict[str, Any]]:
    """The objects by name, in the order in which they are met. Two types of one name are an error."""
    found: dict[str, type] = {}
    shapes: dict[str, dict[str, Any]] = {}
    for one in whole:
        parts = one.schema["$defs"]
        for kind in types_within(one.types):
            if found.setdefault(kind.__name__, kind) is not kind:
                raise ValueError(f"two types are named {kind.__name__}: {kind} and {found[kind.__name__]}")
            shapes[kind.__name__] = parts[kind.__name__]
        shapes |= {name: shape for name, shape in parts.items() if "enum" in shape}
    return shapes


def _links(one: _Written) -> str:
    first = [kind for kind in types_within(one.types) if kind in getattr(one.types, "__args__", (one.types,))]
    linked = " or ".join(f"[{kind.__name__}](#{kind.__name__.lower()})" for kind in first)
    return f"list of {linked}" if one.many else linked


def _words(shape: Mapping[str, Any]) -> str:
    """A type in words."""
    if "$ref" in shape:
        name = shape["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in shape:
        return " or ".join(dict.fromkeys(_words(each) for each in shape["anyOf"]))
    if "enum" in shape:
        return " or ".join(f"`{json.dumps(each)}`" for each in shape["enum"])
    kind = shape.get("type")
    if kind == "array":
        return f"list of {_words(shape['items'])}" if shape.get("items") else "list"
    if kind == "object":
        inner = shape.get("additionalProperties")
        return f"{_words(inner)} by name" if isinstance(inner, dict) and inner else "object"
    return {"string": "text", "null": "null", None: "any"}.get(kind, kind)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
