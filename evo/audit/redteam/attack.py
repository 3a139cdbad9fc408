"""Attacks: one `.cu` file each, shipped or the user's; header lines state the attempt and the expected defence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evo.errors import SyntaxInvalid
from evo.results import FaultKind, Ground, MismatchKind, Stage, StaticRule, Status, Verdict
from evo.spec.input_distributions import DERIVED, DRAWN, MIXED
from evo.spec.source_text import read_source
from evo.spec.task import Task
from evo.spec.variant import parse_variant

FOLDER = Path(__file__).parent / "attacks"
IMPORTED = Path(__file__).parent / "tasks"  # tasks as an importer writes them, for attacks on such

_HEADER = re.compile(r"^// (?P<field>[a-z]+): (?P<value>.*)$")
_MORE = re.compile(r"^//  +(?P<value>\S.*)$")
_EXPECT = re.compile(r"(?P<status>\w+(?: or \w+)*)(?P<facts>(?:, *\w+=\w+(?: or \w+)*)+)")
_ROW = re.compile(r"(?:[1-9]\d?|F[1-9]\d?)(?: F[1-9]\d?)*")
_FIELDS = {"attack", "row", "idea", "exploits", "naive", "expect", "behind", "gpu", "rival", "gate"}
_REQUIRED = ("attack", "row", "idea", "exploits", "expect")

# The carelessness of the naive harness for one attack. By default it has fresh zeroed outputs, normal inputs,
# a comparison that treats NaN as different, the first check case, and five timed runs. `case=`, `time=` and `runs=`
# name another case to check, another one to time, and another number of runs.
_NAIVE_WORDS = {
    "recycled",  # the output reuses the memory of the reference answer
    "nan",  # NaN passes the comparison
    "after",  # the reference is computed after the candidate, from the inputs as it left them
    "answer",  # the expected values stay in device memory
    "win",  # the attack is about time: the naive harness has to score it as a gain
    "cold",  # the baseline was timed on a cold cache
    "equal",  # a candidate that is not clearly slower than the baseline is accepted
    "uniform",  # inputs drawn from [0, 1)
    "same",  # all inputs of one shape are the same array
    "hangs",  # the naive harness has no time limit: it is stopped from outside
    "reads",  # the naive compiler does not screen includes: a planted file ends up in the binary
}
_NAIVE_VALUES = {"case", "time", "runs"}


# What a verdict rests on, and the values that each of these may have; None: any name.
FACTS: dict[str, frozenset[str] | None] = {
    "status": frozenset(Status) - {Status.MEASURED},  # `correct` is also what a GPU has measured
    "stage": frozenset(Stage),
    "rule": frozenset(StaticRule),
    "fault": frozenset(FaultKind),
    "mismatch": frozenset(MismatchKind),
    "case": None,
    "inputs": frozenset((DRAWN, MIXED, *DERIVED)),
    "verdict": frozenset(Verdict),
    "ground": frozenset(Ground),
}


@dataclass(frozen=True, slots=True)
class ExpectedVerdict:
    """For each fact that is expected, the values that it may have: several if the machine decides."""

    facts: Mapping[str, tuple[str, ...]]

    def holds(self, found: Mapping[str, str]) -> bool:
        return all(found.get(name) in values for name, values in self.facts.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack. rows: of the catalogue in docs/redteam.md, and `F1` to `F17` for known failure modes.

    naive: how careless the naive harness is; it checks at `case`, by default the task's first check case, and times
    `runs` launches at `time`: by default the same case, and the headline on a GPU, where small ones take no time.
    behind: the simulator's verdict with the static rules off, if they refuse first. gpu: the verdict on a GPU if it
    differs. sim_only: its header says `gpu: none`, since the naive harness takes it on the simulator alone.
    rival: the honest kernel in the task's folder that it wants to beat; the first rung if it names none. gate: a bound
    on metrics that its task is given for this trial. lines: where the fields of its header are.
    """

    name: str
    rows: tuple[str, ...]
    task: str
    idea: str
    exploits: str
    text: str
    path: Path
    naive: frozenset[str]
    case: str | None
    time: str | None
    runs: int
    expect: ExpectedVerdict
    behind: ExpectedVerdict | None
    gpu: ExpectedVerdict | None
    rival: str | None
    gate: str | None
    sim_only: bool = False
    lines: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_fixture(self) -> bool:
        """Whether it is only a failure mode: an accident, not a cheat."""
        return bool(self.rows) and all(row.startswith("F") for row in self.rows)

    def expected_on(self, kind: str) -> ExpectedVerdict:
        """The verdict on a device of that kind, `sim` or `gpu`."""
        return self.gpu if kind == "gpu" and self.gpu else self.expect

    def is_for(self, kind: str) -> bool:
        """Whether it is an attack on a device of that kind, `sim` or `gpu`."""
        return kind != "gpu" or not self.sim_only

    def rival_path(self, task: Task) -> Path:
        """The honest kernel that it wants to beat. Raises SyntaxInvalid if the task has no such file."""
        if self.rival is None and (rungs := task.ladder()):
            return rungs[0]
        path = task.folder / (self.rival or "ladder")
        if not path.is_file():
            wanted = f"`rival`: no file {self.rival}" if self.rival else "no `rival`, and no rung"
            raise _invalid(self.path, self.lines.get("rival", 1), f"{wanted} in {task.folder}")
        return path


def load_attacks() -> tuple[Attack, ...]:
    """All attacks, by catalogue row. Raises SyntaxInvalid naming file, line and field."""
    found = [read_attack(path) for path in sorted(FOLDER.glob("*/*.cu"))]
    return tuple(sorted(_named_apart(found), key=lambda attack: (*row_order(attack.rows[0]), attack.name)))


def own_attacks(paths: Sequence[Path]) -> tuple[Attack, ...]:
    """Files of the user's, in their order; the task is that of `// evo: task`, and no field is asked for.

    Raises SyntaxInvalid naming file, line and field.
    """
    return tuple(_named_apart([read_attack(path, is_own=True) for path in paths]))


def _named_apart(attacks: Sequence[Attack]) -> Sequence[Attack]:
    names: dict[str, Path] = {}
    for attack in attacks:
        if attack.name in names:
            raise _invalid(attack.path, 1, f"attack `{attack.name}` is also the name of {names[attack.name]}")
        names[attack.name] = attack.path
    return attacks


def task_folder(name: str, tasks: Path) -> Path:
    """The folder of an attack's task: among `tasks`, or of the red team's own."""
    own = IMPORTED / name
    return own if own.is_dir() else tasks / name


def row_order(row: str) -> tuple[bool, int]:
    """Catalogue rows first, then failure modes, each by number."""
    return row.startswith("F"), int(row.lstrip("F"))


def read_attack(path: Path, *, is_own: bool = False) -> Attack:
    """Read one file; its folder is its task. is_own: as for `own_attacks`. Raises SyntaxInvalid with file and line."""
    text = read_source(path)
    values, lines = _header(path, text)
    task = parse_variant(text, path=path).task if is_own else path.parent.name
    if task is None:
        raise _invalid(path, 1, "no line `// evo: task NAME`")
    for name in () if is_own else _REQUIRED:
        if name not in values:
            raise _invalid(path, 1, f"field `{name}` is missing")
    if "row" in values and not _ROW.fullmatch(values["row"]):
        raise _invalid(path, lines["row"], f"field `row`: {values['row']!r} is not like `3`, `F5` or `16 F12`")
    words = values.get("naive", "").split()
    given = dict(word.split("=", 1) for word in words if "=" in word)
    naive = frozenset(word for word in words if "=" not in word)
    if unknown := (naive - _NAIVE_WORDS) | (given.keys() - _NAIVE_VALUES):
        raise _invalid(path, lines["naive"], f"field `naive`: unknown {', '.join(sorted(unknown))}")
    if not given.get("runs", "5").isdigit():
        raise _invalid(path, lines["naive"], f"field `naive`: runs={given['runs']} is not a number")
    sim_only = values.get("gpu") == "none"
    given_verdicts = {"behind", "gpu"} & values.keys() - ({"gpu"} if sim_only else set())
    optional = {name: read_expected(values[name], path, lines[name]) for name in given_verdicts}
    return Attack(
        name=values.get("attack", path.stem),
        rows=tuple(values.get("row", "").split()),
        task=task,
        idea=values.get("idea", ""),
        exploits=values.get("exploits", ""),
        text=text,
        path=path,
        naive=naive,
        case=given.get("case"),
        time=given.get("time", given.get("case")),
        runs=int(given.get("runs", "5")),
        expect=read_expected(values["expect"], path, lines["expect"]) if "expect" in values else ExpectedVerdict({}),
        behind=optional.get("behind"),
        gpu=optional.get("gpu"),
        rival=values.get("rival"),
        gate=values.get("gate"),
        sim_only=sim_only,
        lines=lines,
    )


def _header(path: Path, text: str) -> tuple[dict[str, str], dict[str, int]]:
    """The fields of the comment block at the top; a line with more indentation continues the field above it."""
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    last = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.startswith("//"):
            break
        if match := _HEADER.match(line):
            last = match["field"]
            if last == "evo":
                continue
            if last not in _FIELDS:
                raise _invalid(path, number, f"field `{last}` is unknown")
            if last in values:
                raise _invalid(path, number, f"field `{last}`: a second one")
            values[last], lines[last] = match["value"].strip(), number
        elif (match := _MORE.match(line)) and last in values:
            values[last] += " " + match["value"].strip()
    return values, lines


def read_expected(value: str, path: Path, line: int = 1) -> ExpectedVerdict:
    """Read `STATUS, FACT=VALUE, ...`, also of kernels in `wrong/`. Raises SyntaxInvalid naming file, line and fact."""
    match = _EXPECT.fullmatch(value)
    if match is None:
        raise _invalid(path, line, f"{value!r} is not `<status>, <fact>=<value>, ...`")
    facts = {"status": match["status"]}
    for part in match["facts"].strip(", ").split(","):
        name, _, words = part.strip().partition("=")
        if name in facts:
            raise _invalid(path, line, f"`{name}`: a second one")
        facts[name] = words
    expected = {name: tuple(words.split(" or ")) for name, words in facts.items()}
    for name, values in expected.items():
        if name not in FACTS:
            raise _invalid(path, line, f"`{name}` is not one of {', '.join(FACTS)}")
        allowed = FACTS[name]
        if unknown := [value for value in values if allowed is not None and value not in allowed]:
            raise _invalid(path, line, f"`{name}={unknown[0]}` is not one of {', '.join(sorted(allowed or ()))}")
    return ExpectedVerdict(expected)


def _invalid(path: Path, line: int, problem: str) -> SyntaxInvalid:
    return SyntaxInvalid(path, line, problem, hint="see docs/redteam.md for the header of an attack")
