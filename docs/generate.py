"""Write the pages that follow from the code: one for each command, the operators, the simulator's opcode table.

`make docs` runs it; tests/unit/test_docs.py compares the committed pages with its output. Everything about
options comes from the command line itself; only examples and links are written here, and the tests parse the examples.
"""

from __future__ import annotations

import ast
import functools
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import typer

from evo.audit.redteam import PROCEDURES, load_attacks
from evo.cli.app import parser
from evo.cli.command_help import EXAMPLES
from evo.operators import RULES, operator_docs
from evo.records.insights import rule_evidence
from evo.records.trials import load_records
from evo.sim.lower.isa import TABLE

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
from pictures import PICTURES  # noqa: E402
from records_page import records_page, schemas_text  # noqa: E402

_BESIDE = 72  # characters: if the longest example has more, comments go above the examples
NOTE = "<!-- Written by `make docs` from the code. -->"

SEE: Mapping[str, tuple[tuple[str, str], ...]] = {
    "iterate": (
        ("operators.md", "operators"),
        ("llm.md", "a language model"),
        ("cluster.md", "several devices"),
        ("proof.md", "how a gain is proven"),
    ),
    "check": (("proof.md", "the gate"), ("kernels.md", "the format of a `.cu` file")),
    "bench": (("proof.md", "how times are measured and compared"),),
    "try": (("proof.md", "the decision"),),
    "compile": (("kernels.md", "the format of a `.cu` file"),),
    "profile": (("simulator.md", "the simulator"),),
    "tune": (("tune.md", "the search and its comparison"),),
    "operators": (("operators.md", "all rules, and how to write one"),),
    "adopt": (("adopt.md", "what adopt reads, assumes and proves"), ("tasks.md", "tasks")),
    "new": (("tasks.md", "tasks"),),
    "import": (("tasks.md", "tasks"),),
    "export": (("tasks.md", "tasks"),),
    "prompt": (("llm.md", "strategies and answers"),),
    "mcp": (("mcp.md", "the tools of an agent"),),
    "redteam": (("redteam.md", "the attacks"),),
    "nightly": (("nightly.md", "a runner, step by step"),),
    "init": (("tutorial.md", "the first ten minutes"),),
    "replay": (("proof.md", "the content of a record"),),
    "show": (("proof.md", "the content of a record"),),
}

EXITS = """\
| exit code | means |
|---|---|
| 0 | done |
| 1 | the variant failed (`check`, `bench`, `try`, `compile`), an attack won, or a champion was lost (`nightly`) |
| 2 | an unknown option, task, case or device |
| 3 | a task or a file is invalid: file, line and field |
| 4 | the device is missing |
| 5 | a fault of the machine or of evo; it never counts against a variant |
| 6 | the git repository is not in a state that evo could commit to |
"""


def pages() -> dict[str, str]:
    """All generated pages: text by path below docs/."""
    found = {f"commands/{name}.md": command_page(name) for name in commands()}
    return {
        "commands/README.md": index_page(),
        **found,
        **{name: _filled(name) for name in ("operators.md", "simulator.md", "design.md", "redteam.md")},
        **{name: draw() for name, draw in PICTURES.items()},
        "records.md": records_page(NOTE),
        "data/schemas.json": schemas_text(),
    }


@functools.cache
def commands() -> dict[str, typer.core.TyperCommand]:
    """Every command of `evo`, in the order of its help."""
    return dict(parser().commands)  # type: ignore[attr-defined]


def index_page() -> str:
    """The list of all commands."""
    rows = [f"| [`evo {name}`]({name}.md) | {_sentences(command)[0]} |" for name, command in commands().items()]
    intro = (
        "`--root DIR` names the repository, `--version` prints the version. `evo --install-completion` adds Tab"
        " completion of commands, tasks, cases, chips and operators. stdout is data, stderr is progress; every failure"
        " prints an `error:` line and a `hint:` line."
    )
    return "\n".join([NOTE, "# Commands", "", "| command | does |", "|---|---|", *rows, "", intro, "", EXITS])


def command_page(name: str) -> str:
    """One command: what it does, examples, arguments and options."""
    command = commands()[name]
    context = typer.Context(command, info_name=name, parent=typer.Context(parser(), info_name="evo"))
    first, rest = _sentences(command)
    lines = [NOTE, f"# evo {name}", "", f"{first} {rest}".strip(), ""]
    if examples := EXAMPLES.get(name):
        width = max(len(line) for line, _ in examples)
        beside = [f"{line:<{width}}   # {why}" for line, why in examples]
        above = [word for line, why in examples for word in (f"# {why}", line)]
        lines += ["```", *(beside if width <= _BESIDE else above), "```", ""]
    if sample := samples().get(name):
        lines += ["It prints, for instance:", "", "```console", sample, "```", ""]
    for kind, title in (("argument", "argument"), ("option", "option")):
        rows = list(_rows(command, context, kind))
        if rows:
            lines += [f"| {title} | is |", "|---|---|", *rows, ""]
    links = [*SEE.get(name, ()), ("commands/README.md", "all commands and exit codes")]
    lines += ["See " + ", ".join(f"[{why}]({_link(page)})" for page, why in links) + "."]
    return "\n".join(lines) + "\n"


@functools.cache
def samples() -> dict[str, str]:
    """By command, one line of the pages that the tests run, with its output as shown there."""
    found: dict[str, str] = {}
    for page in ("tutorial.md", "tour.md"):
        text = (DOCS / page).read_text(encoding="utf-8")
        for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
            for shown in re.split(r"^(?=\$ )", block, flags=re.MULTILINE):
                command = re.match(r"\$ evo (\w+)", shown)
                if command and "\n" in shown.strip():
                    found.setdefault(command[1], shown.strip())
    return found


def _link(page: str) -> str:
    return page.removeprefix("commands/") if page.startswith("commands/") else f"../{page}"


def _sentences(command: typer.core.TyperCommand) -> tuple[str, str]:
    """The first sentence of a command's help, and the others."""
    first, _, rest = " ".join((command.help or "").split()).partition(". ")
    return first.rstrip(".") + ".", rest


def _rows(command: typer.core.TyperCommand, context: typer.Context, kind: str) -> Iterator[str]:
    for param in command.params:
        record = param.get_help_record(context)
        if record is None or param.param_type_name != kind:
            continue
        shown = record[0]
        if kind == "argument":
            shown = re.sub(r"[\[\]{}]", "", str(param.metavar or shown.split()[0])) + "..." * (param.nargs == -1)
        text, notes = re.fullmatch(r"(.*?)(?:\s*\[([^\[\]]*)\])?", record[1], re.DOTALL).groups()  # type: ignore[union-attr]
        kept = [note for note in (notes or "").split("; ") if note.startswith(("default:", "env var:", "required"))]
        more = f" ({', '.join(_note(note) for note in kept)})" if kept else ""
        yield f"| `{_plain(shown)}` | {_plain(text)}{more} |".replace("|  (", "| (")


def _note(note: str) -> str:
    word, colon, value = note.partition(": ")
    return f"{word.replace('env var', 'environment')} `{value}`" if colon else word


def _plain(text: str) -> str:
    choices = re.sub(r"[<\[]((?:\w+\|)+\w+)[>\]]", r"\1", text)
    return " ".join(choices.split()).replace("|", "\\|")


def _filled(name: str) -> str:
    """A hand-written page with the parts between `<!-- generated: PART -->` and `<!-- end -->` filled from the code."""
    parts = {
        "rules": rules_part,
        "opcodes": opcodes_part,
        "families": families_part,
        "layers": layers_part,
        "attacks": attacks_part,
    }
    text = (DOCS / name).read_text(encoding="utf-8")
    return re.sub(
        r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)",
        lambda match: f"{match[1]}{parts[match[2]]()}{match[3]}",
        text,
        flags=re.DOTALL,
    )


def layers_part() -> str:
    """The rooms of evo/ by layer, from tests/support/layers.py."""
    tree = ast.parse((DOCS.parent / "tests" / "support" / "layers.py").read_text(encoding="utf-8"))
    (layers,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.value
        and node.target.id == "LAYERS"
    )
    return "\n".join(["```", *("  ".join(rooms) for rooms in layers), "```", ""])


def attacks_part() -> str:
    """The shipped attacks and the failure modes of procedures, with the verdict that each expects."""
    rows = [
        (
            attack.rows,
            attack.name,
            attack.task,
            attack.idea,
            ", ".join(" or ".join(v) for v in attack.expect.facts.values()),
        )
        for attack in load_attacks()
    ]
    rows += [((p.row,), p.name, p.task, p.idea, f"refused by {p.defence}") for p in PROCEDURES]
    lines = [f"| {' '.join(r)} | `{name}` | {task} | {idea} | {expected} |" for r, name, task, idea, expected in rows]
    return "\n".join(["| row | attack | task | what it does | expected |", "|---|---|---|---|---|", *lines, ""])


def families_part() -> str:
    """The operators that `--operators` takes."""
    rows = [
        f"| `{doc.name}` | {doc.sentence} |"
        for doc in operator_docs()
        if doc.family == "plan" or not doc.name.startswith("rules.")
    ]
    return "\n".join(["| operator | does |", "|---|---|", *rows, ""])


def rules_part() -> str:
    """All rules by family, with their evidence on the kernels of data/rule_evidence.json and in the records."""
    data = json.loads((DOCS / "data" / "rule_evidence.json").read_text(encoding="utf-8"))
    measured = {row.rule: row for row in rule_evidence(load_records(DOCS.parent)) if row.timing == "measured"}
    rows = []
    for rule in RULES:
        seen, trials = data["rules"].get(rule.name), measured.get(rule.name)
        cells = [f"`rules.{rule.family}`", rule.name, rule.sentence]
        places = "its own" if seen and seen.get("own") else f"{seen['kernels']}" if seen else ""
        cells += [places, f"{seen['new_code']} of {seen['tried']}" if seen else ""]
        cells.append(f"{seen['best']:.2f}x" if seen and seen["gains"] else "")
        cells.append(f"{trials.kept} of {trials.trials}, {trials.best or 1:.2f}x" if trials else "")
        rows.append(f"| {' | '.join(cells)} |")
    head = f"| operator | rule | does | applies to, of {data['kernels']} kernels | new machine code, of children |"
    head += " best, modelled | kept of measured trials, best |"
    return "\n".join([head, "|---|---|---|--:|--:|--:|--:|", *rows, ""])


def opcodes_part() -> str:
    """The opcode table: mnemonics with the same modifiers in one row."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name in sorted(
        name for name in TABLE if not name.startswith("@")
    ):  # those are functions of the run-time system
        spec = TABLE[name]
        groups.setdefault(
            (spec.unit, " ".join(sorted(mod for mod in spec.mods if mod.isidentifier() or ":" in mod))), []
        ).append(name)
    rows = [f"| {unit} | `{' '.join(names)}` | {mods} |" for (unit, mods), names in sorted(groups.items())]
    return "\n".join(["| unit | instructions | modifiers |", "|---|---|---|", *rows, ""])


def main() -> int:
    """Write the pages that differ."""
    for name, text in pages().items():
        path = DOCS / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote docs/{name}\n")
    for path in (DOCS / "commands").glob("*.md"):
        if f"commands/{path.name}" not in pages():
            path.unlink()
            sys.stdout.write(f"removed docs/commands/{path.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
