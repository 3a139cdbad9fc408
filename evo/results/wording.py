"""Numbers and effects as words, and rows as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evo.results import Gain

_BINDS = {  # terms of the model's time, in words
    "issue": "issuing instructions",
    "fp": "float arithmetic",
    "multiply": "multiplications",
    "int": "integer arithmetic",
    "sfu": "special functions",
    "convert": "conversions",
    "fp64": "float64 arithmetic",
    "mma": "the tensor cores",
    "lsu": "accesses of L1 and shared memory",
    "l1": "bytes through L1",
    "latency": "waiting for what was asked for",
    "block": "the longest block",
    "l2": "bytes through L2",
    "dram": "bytes from DRAM",
    "start": "starting blocks",
    "barrier": "barriers",
}


def microseconds(value: float | None) -> str:
    """A time with about four digits, without its unit. Empty if there is none."""
    if value is None:
        return ""
    if value < 100:
        return f"{value:.2f}" if value >= 0.01 else f"{value:.2g}"
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def ratio(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}x" if value < 10 else f"{value:.2f}x" if value < 100 else f"{value:,.0f}x"


def gain_words(gain: Gain | None) -> str:
    """`1.270x [1.210x, 1.330x], confirmed`; empty if no gain was seen or claimed."""
    if gain is None:
        return ""
    text = ratio(gain.ratio)
    if gain.low is not None and gain.high is not None:
        text += f" [{ratio(gain.low)}, {ratio(gain.high)}]"
    return text + (", confirmed" if gain.confirmed else "")


def duration(seconds: float) -> str:
    """A wall-clock time, by its length: 20 ms, 0.8 s, 42 s, 3 min 7 s, 1 h 2 min."""
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds >= 0.1 else f"{1000 * seconds:.3g} ms"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def count(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"


def percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else "under 1%"


def plural(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def clipped(text: str, most: int) -> str:
    """On one line, cut with an ellipsis if it is longer."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table. Its cells are Markdown already; a heading that begins with `>` is that of numbers."""
    rule = ["---:" if cell.startswith(">") else "---" for cell in head]
    return [f"| {' | '.join(row)} |" for row in ([cell.lstrip(">") for cell in head], rule, *rows)]


def bound_words(term: str) -> str:
    """What a term of a time stands for: `accesses of L1 and shared memory` for `lsu`."""
    return _BINDS.get(term, term)
