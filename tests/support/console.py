"""Runs the console blocks of a documentation page as a reader would, and holds what is printed to what the page shows.

A block is ```console; `$ ` begins a command (its lines go on while they end in a backslash or a here-document is open),
what follows is its output. `...` in it stands for anything. `<!-- run: NAME -->` before a block puts it into a group.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tiny import environment

_BLOCK = re.compile(r"(?:<!-- run: (\w+) -->\n)?```console\n(.*?)```", re.DOTALL)
_HERE = re.compile(r"<<\s*'?(\w+)'?")


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a page with the output that the page shows. line: where it stands."""

    group: str
    text: str
    shown: str
    line: int


def commands(page: Path) -> list[Command]:
    """All commands of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for block in _BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(2)) + 1
        found += list(_of_block(block[2].splitlines(), block[1] or "", first))
    return found


def _of_block(lines: list[str], group: str, first: int) -> Iterator[Command]:
    at = 0
    while at < len(lines):
        assert lines[at].startswith("$ "), f"line {first + at}: a console block begins with a command"
        start, command = at, [lines[at][2:]]
        here = _HERE.search(lines[at])
        while command[-1].endswith("\\") or (here and command[-1] != here[1]):
            at += 1
            command.append(lines[at])
        at += 1
        shown = []
        while at < len(lines) and not lines[at].startswith("$ "):
            shown.append(lines[at])
            at += 1
        yield Command(group, "\n".join(command), "\n".join(shown).strip("\n"), first + start)


_STAGE = re.compile(r" +\w+: .* \d+ of \d+ \(.*\)  [\d.:]+(?: s)?(?:, about .* left)?")  # of a slow machine


class Shell:
    """Commands in one folder after another; the working directory is kept from command to command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.where = folder / ".where"
        self.where.write_text(str(folder))
        scripts = str(Path(sys.executable).parent)
        self.env = environment(
            {"NO_COLOR": "1", "COLUMNS": "120", "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
        )

    def run(self, text: str) -> str:
        """What a command prints on both streams, without blanks at the end of lines without stages that are slow."""
        script = f'cd "$(cat "{self.where}")"\n{text}\npwd > "{self.where}"\n'
        done = subprocess.run(
            ["bash", "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            env=self.env,
            cwd=self.folder,
            check=False,
        )
        lines = [line.rstrip() for line in done.stdout.splitlines() if not _STAGE.fullmatch(line.rstrip())]
        return "\n".join(lines).strip("\n")


def agrees(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed: word for word but for blanks, `...` for anything."""
    pattern = r".*".join(re.escape(" ".join(part.split())) for part in shown.split("..."))
    squeezed = " ".join(printed.split())
    return re.fullmatch(re.sub(r"(?:\\ )?\.\*(?:\\ )?", r"\\s*.*\\s*", pattern), squeezed, re.DOTALL) is not None


def main(page: str, folder: str, *groups: str) -> None:
    """For writing a page: run it and print what every command prints."""
    shell = Shell(Path(folder))
    for command in commands(Path(page)):
        if not groups or command.group in groups:
            printed = shell.run(command.text)
            sys.stdout.write(
                f"{'ok  ' if agrees(command.shown, printed) else 'DIFF'} {command.line}: $ {command.text}\n"
            )
            sys.stdout.write(f"{printed}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
