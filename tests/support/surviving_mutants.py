"""What `make mutation` ends with: the mutants that no test noticed, held to those that a person has looked at.

mutmut leaves each mutant beside the original function in mutants/, and its fate in a .meta file. A survivor is named
by its function and the lines it changed, so that the list stays true when other lines move. Mutants that change only
what a message says are counted apart: tests assert on fields, not on phrases. Exit code 1 if another is not listed.
"""

from __future__ import annotations

import ast
import difflib
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LISTED = ROOT / "tests" / "data" / "equivalent_mutants.toml"
SURVIVED, UNTESTED, UNCHECKED = (0,), (5, 33), (None,)  # mutmut's exit codes; all others are failures and timeouts
_NAME = re.compile(r"^(.*\.)(?:x_|xǁ)(.*)__mutmut_\d+$")


@dataclass(frozen=True, slots=True)
class Mutant:
    """function: dotted, with its class. before, after: the changed lines, as ast.unparse writes them."""

    function: str
    before: str
    after: str


def survivors(folder: Path) -> tuple[list[Mutant], Counter[str]]:
    """The mutants of mutmut's folder that no test noticed, and how many met which fate."""
    found: list[Mutant] = []
    fates: Counter[str] = Counter()
    for meta in sorted(folder.rglob("*.py.meta")):
        codes = json.loads(meta.read_text(encoding="utf-8"))["exit_code_by_key"]
        bodies = dict(functions(ast.parse(meta.with_suffix("").read_text(encoding="utf-8")))) if codes else {}
        for name, code in codes.items():
            if code in UNCHECKED:
                fates["unchecked"] += 1
                continue
            if code not in SURVIVED + UNTESTED:
                fates["killed"] += 1
                continue
            own = name.rpartition(".")[2]
            original, mutant = bodies[re.sub(r"_\d+$", "_orig", own)], bodies[own]
            if without_messages(original) == without_messages(mutant):
                fates["messages"] += 1
                continue
            fates["survived"] += 1
            found.append(difference(name, original, mutant))
    return found, fates


def functions(module: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef):
            yield node.name, node


class _Messages(ast.NodeTransformer):
    """Blanks what only people read: f-strings, strings of several words, and all that an error is given."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.Constant("")

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant("") if isinstance(node.value, str) and " " in node.value else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in ("HarnessFault", "UsageError"):
            return ast.Constant(node.func.id)
        return self.generic_visit(node)


def without_messages(function: ast.FunctionDef) -> str:
    copy = _Messages().visit(ast.parse(ast.unparse(ast.Module([*function.body], []))))
    return ast.unparse(function.args) + ast.unparse(copy)


def difference(name: str, original: ast.FunctionDef, mutant: ast.FunctionDef) -> Mutant:
    matched = _NAME.match(name)
    assert matched is not None, name
    texts = [ast.unparse(ast.Module([node.args, *node.body], [])).splitlines() for node in (original, mutant)]
    changed = list(difflib.unified_diff(*texts, n=0, lineterm=""))[2:]
    before, after = (" ".join(line[1:].strip() for line in changed if line[0] == sign) for sign in "-+")
    return Mutant(matched[1] + matched[2].replace("ǁ", "."), before, after)


def listed(path: Path) -> dict[Mutant, str]:
    """Why each known survivor stays."""
    rows = tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", [])
    return {Mutant(row["function"], row["before"], row["after"]): row["why"] for row in rows}


def main() -> int:
    found, fates = survivors(ROOT / "mutants")
    known = listed(LISTED)
    for mutant in (new := [mutant for mutant in found if mutant not in known]):
        print(f"{mutant.function}\n  - {mutant.before}\n  + {mutant.after}")
    total = sum(fates.values())
    print(
        f"{total} mutants: {fates['killed']} killed, {fates['messages']} change a message only, "
        f"{fates['survived']} survived, {len(new)} of them not listed"
    )
    if total == 0 or fates["unchecked"]:
        print(f"the run is not whole: {fates['unchecked']} were not checked")
        return 1
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
