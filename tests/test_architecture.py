"""The shape of the code, held by walking its syntax trees: layers, owners, cold start, ceilings, words.

Imports inside functions count: they are how layers are usually broken unseen.
"""

from __future__ import annotations

import ast
import functools
import gc
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from layers import LAYERS

from evo.evaluate.harness import RESULT_ROOMS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "evo"

DOORS = {"__init__", "__main__"}  # the ways in: the package itself and the command
RANK = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}

# Who may know an outside thing. Each is one folder or file of evo/.
OWNERS = {
    "cupy": ("device",),
    "cuda": ("cuda/compile",),
    "llvmlite": ("sim",),
    "git": ("records/ledger",),
    "islpy": ("analysis/access/sets",),
    "tree_sitter": ("cuda/source",),
    "tree_sitter_cuda": ("cuda/source",),
    "msgspec": ("results/codec",),
    "typer": ("cli",),
    "rich": ("cli",),
    "scipy": (),  # the tests hold the statistics of decide against it
    "openai": ("operators/llm/client",),
    "mcp": ("cli/mcp_server",),
    "starlette": ("cli/serving/server",),
    "uvicorn": ("cli/serving/server",),
    "ray": ("search/cluster",),
    # The rivals' side of a measurement, and modules that become tasks; otherwise it belongs to the tasks' references.
    "torch": ("device", "interop"),
}
HEAVY = (
    "cupy",
    "torch",
    "numpy",
    "scipy",
    "llvmlite",
    "git",
    "tree_sitter",
    "islpy",
    "yaml",
    "cuda",
    "rich",
    "msgspec",
    "starlette",
    "uvicorn",
)

FILE_LINES = 420
FUNCTION_LINES = 60
TABLES = ("evo/sim/lower/isa/",)  # opcode tables: one row per opcode is one idea, however many rows
BROAD_EXCEPTS = 12
# Sentences that tests quote, which may only become fewer. What is left is text by nature: what a page, a progress line
# or a commit message says. For errors there is `refused(kind, problem)`.
QUOTED_MATCHES = 35  # in `match=`
QUOTED_PHRASES = 58  # of four words and more, in `assert`
# Module stems that stand in two places, because the idea is one. Any other stem has one place.
SHARED_STEMS = {
    "errors": "a tree of exceptions: of evo, and of the simulator, which stands alone",
    "parser": "text to syntax tree: of PTX, and of CUDA C++",
    "statements": "the statements of a function: PTX, CUDA C++ as syntax, CUDA C++ as access analysis reads it",
    "protocol": "what can be asked over a seam: of a device, and of a worker",
    "operator": "an operator of the loop: language model, family of rules",
    "reductions": "loops that reduce: found for rules in the text, found for the access analysis by what they do",
    "coverage": "conditions that check cases exercise: counted, recorded",
    **dict.fromkeys(
        ("printing", "tensor"),
        "one group of PTX instructions: its opcode table and lowering, and the routines that execute it",
    ),
}
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "core", "manager"}


@pytest.fixture(scope="module", autouse=True)
def no_search_for_garbage() -> Iterator[None]:
    """The trees of all files stay until the last test here; each search would walk through millions of nodes."""
    gc.disable()
    yield
    gc.enable()


def sources() -> list[Path]:
    data = PACKAGE / "audit" / "redteam" / "tasks"  # tasks as an importer writes them
    return sorted(p for p in PACKAGE.rglob("*.py") if "shipped" not in p.parts and data not in p.parents)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(path)))


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Every imported module as (line, dotted name); `from evo import x` is `evo.x`."""
    inside = path.relative_to(ROOT).with_suffix("").parts
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = inside[: -node.level] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            if module == "evo":
                yield from ((node.lineno, f"evo.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, module


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported_names(path: Path) -> Iterator[str]:
    """Everything that a file imports, names within modules included: `from a.b import c` is a.b.c."""
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def prefixes(module: str) -> list[str]:
    """a.b.c -> [a.b.c, a.b, a]: importing a module runs the packages around it."""
    parts = module.split(".")
    return [".".join(parts[:end]) for end in range(len(parts), 0, -1)]


def functions_of(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def at(path: Path, line: int, problem: str) -> str:
    return f"{name_of(path)}:{line}: {problem}"


def is_table(path: Path) -> bool:
    return name_of(path).startswith(TABLES)


def test_every_room_has_a_layer() -> None:
    rooms = {room_of(path) for path in sources()} - DOORS
    assert rooms <= set(RANK), f"give these a line in LAYERS: {sorted(rooms - set(RANK))}"


def test_the_house_stays_small() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    modules = {path.stem for path in PACKAGE.glob("*.py")} - DOORS
    assert len(packages) <= 14, sorted(packages)
    assert len(modules) <= 4, sorted(modules)
    assert len(LAYERS) <= 10


def test_a_public_class_name_has_one_meaning() -> None:
    homes: dict[str, list[str]] = {}
    for path in sources():
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name_of(path))
    assert not (twice := {name: found for name, found in homes.items() if len(found) > 1}), twice


def test_a_module_stem_has_one_meaning() -> None:
    homes: dict[str, list[str]] = {}
    for path in sources():
        if path.stem not in DOORS:
            homes.setdefault(path.stem, []).append(name_of(path))
    twice = {stem for stem, found in homes.items() if len(found) > 1}
    assert twice <= SHARED_STEMS.keys(), {stem: homes[stem] for stem in twice - SHARED_STEMS.keys()}
    assert SHARED_STEMS.keys() <= twice, f"these have one place now: {sorted(SHARED_STEMS.keys() - twice)}"


def test_a_test_file_has_a_name_of_its_own() -> None:
    """pytest imports them by their bare names, so two of one name end the whole suite."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert {name for name in names if names.count(name) > 1} == set()


def test_the_top_level_is_what_it_was_agreed_to_be() -> None:
    """A file that a command wrote there by accident is committed easily."""
    strange = {p.name for p in ROOT.iterdir() if p.is_file() and p.suffix in ("", ".cu", ".cuh", ".txt")}
    assert {name for name in strange if not name.startswith(".")} <= {"Makefile", "Dockerfile", "LICENSE"}


def test_imports_point_upwards() -> None:
    wrong = []
    for path in sources():
        room = room_of(path)
        for line, module in imports_of(path):
            parts = module.split(".")
            if parts[0] != "evo" or len(parts) == 1 or parts[1] == room or room in DOORS:
                continue
            if RANK.get(parts[1], len(LAYERS)) >= RANK[room]:
                wrong.append(at(path, line, f"{room} imports {module}"))
    assert not wrong, "\n".join(wrong)


def test_the_loop_hands_out_none_of_its_methods() -> None:
    # Calls go down the layers: what the loop has made never calls the loop. It tells its observer, which gets events.
    wrong = []
    for path in (PACKAGE / "search").glob("*.py"):
        for made in (node for node in nodes_of(path) if isinstance(node, ast.ClassDef)):
            methods = {part.name for part in made.body if isinstance(part, ast.FunctionDef) and not part.decorator_list}
            for call in (node for node in ast.walk(made) if isinstance(node, ast.Call)):
                wrong += [
                    at(path, call.lineno, f"{made.name}.{given.attr} is handed to {call.func.id}")
                    for given in [*call.args, *(keyword.value for keyword in call.keywords)]
                    if isinstance(given, ast.Attribute) and isinstance(given.value, ast.Name)
                    if given.value.id == "self" and given.attr in methods
                    if isinstance(call.func, ast.Name) and call.func.id[:1].isupper()  # a class
                ]
    assert not wrong, "\n".join(wrong)


def test_no_two_files_import_each_other() -> None:
    # Imports inside functions and under TYPE_CHECKING count: two such files still cannot be read apart.
    # The doors are left out: `evo` loads the names that it offers when they are asked for.
    sources_of = {module_of(path): path for path in sources() if room_of(path) not in DOORS}
    edges: dict[str, set[str]] = {}
    for module, path in sources_of.items():
        found = (next((part for part in prefixes(name) if part in sources_of), None) for name in imported_names(path))
        edges[module] = {name for name in found if name is not None and name != module}
    while leaves := [module for module, imports in edges.items() if not imports & edges.keys()]:
        for module in leaves:
            del edges[module]
    while tops := edges.keys() - {name for imports in edges.values() for name in imports}:
        for module in tops:  # what only imports a circle is not in it
            del edges[module]
    assert not edges, "\n".join(
        f"{module} -> {sorted(imports & edges.keys())}" for module, imports in sorted(edges.items())
    )


def test_the_harness_hash_covers_what_evaluation_imports() -> None:
    # A sentence in the terminal's view must not make champions incomparable; a change of the gate must.
    sources_of = {module_of(path): path for path in sources() if room_of(path) not in DOORS}
    waiting, seen = ["evo.evaluate.pipeline", "evo.device.child"], set[str]()
    while waiting:
        module = waiting.pop()
        if module in sources_of and module not in seen:
            seen.add(module)
            waiting += [name for found in imported_names(sources_of[module]) for name in prefixes(found)]
    rooms = {sources_of[module].relative_to(PACKAGE).parts[0] for module in seen}
    assert rooms == set(RESULT_ROOMS)


def test_outside_things_have_one_owner() -> None:
    wrong = []
    for path in sources():
        here = path.relative_to(PACKAGE).as_posix()
        for line, module in imports_of(path):
            top = module.split(".")[0]
            owners = OWNERS.get(top)
            if owners and not any(_within(here, owner) for owner in owners):
                wrong.append(at(path, line, f"imports {top}, which belongs to {owners}"))
    assert not wrong, "\n".join(wrong)


def _within(here: str, owner: str) -> bool:
    return here == f"{owner}.py" or here.startswith(f"{owner}/")


@pytest.mark.parametrize("statement", ["import evo.cli", "from evo.cli.app import run; run(['--version'])"])
def test_the_command_starts_cold(statement: str) -> None:
    probe = f"import sys; {statement}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split()) & set(HEAVY)
    assert not loaded, f"{statement} loads {sorted(loaded)}"


def test_files_and_functions_stay_small() -> None:
    long = []
    for path in sources():
        if is_table(path):
            continue
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > FILE_LINES:
            long.append(at(path, 1, f"{lines} lines, more than {FILE_LINES}"))
        for function in functions_of(path):
            size = (function.end_lineno or function.lineno) - function.lineno + 1
            if size > FUNCTION_LINES:
                long.append(at(path, function.lineno, f"{function.name} has {size} lines, more than {FUNCTION_LINES}"))
    assert not long, "\n".join(long)


def test_only_the_cli_prints() -> None:
    wrong = [
        at(path, node.lineno, "print")
        for path in sources()
        if room_of(path) != "cli"
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not wrong, "\n".join(wrong)


def test_broad_excepts_stay_few() -> None:
    found = [
        at(path, node.lineno, "broad except")
        for path in sources()
        for node in nodes_of(path)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")))
    ]
    assert len(found) <= BROAD_EXCEPTS, "\n".join(found)


def test_nothing_is_left_for_later() -> None:
    left = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    wrong = []
    for path in sources():
        if left.search(text := path.read_text(encoding="utf-8")):
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type == tokenize.COMMENT and left.search(token.string):
                    wrong.append(at(path, token.start[0], token.string))
        wrong += [
            at(path, node.lineno, "NotImplementedError")
            for node in nodes_of(path)
            if isinstance(node, ast.Raise)
            and isinstance(called := node.exc.func if isinstance(node.exc, ast.Call) else node.exc, ast.Name)
            and called.id == "NotImplementedError"
        ]
    assert not wrong, "\n".join(wrong)


def test_test_files_share_through_support_only() -> None:
    files = {path.stem: path for path in (ROOT / "tests").rglob("test_*.py")}
    wrong = [
        f"{name_of(path)} imports {name}"
        for path in files.values()
        for name in imported_names(path)
        if name.split(".")[0] in files
    ]
    assert not wrong, "\n".join(wrong)


def test_tests_decide_by_fields_and_not_by_sentences() -> None:
    # A better sentence breaks no test: errors have a class and a `problem`, evaluations a FaultKind and a Stage.
    matched, compared = list[str](), list[str]()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in nodes_of(path):
            if isinstance(node, ast.keyword) and node.arg == "match":
                matched += quoted(path, node.value, r"[A-Za-z]{2,}[,']? [a-z]{2,}")
            elif isinstance(node, ast.Assert):
                compared += quoted(path, node.test, r"(?:\b[A-Za-z][a-z'-]*[,;:]? ){3}[a-z]")
    assert len(matched) <= QUOTED_MATCHES, "\n".join(matched)
    assert len(compared) <= QUOTED_PHRASES, "\n".join(compared)


def quoted(path: Path, tree: ast.expr, words: str) -> list[str]:
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [at(path, text.lineno, text.value) for text in texts if re.search(words, text.value)]


def test_names_say_something() -> None:
    vague = [name_of(path) for path in sources() if path.stem in VAGUE_NAMES or path.parent.name in VAGUE_NAMES]
    assert not vague


def test_folders_with_code_are_packages() -> None:
    # setup.py finds packages by their __init__.py; a folder without one would be left out of an installed evo.
    bare = {name_of(path.parent) for path in sources() if not (path.parent / "__init__.py").exists()}
    assert not bare


def test_modules_say_what_they_are() -> None:
    silent = [
        name_of(path)
        for path in sources()
        if path.read_text(encoding="utf-8").strip() and not ast.get_docstring(tree_of(path))
    ]
    assert not silent


def test_the_readme_names_files_that_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\bevo/[\w/]+\.py\b|\bdocs/[\w.-]+\b", text))
    assert all((ROOT / name).exists() for name in named), sorted(n for n in named if not (ROOT / n).exists())


def test_no_path_of_one_machine() -> None:
    local = re.compile(r"(?<![\w.])/(home|Users|root|work|mnt)/\w")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    wrong = []
    for name in filter(None, files.split("\0")):
        path = ROOT / name
        if path.suffix in (".py", ".md", ".toml", ".yaml", ".yml", ".cu", ".cuh", ".json") and path.is_file():
            for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
                if local.search(line) and path != Path(__file__):
                    wrong.append(at(path, number, line.strip()))
    assert not wrong, "\n".join(wrong)
