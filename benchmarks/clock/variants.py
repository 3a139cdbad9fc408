"""The variants of the clock's data set: which texts, of which family, at which case, and on which side of the split.

    python benchmarks/clock/variants.py VARIANTS.tar.xz

The families: every shipped rung under its knobs, the kernels of `families.py` under theirs, and kernels in the styles
of others (strangers/, tests/data/kernels_of_others) with the children that rewrite rules make of them. The archive
holds `variants.json` and the tasks. A family is held out if the first byte of the SHA-256 of its name is divisible by
three: nothing is fitted to it.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from families import FAMILIES
from report import ROOT, say
from rule_evidence import children, strangers_tasks

from evo.errors import EvoError
from evo.operators import RULES
from evo.search.knobs.sweep import space_of
from evo.spec.chips import chip
from evo.spec.task import Case, Task, load_task
from evo.spec.variant import Variant, parse_variant, read_variant

OWN, SHIPPED, OF_A_RULE, CHILDREN = 34, 26, 2, 14  # variants of a family at most
SECOND_CASE = {
    "rmsnorm": "rows4k", "layernorm": "rows8k", "add_layernorm": "rows8k", "softmax": "rows4k", "rope": "grouped",
    "matmul": "square1k", "conv2d": "res56",
}  # fmt: skip
HUGE = {"micro_copy_dram"}
_TASK = """\
name: {name}
description: Any kernel of the clock's data set; nothing is checked.
axes: {{N: int, W: int}}
tensors:
  - {{name: a, role: in, dtype: float32, shape: [N]}}
  - {{name: b, role: in, dtype: float32, shape: [N]}}
  - {{name: idx, role: in, dtype: int32, shape: [N]}}
  - {{name: out, role: out, dtype: float32, shape: [N]{init}}}
tolerance: {{rtol: 1, atol: 1, rival_error_factor: 2, because: nothing is checked}}
check:
  - {{name: small, N: 1024, W: 32}}
bench:
  flat: {{N: 1048576, W: 1024}}
headline: flat
score: {{flat: 1}}
work: {{flop: N, bytes: 8 * N}}
"""
_REFERENCE = '''\
"""Inputs of the clock's data set."""

import numpy as np


def inputs(case: dict, rng: np.random.Generator) -> dict[str, np.ndarray]:
    n = case["N"]
    floats = {name: rng.random(n, dtype=np.float32) for name in ("a", "b")}
    return {**floats, "idx": rng.integers(0, n, n, dtype=np.int32)}


def expected(inputs: dict[str, np.ndarray], case: dict) -> dict[str, np.ndarray]:  # noqa: ARG001
    return {"out": np.zeros(case["N"])}
'''


def held_out(family: str) -> bool:
    """The split, which was written down before anything was measured."""
    return hashlib.sha256(family.encode()).digest()[0] % 3 == 0


def write_tasks(root: Path) -> None:
    """The shipped tasks, those of strangers, and the two that all kernels of `families.py` belong to."""
    strangers_tasks(root)
    for name, init in (("clock", ""), ("clock_zero", ", init: zero")):
        folder = root / "kernels" / name
        (folder / "ladder").mkdir(parents=True)
        (folder / "task.yaml").write_text(_TASK.format(name=name, init=init), encoding="utf-8")
        (folder / "reference.py").write_text(_REFERENCE, encoding="utf-8")


def points(variant: Variant, task: Task, case: Case, most: int, rng: random.Random) -> list[Variant]:
    """Some combinations of the knobs, drawn; the text as it is where it has none."""
    if not any(len(knob.domain) > 1 for knob in variant.knobs):
        return [variant]
    space = space_of(variant, task, case, chip("h200"))
    assert space.legal is not None
    rows = list(range(len(space.legal)))
    rng.shuffle(rows)
    names = [knob.name for knob in space.knobs]
    return [
        variant.with_knobs(
            {name: knob.values[at] for name, knob, at in zip(names, space.knobs, space.legal[row], strict=True)}
        )
        for row in rows[:most]
    ]


def row_of(family: str, group: str, task: Task, case: Case, variant: Variant, note: str = "") -> dict[str, Any]:
    return {
        "id": f"{variant.id[:12]}.{case.name}",
        "family": family,
        "group": group,
        "held_out": held_out(family),
        "task": task.name,
        "case": case.name,
        "axes": case.axes,
        "knobs": variant.knob_values,
        "note": note,
        "text": variant.text,
    }


def own(root: Path) -> Iterator[dict[str, Any]]:
    for name, family in FAMILIES.items():
        task = load_task(root, "clock_zero" if family.zero else "clock")
        case = Case(name=f"n{family.n}w{family.w}", axes={"N": family.n, "W": family.w})
        variant = parse_variant(family.text(name), path=name)
        for point in points(variant, task, case, OWN, random.Random(name)):
            yield row_of(name, name, task, case, point)


def shipped(root: Path) -> Iterator[dict[str, Any]]:
    """Every rung under its knobs; a family is a rung, a group its task at a case."""
    for path in sorted((root / "kernels").glob("*/ladder/*.cu")):
        task = load_task(root, path.parent.parent.name)
        variant = read_variant(path)
        cases = [task.headline, *([SECOND_CASE[task.name]] if task.name in SECOND_CASE else [])]
        for name in cases:
            case = task.case(name)
            most = SHIPPED if name == task.headline else SHIPPED // 3
            family = f"{task.name}/{path.stem}"
            found = [variant, *points(variant, task, case, most, random.Random(family + name))]
            for point in {each.id: each for each in found}.values():
                yield row_of(family, f"{task.name}@{name}", task, case, point, "rung" if point is variant else "")


def of_others(root: Path) -> Iterator[dict[str, Any]]:
    """Kernels in other styles, under their knobs and as rules change them; a family is a task."""
    folders = (ROOT / "tests/data/kernels_of_others", ROOT / "benchmarks/strangers")
    for path in sorted(path for folder in folders for path in folder.glob("*.cu")):
        variant = read_variant(path)
        assert variant.task is not None
        task = load_task(root, variant.task)
        case = task.case(task.headline)
        family, group = f"others/{path.stem}", f"{task.name}@{case.name}"
        try:
            found = [variant, *points(variant, task, case, 12, random.Random(path.stem))]
        except EvoError as error:
            say(f"  {path.stem}: {error}")
            found = [variant]
        yield from (row_of(family, group, task, case, point) for point in {v.id: v for v in found}.values())
        offered = [child for _, some in children(task, variant, RULES, OF_A_RULE) for child in some]
        random.Random(path.stem).shuffle(offered)
        for child in offered[:CHILDREN]:
            yield row_of(family, group, task, case, child.variant, child.rule.name)


def packed(variants_of: Callable[[Path], Iterable[dict[str, Any]]], out: Path) -> list[dict[str, Any]]:
    """Write a set of variants and its tasks as an archive that `measure.py` reads; the rows."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_tasks(root)
        rows = list(variants_of(root))
        random.Random(0).shuffle(rows)  # what a budget cuts off is no family
        (root / "variants.json").write_text(json.dumps(rows), encoding="utf-8")
        with tarfile.open(out, "w:xz") as archive:
            archive.add(root / "variants.json", "variants.json")
            for task in sorted({row["task"] for row in rows}):
                archive.add(root / "kernels" / task, f"kernels/{task}")
    return rows


def main(words: Sequence[str]) -> int:
    out = Path(words[0])
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_tasks(root)
        rows = [*own(root), *shipped(root), *of_others(root)]
        rows = list({row["id"]: row for row in rows}.values())
        random.Random(0).shuffle(rows)  # what a budget cuts off is no family
        families = {row["family"]: row["held_out"] for row in rows}
        say(f"{len(rows)} variants, {len(families)} families, {sum(families.values())} held out")
        (root / "variants.json").write_text(json.dumps(rows), encoding="utf-8")
        for unneeded in (
            *root.glob("kernels/*/ladder"),
            *root.glob("kernels/*/champions"),
            *root.glob("kernels/*/wrong"),
        ):
            shutil.rmtree(unneeded)
            unneeded.mkdir()
        with tarfile.open(out, "w:xz") as archive:
            archive.add(root / "variants.json", "variants.json")
            archive.add(root / "kernels", "kernels")
    say(f"{out}: {out.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
