"""The documentation agrees with the code: generated pages, links, examples, layers, the simulator's table."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import shlex
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import typer
import yaml
from layers import LAYERS

import evo
from evo.cli.app import parser
from evo.cuda.compile import Binary, compile_source
from evo.cuda.source import classify, tree_difference
from evo.operators import Rule
from evo.operators.llm import STRATEGIES
from evo.operators.rules import example_variant
from evo.sim.lower.isa import TABLE

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
# What was true on its day: names in these may have moved since.
HISTORY = {DOCS / "log.md", ROOT / "CHANGELOG.md", *(DOCS / "log").glob("*.md")}
GROUP = parser()


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(page: str, label: str) -> list[str]:
    """The code blocks of a page that stand under `<!-- run: label -->`."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"<!-- run: {label} -->\n```\w*\n(.*?)```", text, re.DOTALL)


# --- generated pages


def test_generated_pages_are_those_of_the_code(generator: ModuleType) -> None:
    pages = generator.pages()
    stale = [name for name, text in pages.items() if not (DOCS / name).exists() or (DOCS / name).read_text() != text]
    assert not stale, f"run `make docs` and commit: {stale}"
    assert {f"commands/{path.name}" for path in (DOCS / "commands").iterdir()} == {
        name for name in pages if name.startswith("commands/")
    }


def test_every_option_is_on_its_page(generator: ModuleType) -> None:
    for name, command in generator.commands().items():
        page = generator.command_page(name)
        for param in command.params:
            if param.param_type_name == "option" and not param.hidden and param.name != "help":
                assert f"`{param.opts[0]}" in page, f"{name}: {param.opts}"


def test_examples_parse(generator: ModuleType) -> None:
    for name, examples in generator.EXAMPLES.items():
        for line, _ in examples:
            words = shlex.split(line.partition(" | ")[0])
            assert words[:2] == ["evo", name], line
            given = [word for word in words[2:] if word != "--root"] if name == "init" else words[2:]
            if name == "init":
                given = []
            GROUP.commands[name].make_context(name, given, parent=typer.Context(GROUP, info_name="evo"))


# --- links


def test_links_lead_somewhere() -> None:
    broken = []
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, anchor = target.partition("#")
            if "://" in target:
                continue
            there = (page.parent / path) if path else page
            if not there.exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
            elif anchor and anchor not in anchors(there):
                broken.append(f"{page.relative_to(ROOT)}: {target}: no such heading")
    assert not broken, "\n".join(broken)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as a forge makes them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.replace("`", "").lower()).replace(" ", "-") for head in heads}


def test_no_page_holds_both_sides_of_a_merge() -> None:
    marks = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)
    pages = {page: re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL) for page in PAGES}
    assert [str(page) for page, text in pages.items() if marks.search(text)] == []


def test_every_page_is_listed() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in index, f"docs/README.md does not list {page.name}"


def test_named_files_exist() -> None:
    """Paths in backquotes below the folders of the repository."""
    missing = []
    for page in [page for page in PAGES if page not in HISTORY]:
        for name in re.findall(r"`((?:evo|docs|tests|benchmarks|kernels)/[\w./-]+)`", page.read_text(encoding="utf-8")):
            made_by_reader = name.startswith(("kernels/row_scale", "evo/operators/rules/rounding.py")) or re.search(
                r"/[A-Z]+\b", name
            )
            if not made_by_reader and not (ROOT / name).exists():
                missing.append(f"{page.relative_to(ROOT)}: {name}")
    assert not missing, "\n".join(missing)


def test_commands_in_the_text_exist() -> None:
    wrong = []
    for page in [page for page in PAGES if page not in HISTORY]:
        for name in re.findall(r"`evo ([a-z]+)[ `]", page.read_text(encoding="utf-8")):
            if name not in GROUP.commands:
                wrong.append(f"{page.relative_to(ROOT)}: evo {name}")
    assert not wrong, "\n".join(wrong)


# --- the design page


def test_the_design_page_has_the_layers() -> None:
    text = (DOCS / "design.md").read_text(encoding="utf-8")
    drawn = re.search(r"## Rooms\n.*?```\n(.*?)```", text, re.DOTALL)
    assert drawn is not None
    shown = [set(line.split()) for line in drawn[1].splitlines()]
    assert shown == [set(rooms) for rooms in LAYERS]


def test_the_design_page_names_every_room() -> None:
    text = (DOCS / "design.md").read_text(encoding="utf-8")
    rooms = text.partition("## Rooms")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `(\w+)` \|", rooms, re.MULTILINE))
    unnamed = {room for layer in LAYERS for room in layer} - named
    assert not unnamed, f"give these a word in docs/design.md, Rooms: {sorted(unnamed)}"


# --- the simulator's table


def test_the_simulators_table_names_what_there_is() -> None:
    text = (DOCS / "simulator.md").read_text(encoding="utf-8")
    by_hand, _, rest = text.partition("<!-- generated: opcodes -->")
    generated = rest.partition("<!-- end -->")[0]
    known = {name for name in TABLE if not name.startswith("@")}
    shown = {name for cell in re.findall(r"^\| \w+ \| `(.*?)` \|", generated, re.MULTILINE) for name in cell.split()}
    assert shown == known
    table = by_hand.partition("## Supported instructions")[2]
    in_words = {word.split(".")[0] for cell in re.findall(r"`([^`]+)`", table) for word in cell.split()}
    hidden = {name for name in known if name.split(".")[0] not in in_words}
    assert not hidden, f"in no row of the table by groups: {sorted(hidden)}"


# --- operators


def test_the_rule_of_the_page_works() -> None:
    (code,) = blocks("operators.md", "rule")
    names: dict[str, object] = {}
    exec(compile(code, "operators.md", "exec"), names)
    rules = names["RULES"]
    assert isinstance(rules, tuple)
    for rule in rules:
        assert isinstance(rule, Rule)
        for example in rule.examples:
            parent = example_variant(example.before)
            child = rule.build(parent, rule.applications(parent)[0])
            assert child is not None
            assert child.text == example_variant(example.after).text
            assert classify(tree_difference(parent.text, child.text)).is_single


# --- what stands in several places


def test_version_and_licence_are_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == evo.__version__
    assert citation["license"] == project["license"] == "Apache-2.0"
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").split()[:4] == ["Apache", "License", "Version", "2.0,"]
    assert f"## {evo.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_page_on_models_has_the_strategies() -> None:
    rows = re.findall(
        r"^\| `(\w+)`(?: \(default\))? \| yes", (DOCS / "llm.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert rows == list(STRATEGIES)


def test_the_attacks_are_counted_right() -> None:
    attacks = len(list((ROOT / "evo/audit/redteam/attacks").rglob("*.cu")))
    table = (DOCS / "redteam.md").read_text(encoding="utf-8")
    (said,) = set(re.findall(r"On sim:l4: (\d+) attacks", table))
    assert int(said) >= attacks  # some attacks are procedures and no kernels
    for page in ("README.md", "docs/peers.md", "CHANGELOG.md"):
        assert said in (ROOT / page).read_text(encoding="utf-8"), page


# --- commands and programs in the text


def shown_commands(page: Path) -> list[str]:
    """Command lines of a page's code blocks, without prompts, remarks and what comes after a pipe."""
    text = page.read_text(encoding="utf-8")
    every = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    fenced = [block for label, block in every if label in ("", "console", "sh", "bash")]
    indented = re.findall(r"^    (evo .*)$", text, re.MULTILINE)
    lines = [line for block in fenced for line in block.replace("\\\n", " ").splitlines()] + indented
    found = []
    for line in lines:
        words = re.sub(r"\s{2,}#.*|\s{3,}\S.*|\s#\s.*", "", line.removeprefix("$ ").strip())
        command = re.split(r" [|;>] |; | && ", words)[0]
        if command.startswith("evo ") and "..." not in command:
            found.append(command)
    return found


def test_commands_in_code_blocks_parse() -> None:
    root = typer.Context(GROUP, info_name="evo")
    wrong, seen = [], 0
    for page in [page for page in PAGES if page not in HISTORY and page.parent.name != "commands"]:
        for line in shown_commands(page):
            words = shlex.split(line)[1:]
            if words[0].startswith("-"):
                continue
            seen += 1
            try:
                GROUP.commands[words[0]].make_context(words[0], words[1:], parent=root)
            except Exception as problem:  # noqa: BLE001 - the parser's errors have no public name
                wrong.append(f"{page.relative_to(ROOT)}: {line}: {problem}")
    assert not wrong, "\n".join(wrong)
    assert seen > 40


def test_the_simulators_example_runs() -> None:
    (code,) = blocks("simulator.md", "simulator")
    kernel = (
        'extern "C" __global__ void scale(const float* x, float* y, int n)'
        " { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 2.0f * x[i]; }"
    )
    binary = compile_source(kernel, name="scale.cu", macros={})
    assert isinstance(binary, Binary)
    names: dict[str, object] = {"ptx_text": binary.ptx}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "simulator.md", "exec"), names)
    assert "2.046e+03]" in printed.getvalue()  # twice 1023
    assert names["result"].faults == ()  # type: ignore[attr-defined]


def test_a_recorded_terminal_shows_what_a_terminal_shows() -> None:
    path = DOCS / "record_terminal.py"
    spec = importlib.util.spec_from_file_location("record_terminal", path)
    assert spec is not None
    assert spec.loader is not None
    recorder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recorder)
    screen = recorder.Screen(12)
    screen.feed("stays\r\n\x1b[31mspinner\x1b[0m\r\n  bar")
    screen.feed("\r\x1b[2K\x1b[1A\x1b[2K")  # as rich takes two live lines away
    screen.feed("\x1b[1mkept\x1b[0m and wrapped")
    assert screen.text().plain == "stays\nkept and wra\npped"
    assert screen.shows("wra")
    svg = recorder.svg_of(screen.text(), 12, "a title")
    assert "http" not in re.sub(r'xmlns="[^"]*"|<!--.*?-->', "", svg)
    for page in ("README.md", "docs/tutorial.md"):
        for picture in re.findall(r"!\[[^\]]*\]\(([^)]*\.svg)\)", (ROOT / page).read_text(encoding="utf-8")):
            assert ((ROOT / page).parent / picture).is_file()


def test_rows_of_the_log_are_short() -> None:
    rows = [line for line in (DOCS / "log.md").read_text(encoding="utf-8").splitlines() if line.startswith("| 2")]
    shown = [re.sub(r"\]\([^)]*\)", "]", row) for row in rows]
    assert shown
    assert not [row for row in shown if len(row) > 250], "move what is long to an entry in docs/log/ and link it"
