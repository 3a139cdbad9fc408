"""What `evo check --coverage` prints for people: the conditions with an outcome that no case exercised."""

from __future__ import annotations

from collections.abc import Sequence

from evo.cli.outputs import compared
from evo.cli.terminal import out, out_table, paint
from evo.results.coverage import Coverage

_WIDE = 48


def show_coverage(parts: Sequence[Coverage], text: str) -> None:
    """One row per condition of the compiled kernels, by source line; a line may stand for several."""
    source = text.splitlines()
    seen, of = (sum(counts) for counts in zip(*(part.outcomes() for part in parts), strict=True)) if parts else (0, 0)
    out()
    out(f"coverage: {seen} of {of} outcomes of conditions were exercised")
    rows: dict[tuple[str, ...], None] = {}  # each once
    for part in parts:
        for line, points in part.by_line().items():
            for point in points:
                if point.unexercised:
                    code = source[line - 1].strip() if 0 < line <= len(source) else ""
                    never = ", ".join(name.replace("_", " ") for name in point.unexercised)
                    what = never if point.reached else "never executed"
                    place = str(line) if line else "?"
                    rows[place, code[:_WIDE], point.kind.value, paint(what, "yellow"), compared(point) or ""] = None
    if rows:
        out_table([">line", "source", "condition", "not exercised", "last compared"], [list(row) for row in rows])
