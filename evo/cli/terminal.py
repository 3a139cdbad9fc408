"""Text on the two streams: data on stdout, progress on stderr, both readable without colour.

Colours have fixed meanings: green passed or kept, red failed, yellow undecided or a warning, cyan an id.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Protocol, TextIO

_CODES = {"green": "32", "red": "31", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}
_WEIGHTS = frozenset({"bold", "dim"})
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # a compiler log or a file's text must not control the terminal
_GOOD = frozenset({"correct", "measured", "compiled", "keep", "keep_neutral", "kept", "start", "ok"})
_LONGEST_COMPLAINT = 1000  # characters
_PIECE = re.compile(r"( *)(\S+(?: \S+)*)")  # words, and what sets them apart from those before
_LEAST = 16  # columns that a column of words keeps
_UNDECIDED = frozenset({"inconclusive", "revert", "reverted", "warn"})


class Redrawn(Protocol):
    """A line at the bottom of the terminal that is redrawn."""

    def above(self, text: str) -> None:
        """Print a line that stays, above it."""
        ...

    def close(self) -> None:
        """Take it away, and itself out of `redrawn`."""
        ...


redrawn: list[Redrawn] = []  # the line that is on the terminal now, if there is one


def prepare_streams() -> None:
    """A terminal that cannot show a character gets a question mark, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")


def is_live(stream: TextIO) -> bool:
    """True if the stream is a terminal that can overwrite what it shows; NO_COLOR changes nothing of that."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def paint(text: str, *styles: str, stream: TextIO | None = None) -> str:
    """The text in the given styles if the stream shows styles, else unchanged; NO_COLOR leaves bold and dim."""
    if not styles or not text or not is_live(stream or sys.stdout):
        return text
    shown = [style for style in styles if style in _WEIGHTS] if os.environ.get("NO_COLOR") else styles
    return f"\x1b[{';'.join(_CODES[style] for style in shown)}m{text}\x1b[0m" if shown else text


def verdict_colour(word: str) -> str:
    """The colour of a status or verdict word."""
    if word in _GOOD:
        return "green"
    return "yellow" if word in _UNDECIDED else "red"


def plain(text: str) -> str:
    """Text from outside (a log, a file) without control characters."""
    return _CONTROL.sub("", text)


def out(text: str = "") -> None:
    """One line of data."""
    sys.stdout.write(f"{text}\n")


def out_words(text: str, *, hang: int | None = None) -> None:
    """Sentences of the data, with line breaks on a narrow terminal. hang: the column at which they go on."""
    out(wrapped(text, columns(sys.stdout), hang))


def out_note(text: str) -> None:
    """A sentence below a table, with line breaks on a narrow terminal."""
    out(paint(wrapped(text, columns(sys.stdout)), "dim"))


def say(text: str) -> None:
    """One line of progress."""
    if redrawn:
        redrawn[-1].above(text)
        return
    sys.stderr.write(f"{wrapped(text, columns(sys.stderr))}\n")
    sys.stderr.flush()


def complain(message: str, hint: str) -> None:
    """An error as two lines, even if a file's name or another program's message contains line breaks."""
    while redrawn:
        redrawn[-1].close()
    say(f"{paint('error:', 'red', 'bold', stream=sys.stderr)} {_one_line(message)}")
    say(f"{paint('hint:', 'cyan', stream=sys.stderr)} {_one_line(hint)}")


def _one_line(text: str) -> str:
    return clip(plain(" ".join(text.split())), _LONGEST_COMPLAINT)


def out_json(value: object) -> None:
    """A whole answer as JSON, for people and programs."""
    out(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def out_json_line(value: object) -> None:
    """One object of a JSON Lines stream, visible to the reader at once."""
    out(json.dumps(value, ensure_ascii=False, allow_nan=False))
    sys.stdout.flush()


def width(text: str) -> int:
    """The text's width in columns, without colour codes."""
    return len(_ESCAPE.sub("", text))


def clip(text: str, columns: int) -> str:
    """The text, or its start and an ellipsis if it is longer."""
    return text if len(text) <= columns else text[: max(columns - 1, 0)] + "…"


def columns(stream: TextIO) -> int | None:
    """The terminal's width; None for a pipe or a file, whose lines are not cut."""
    return shutil.get_terminal_size((100, 30)).columns if stream.isatty() else None


def out_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, flexible: int | None = None) -> None:
    """Aligned columns: to the right if the heading starts with `>`.

    On a narrow terminal the flexible column is cut, or without one the columns of words are wrapped, the widest first.
    If that is not enough, the columns are shown in several tables, each with the first column.
    """
    titles = [title.lstrip(">") for title in head]
    right = [title.startswith(">") for title in head]
    body = [list(row) for row in rows]
    most = columns(sys.stdout)
    widths = [max(width(row[i]) for row in [titles, *body]) for i in range(len(titles))]
    least = _least([titles, *body], widths, right, flexible)
    for number, shown in enumerate(_column_groups(least, most)):
        if number:
            out()
        sizes = _narrowed([widths[i] for i in shown], [least[i] for i in shown], most)
        _out_columns([[row[i] for i in shown] for row in [titles, *body]], sizes, [right[i] for i in shown], flexible)


def _least(
    rows: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool], flexible: int | None
) -> list[int]:
    """How narrow each column may become: the flexible one, or those of words but the first, which names the row.

    The widest column of words may break a long word; the others keep theirs whole.
    """
    words = [i for i in range(1, len(widths)) if not right[i]] if flexible is None else [flexible]
    widest = max(words, key=lambda i: widths[i], default=None)
    least = list(widths)
    for column in words:
        longest = 0 if column == widest else max(len(word) for row in rows for word in [*row[column].split(), ""])
        least[column] = min(widths[column], max(_LEAST, longest))
    return least


def _column_groups(least: Sequence[int], most: int | None) -> list[list[int]]:
    """Which columns go into one table: all, unless they are too wide even at their least."""
    every = list(range(len(least)))
    if most is None or sum(least) + 2 * (len(least) - 1) <= most:
        return [every]
    groups, used = [[0]], least[0]
    for column in every[1:]:
        if used + 2 + least[column] > most and len(groups[-1]) > 1:
            groups.append([0])
            used = least[0]
        groups[-1].append(column)
        used += 2 + least[column]
    return groups


def _narrowed(widths: list[int], least: Sequence[int], most: int | None) -> list[int]:
    """Widths that fit: the widest column that may yield does so first."""
    sizes = list(widths)
    while most is not None and sum(sizes) + 2 * (len(sizes) - 1) > most:
        yielding = [i for i in range(len(sizes)) if sizes[i] > least[i]]
        if not yielding:
            break
        sizes[max(yielding, key=lambda i: sizes[i])] -= 1
    return sizes


def _out_columns(rows: list[list[str]], sizes: Sequence[int], right: Sequence[bool], flexible: int | None) -> None:
    for number, row in enumerate(rows):
        cells = [_cell(text, size, cut=flexible is not None) for text, size in zip(row, sizes, strict=True)]
        for lines in itertools.zip_longest(*cells, fillvalue=""):
            line = _line(lines, sizes, right)
            out(line if number else paint(line, "dim"))


def _cell(text: str, size: int, *, cut: bool) -> list[str]:
    """The lines of a cell."""
    if width(text) <= size:
        return [text]
    bare = _ESCAPE.sub("", text)
    return [clip(bare, size)] if cut else textwrap.wrap(bare, size)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for cell, size, to_right in zip(cells, widths, right, strict=True):
        blank = " " * (size - width(cell))
        padded.append(blank + cell if to_right else cell + blank)
    return "  ".join(padded).rstrip()


def wrapped(text: str, most: int | None, hang: int | None = None) -> str:
    """The text with line breaks between words where a line is longer; it goes on two columns in, or `hang` columns.

    What two spaces set apart stays together if a line has room for it.
    """
    return text if most is None else "\n".join(_wrapped_line(line, most, hang) for line in text.split("\n"))


def _wrapped_line(line: str, most: int, hang: int | None) -> str:
    if width(line) <= most:
        return line
    body = line.lstrip()
    further = " " * (hang if hang is not None else len(line) - len(body) + 2)
    lines = [" " * (len(line) - len(body))]
    for gap, piece in _PIECE.findall(body):
        if width(lines[-1]) + len(gap) + width(piece) <= most:
            lines[-1] += gap + piece
        elif lines[-1].strip() and len(further) + width(piece) <= most:
            lines.append(further + piece)
        else:
            before = gap
            for word in piece.split(" "):
                if not lines[-1].strip() or width(lines[-1]) + len(before) + width(word) <= most:
                    lines[-1] += before + word
                else:
                    lines.append(further + word)
                before = " "
    return "\n".join(lines)


def microseconds(value: float | None) -> str:
    """A time with about four digits, without its unit: 12.81, 812.4, 5,364. Empty if there is none."""
    if value is None:
        return ""
    if value < 100:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def ratio(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}x" if value < 100 else f"{value:.0f}x"


def duration(seconds: float) -> str:
    """A wall-clock time, by its length: 0.8 s, 42 s, 3:07, 1:02:09."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
