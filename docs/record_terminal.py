"""Record commands in a terminal and write its screen as SVG: the pictures of README.md and tutorial.md.

    python docs/record_terminal.py --out docs/readme-terminal.svg --columns 100 --in FOLDER 'evo iterate colsum ...'

The commands run for real, one after the other, in a pseudo-terminal of that width; what they overwrite is overwritten
here too. With --until TEXT the picture is the screen at the moment when TEXT has just appeared, live lines included;
with several, a picture is written at each, and the last one that appears stays.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import re
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

_SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b[()][A-Z0-9]|\r|\n|\x1b")
_SETTLE_S = 0.6  # after --until: what belongs to the same refresh arrives
_THEME = TerminalTheme(
    (18, 22, 28),
    (222, 226, 232),
    [
        (18, 22, 28),
        (240, 113, 120),
        (134, 214, 130),
        (240, 200, 110),
        (120, 170, 250),
        (200, 150, 240),
        (100, 210, 220),
        (222, 226, 232),
    ],
)


class Screen:
    """Rows of characters with their styles, as a terminal of this width would hold them."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows: list[list[tuple[str, str]]] = [[]]
        self.row = self.column = 0
        self.style = ""

    def feed(self, text: str) -> None:
        at = 0
        for match in _SEQUENCE.finditer(text):
            self._write(text[at : match.start()])
            at = match.end()
            if match[0] == "\n":
                self._down()
            elif match[0] == "\r":
                self.column = 0
            elif match[2]:
                self._control(match[1], match[2])
        self._write(text[at:])

    def _write(self, text: str) -> None:
        for character in text:
            if not character.isprintable():
                continue
            if self.column == self.columns:
                self.column = 0
                self._down()
            row = self.rows[self.row]
            row.extend([(" ", "")] * (self.column + 1 - len(row)))
            row[self.column] = (character, self.style)
            self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append([])

    def _control(self, numbers: str, letter: str) -> None:
        first = int(numbers) if numbers.isdigit() else 0
        if letter == "m":
            self.style = "" if numbers in ("", "0") else f"{self.style};{numbers}".strip(";")
        elif letter == "A":
            self.row = max(0, self.row - max(first, 1))
        elif letter == "B":
            self.row = min(len(self.rows) - 1, self.row + max(first, 1))
        elif letter == "K":
            self.rows[self.row] = [] if first == 2 else self.rows[self.row][: self.column]
        elif letter == "J":
            del self.rows[self.row + 1 :]
            self.rows[self.row] = self.rows[self.row][: self.column]

    def text(self) -> Text:
        """The rows with their styles, without blank ones at the end."""
        lines = []
        for row in self.rows:
            parts = [f"\x1b[{style}m{character}\x1b[0m" if style else character for character, style in row]
            lines.append("".join(parts).rstrip())
        while lines and not lines[-1]:
            lines.pop()
        return Text("\n").join(Text.from_ansi(line) for line in lines)

    def shows(self, words: str) -> bool:
        return any(words in "".join(character for character, _ in row) for row in self.rows)


def output_of(command: str, folder: Path, columns: int, limit_s: float) -> Iterator[str]:
    """What a command writes to a terminal of this width, as it comes. Raises SystemExit if it takes too long."""
    master, slave = pty.openpty()
    ioctl(slave, TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    scripts = str(Path(sys.executable).parent)
    environment = {**os.environ, "TERM": "xterm-256color", "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, stdin=slave, stdout=slave, stderr=slave, env=environment
    )
    os.close(slave)
    ends_s = time.monotonic() + limit_s
    pending = b""
    try:
        while time.monotonic() < ends_s:
            if not select.select([master], [], [], 0.1)[0]:
                continue
            try:
                pending += os.read(master, 65536)
            except OSError:  # Linux: the terminal's other side is closed
                return
            whole = pending.decode("utf-8", "ignore")
            if pending.endswith(b"\x1b") or re.search(r"\x1b\[[?0-9;]*$", whole):
                continue  # a sequence that is cut in two
            pending = b""
            yield whole
        raise SystemExit(f"{command}: still running after {limit_s:g} s")
    finally:
        process.terminate()
        with contextlib.suppress(OSError):  # it ends after its step, and waits if nobody reads what it says until then
            while os.read(master, 65536):
                pass
        process.wait()
        os.close(master)


def svg_of(text: Text, columns: int, title: str) -> str:
    """The screen as an SVG that needs no font from elsewhere."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=columns, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(text, soft_wrap=True)
        svg = console.export_svg(title=title, theme=_THEME, unique_id="terminal")
    svg = re.sub(r"@font-face \{.*?\}\n?", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code", "DejaVu Sans Mono, Menlo, Consolas")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--in", dest="folder", type=Path, default=Path())
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--title", default="evo")
    parser.add_argument("--until", action="append", default=[])
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for each command")
    asked = parser.parse_args()
    screen, awaited = Screen(asked.columns), list(asked.until)
    for command in asked.commands:
        screen.feed(f"\x1b[1;32m$\x1b[0m \x1b[1m{command}\x1b[0m\r\n")
        seen_s: float | None = None
        for part in output_of(command, asked.folder, asked.columns, asked.limit):
            screen.feed(part)
            if awaited and seen_s is None and screen.shows(awaited[0]):
                seen_s = time.monotonic()
            if seen_s is not None and time.monotonic() - seen_s >= _SETTLE_S:
                asked.out.write_text(svg_of(screen.text(), asked.columns, asked.title), encoding="utf-8")
                seen_s = None
                if len(awaited) == 1:
                    return
                del awaited[0]
    asked.out.write_text(svg_of(screen.text(), asked.columns, asked.title), encoding="utf-8")


if __name__ == "__main__":
    main()
