"""What each rewrite rule brings on many kernels: docs/data/rule_evidence.json, shown by the table in docs/operators.md.

The kernels: every shipped rung and champion, tests/data/kernels_of_others, and strangers/ with tasks of their own. For
each kernel and rule, the first child is compiled at the headline case. If the machine code differs from the parent's,
the simulator estimates the gain over the bench cases that share this binary, until a rule has 3 gains or 16 estimates;
children with a gain, and the first few of each rule, run through the gate. A second pass does the same with further
children of the rules that had no gain so far. A rule without a gain on any of these kernels is tried on its own one,
with the task that tests/data/rules has for it (`own`). `redundant`: a gain that --use_fast_math gives as well, since
with that flag on both the machine code is the same.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from report import ROOT, say, table, write_json

from evo.cuda.source import classify, tree_difference
from evo.device import DeviceName
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.evaluate.prepare import Prepared, PrepareFailure, prepare
from evo.evaluate.screening import screened_gains
from evo.interop import new_task
from evo.operators import RULES, Context, Rule
from evo.operators.one_change import clutter
from evo.operators.rules.operator import integers_of
from evo.operators.rules.rule import example_variant
from evo.results import Status
from evo.spec.chips import chip
from evo.spec.task import Task, load_task, read_task
from evo.spec.variant import Variant, read_variant

HERE = Path(__file__).parent
OUT = ROOT / "docs" / "data" / "rule_evidence.json"
FAST = "--use_fast_math"
GAIN = 1.02  # less is noise of the model
CHECKED = 4  # children of a rule that run through the gate even without a gain
ENOUGH, ESTIMATES = 3, 16  # gains, and estimates in one pass, after which a rule's children are only compiled
L4 = chip("l4")
# Tasks of the strangers' kernels: axes, inputs, output, formula.
TASKS = {
    "gelu": ("N=1048576", "x:float32[N]", "y:float32[N]", "0.5*x*(1+np.tanh(0.7978845608*(x+0.044715*x*x*x)))"),
    "transpose": ("ROWS=1024,COLS=768", "x:float32[ROWS,COLS]", "y:float32[COLS,ROWS]", "x.T"),
    "column_sum": ("ROWS=2048,COLS=1024", "x:float32[ROWS,COLS]", "y:float32[COLS]", "x.sum(0)"),
    "row_norm": ("ROWS=2048,COLS=1024", "x:float32[ROWS,COLS]", "y:float32[ROWS]", "np.sqrt((x * x).sum(1))"),
    "sgemm": ("M=512,N=512,K=256", "a:float32[M,K] b:float32[K,N]", "c:float32[M,N]", "a @ b"),
    "blur": (
        "H=512,W=768",
        "x:float32[H,W]",
        "y:float32[H,W]",
        "sum(np.pad(x, 1)[i:i + x.shape[0], j:j + x.shape[1]] for i in range(3) for j in range(3)) / 9",
    ),
    "forces": (
        "N=2048",
        "p:float32[N,4]",
        "f:float32[N]",
        "(p[None,:,3] / np.sqrt(((p[:,None,:3] - p[None,:,:3])**2).sum(-1) + 0.01)).sum(1)",
    ),
    "adam": (
        "N=1048576",
        "w:float32[N] g:float32[N] m:float32[N] v:float32[N]",
        "o:float32[N]",
        "w - 0.001*((0.9*m + 0.1*g) / (np.sqrt(np.abs(0.999*v + 0.001*g*g)) + 0.01) + 0.01*w)",
    ),
    "fir": ("N=262144,TAPS=32", "x:float32[N] h:float32[TAPS]", "y:float32[N]", "np.convolve(x, h)[:len(x)]"),
    "log_softmax": (
        "ROWS=1024,COLS=1024",
        "x:float32[ROWS,COLS]",
        "y:float32[ROWS,COLS]",
        "x - x.max(1,keepdims=True) - np.log(np.exp(x - x.max(1,keepdims=True)).sum(1,keepdims=True))",
    ),
}


@dataclass(slots=True)
class Evidence:
    """Counts over all kernels of one rule. best: the largest modelled gain of a correct child."""

    kernels: int = 0  # that the rule applies to
    tried: int = 0  # children that compiled
    failed: int = 0  # children that did not
    new_code: int = 0  # with machine code that differs from the parent's
    estimated: int = 0
    checked: int = 0
    correct: int = 0
    slower: int = 0  # by more than 2 %
    gains: int = 0  # correct, and faster by more than 2 %
    redundant: int = 0  # of these: with the parent's machine code if both are compiled with --use_fast_math
    best: float = 1.0
    own: bool = False  # of the rule's own example, since no kernel shows a gain
    where: list[str] = field(default_factory=list)  # kernels with a gain


@dataclass(frozen=True, slots=True)
class Child:
    rule: Rule
    summary: str
    variant: Variant


def strangers_tasks(root: Path) -> None:
    """Write the tasks of the strangers' kernels below root, beside copies of the shipped ones."""
    shutil.copytree(ROOT / "kernels", root / "kernels")
    for name, (axes, inputs, output, formula) in TASKS.items():
        lengths = new_task.read_axes([axes])
        ins = tuple(new_task.read_tensor(text, "in", lengths) for text in inputs.split())
        outs = (new_task.read_tensor(output, "out", lengths),)
        form = new_task.NewTaskAnswers(name, lengths, ins, outs, new_task.read_formulas([formula], outs))
        new_task.write_new(root, form)
        yaml = root / "kernels" / name / "task.yaml"
        yaml.write_text(yaml.read_text(encoding="utf-8") + f"flags: [{FAST}]\n", encoding="utf-8")


def kernels(root: Path) -> list[tuple[Task, Variant]]:
    """Every kernel and its task; the order is mixed, so that what a budget cuts off is no family of kernels."""
    tasks = {path.parent.name: load_task(root, path.parent.name) for path in (root / "kernels").glob("*/task.yaml")}
    shipped = [path for name in tasks for folder in ("ladder", "champions") for path in _sources(name, folder)]
    others = [*sorted((ROOT / "tests/data/kernels_of_others").glob("*.cu")), *sorted((HERE / "strangers").glob("*.cu"))]
    found = [(tasks[path.parent.parent.name], read_variant(path)) for path in sorted(shipped)]
    for path in others:
        variant = read_variant(path)
        assert variant.task is not None, path
        found.append((tasks[variant.task], variant))
    random.Random(0).shuffle(found)
    return found


def own_example(rule: Rule) -> tuple[Task, Variant] | None:
    """A rule's first example with its own task, if it has one."""
    folder = ROOT / "tests" / "data" / "rules" / rule.name
    if not folder.is_dir():
        return None
    parent = example_variant(rule.examples[0].before)
    return read_task(folder), dataclasses.replace(parent, path=f"{rule.name}.before.cu")


def _sources(task: str, folder: str) -> list[Path]:
    return sorted((ROOT / "kernels" / task / folder).glob("*.cu"))


def children(task: Task, parent: Variant, rules: Sequence[Rule], most: int) -> Iterator[tuple[Rule, list[Child]]]:
    """Per rule the first children that its operator would offer."""
    context = Context(task=task, chip=L4)
    for rule in rules:
        places = rule.applications(parent, flags=task.flags, axes=integers_of(task), task=task, chip=L4)
        found: list[Child] = []
        for place in sorted(places, key=lambda place: place.rank):
            child = rule.build(parent, place)
            if child is None or not context.fits(child):
                continue
            if place.is_schedule:
                is_one = clutter(parent.text, child.text) is None
            else:
                is_one = classify(tree_difference(parent.text, child.text)).is_single
            if is_one:
                found.append(Child(rule, place.summary, child))
            if len(found) == most:
                break
        yield rule, found


def compiled(task: Task, text: str, fast: bool = False) -> Prepared | PrepareFailure:
    """The text at the headline case, with --use_fast_math if asked for."""
    whole = f"// evo: flags {FAST}\n{text}" if fast and f"flags {FAST}" not in text else text
    return prepare(task, whole, chip=L4, arch="sm_89", cases=[task.case(task.headline)])


def study(
    task: Task,
    parent: Variant,
    bench: EvaluationSession,
    found: dict[str, Evidence],
    rules: Sequence[Rule],
    part: slice,
) -> None:
    """Add one kernel to the evidence: of these rules, these of their children."""
    offered: list[Child] = []
    for rule, some in children(task, parent, rules, part.stop):
        found[rule.name].kernels += bool(some) and part.start == 0
        offered += some[part]
    if not offered:
        return
    before = compiled(task, parent.text)
    if isinstance(before, PrepareFailure):
        raise SystemExit(f"{parent.path}: {before.reason}")
    with ThreadPoolExecutor(max_workers=2) as pool:
        built = list(pool.map(lambda child: compiled(task, child.variant.text), offered))
    fresh: list[Child] = []
    for child, after in zip(offered, built, strict=True):
        row = found[child.rule.name]
        if isinstance(after, PrepareFailure):
            row.failed += 1
            continue
        row.tried += 1
        if after.code_hash != before.code_hash:
            row.new_code += 1
            if row.gains < ENOUGH and row.estimated < ESTIMATES * (1 + bool(part.start)):
                row.estimated += 1
                fresh.append(child)
    gains = screened_gains(bench, task, parent.text, [child.variant.text for child in fresh], 0)
    for child, gain in zip(fresh, gains, strict=True):
        _judge(task, parent, child, gain or 0.0, bench, found[child.rule.name])


def _is_redundant(task: Task, parent: Variant, child: Child) -> bool:
    if FAST not in task.flags or child.rule.name == "flag":
        return False
    before, after = (compiled(task, text, fast=True) for text in (parent.text, child.variant.text))
    return isinstance(before, Prepared) and isinstance(after, Prepared) and before.code_hash == after.code_hash


def _judge(task: Task, parent: Variant, child: Child, gain: float, bench: EvaluationSession, row: Evidence) -> None:
    row.slower += 0.0 < gain < 2 - GAIN
    if gain < GAIN and row.checked >= CHECKED:
        return
    judged = evaluate(Job(task=task, text=child.variant.text, upto="check"), bench)
    row.checked += 1
    if judged.status is not Status.CORRECT:
        say(f"  {child.rule.name} on {Path(parent.path).name}: {judged.status.value}: {judged.reason}")
        return
    row.correct += 1
    if gain >= GAIN:
        row.gains += 1
        row.redundant += _is_redundant(task, parent, child)
        row.best = round(max(row.best, gain), 3)
        if (name := f"{task.name}/{Path(parent.path).name}") not in row.where:
            row.where.append(name)


def write(path: Path, found: dict[str, Evidence], done: Sequence[int], kernels_: int) -> None:
    """The data file, after each kernel; rules that were not asked for keep their rows. done: empty for some rules."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    before = known.pop("rules", {})
    about = known
    if done or not known:
        passes = [*done, 0, 0]
        about = {"device": "sim:l4", "kernels": kernels_, "first_pass": passes[0], "second_pass": passes[1]}
    write_json(path, {**about, "rules": before | {name: asdict(row) for name, row in found.items()}})


def main(words: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("--most", type=int, default=4, metavar="N", help="children of one rule on one kernel")
    made.add_argument("--budget", type=float, default=25, metavar="MINUTES", help="no kernel is begun after this time")
    made.add_argument("--only", default="", metavar="TEXT", help="only kernels whose path has this in it")
    made.add_argument("--rules", default="", metavar="NAMES", help="only these rules, whose rows are replaced")
    made.add_argument("--own", action="store_true", help="only rules that no kernel shows a gain of, on their own one")
    made.add_argument("--out", type=Path, default=OUT, metavar="FILE")
    asked = made.parse_args(words)
    chosen = [rule for rule in RULES if not asked.rules or rule.name in asked.rules.split(",")]
    if asked.own:
        rows = json.loads(asked.out.read_text(encoding="utf-8"))["rules"]
        proven = {name for name, row in rows.items() if row["gains"] and not row.get("own")}
        chosen = [rule for rule in chosen if rule.name not in proven and own_example(rule) is not None]
    found = {rule.name: Evidence() for rule in chosen}
    began, done = time.monotonic(), [0, 0]
    with tempfile.TemporaryDirectory() as folder, EvaluationSession(DeviceName("sim", "l4")) as bench:
        strangers_tasks(Path(folder))
        waiting = [(task, parent) for task, parent in kernels(Path(folder)) if asked.only in str(parent.path)]
        waiting = [] if asked.own else waiting
        for number, part in enumerate((slice(0, 1), slice(1, asked.most))):
            rules = [rule for rule in chosen if part.start == 0 or not found[rule.name].gains]
            for task, parent in waiting:
                if time.monotonic() - began > 60 * asked.budget:
                    break
                study(task, parent, bench, found, rules, part)
                done[number] += 1
                at = f"{done[number]}/{len(waiting)} {task.name}/{Path(parent.path).name}"
                say(f"pass {number + 1}: {at} {time.monotonic() - began:.0f} s")
                write(asked.out, found, [] if asked.rules else done, len(waiting))
        for rule in chosen:
            if not found[rule.name].gains and not asked.only and (own := own_example(rule)) is not None:
                found[rule.name] = Evidence(own=True)
                study(*own, bench, found, [rule], slice(0, asked.most))
                write(asked.out, found, [] if asked.own or asked.rules else done, len(waiting))
    rows = [[name, *map(str, list(asdict(row).values())[:-2])] for name, row in found.items()]
    say(table(["rule", *list(asdict(Evidence()))[:-2]], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
