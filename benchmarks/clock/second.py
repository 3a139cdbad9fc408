"""The second set of kernels for the clock: the files of `second/`, of which half are set aside.

    python benchmarks/clock/second.py VARIANTS.tar.xz

Written and divided before anything of them was measured. The names are ordered by their SHA-256, and the first half are
set aside: nobody looks for causes in them. Nothing is fitted to either half. The archive is one for `measure.py`.
"""

from __future__ import annotations

import hashlib
import random
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from report import say
from variants import packed, points, row_of

from evo.spec.task import Case, load_task
from evo.spec.variant import read_variant

FOLDER = Path(__file__).with_name("second")
POINTS = 14  # of a family at most
ASIDE, WORKED_ON = "aside", "worked on"
_SIZES = re.compile(r"^// sizes N=(\d+) W=(\d+)$", re.MULTILINE)


def sides() -> dict[str, str]:
    """Of each family, whether it is set aside."""
    names = sorted((path.stem for path in FOLDER.glob("*.cu")), key=lambda name: hashlib.sha256(name.encode()).digest())
    return {name: ASIDE if at < len(names) // 2 else WORKED_ON for at, name in enumerate(names)}


def variants(root: Path) -> Iterator[dict[str, Any]]:
    """Rows of all families, each under some of its knobs."""
    for name, side in sorted(sides().items()):
        path = FOLDER / f"{name}.cu"
        found = _SIZES.search(path.read_text(encoding="utf-8"))
        if found is None:
            raise SystemExit(f"{path}: no line `// sizes N=... W=...`")
        n, w = map(int, found.groups())
        variant = read_variant(path)
        assert variant.task is not None
        task = load_task(root, variant.task)
        case = Case(name=f"n{n}w{w}", axes={"N": n, "W": w})
        for point in points(variant, task, case, POINTS, random.Random(name)):
            yield {**row_of(name, name, task, case, point), "held_out": True, "side": side}


def main(words: Sequence[str]) -> int:
    rows = packed(variants, Path(words[0]))
    families = {row["family"] for row in rows}
    say(f"{len(rows)} variants, {len(families)} families, {sum(side == ASIDE for side in sides().values())} aside")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
