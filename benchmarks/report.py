"""What the benchmark scripts share: arguments, tables, the JSON file, and how a failure ends."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # so that a script runs from a checkout that is not installed

from evo.device import DeviceName, gpu_present, no_gpu  # noqa: E402
from evo.errors import EvoError, UsageError  # noqa: E402


def parser(description: str) -> argparse.ArgumentParser:
    """The arguments that every script has."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", type=Path, metavar="OUT", help="write every figure there")
    made.add_argument("--quick", action="store_true", help="a tenth of the work, to see that it runs")
    made.add_argument("--gpu", type=int, default=0, metavar="N", help="the GPU to use")
    return made


def required_gpu(index: int) -> DeviceName:
    """The device, or DeviceMissing (exit 4) where no GPU is."""
    if not gpu_present():
        raise no_gpu(str(index))
    return DeviceName("gpu", str(index))


def run(main: Callable[[Sequence[str] | None], int]) -> None:
    """Call a script's main; a failure of the harness ends it as it ends the `evo` command."""
    try:
        code = main(None)
    except EvoError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        code = error.exit_code
    raise SystemExit(code)


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Aligned columns: the first to the left, the others to the right. None is shown as a dash."""
    shown = [["-" if cell is None else str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in shown) for i in range(len(head))]
    lines = [
        "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in shown
    ]
    return "\n".join(line.rstrip() for line in lines)


def write_json(path: Path | None, figures: dict[str, Any]) -> None:
    if path is None:
        return
    try:
        path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be written: {error}", hint="give --json a file in a folder that exists"
        ) from None


def verdict(name: str, passed: bool | None, figure: str) -> str:
    """One line per aim; None where it was not measured."""
    word = "not measured" if passed is None else "ok" if passed else "MISSED"
    return f"{name}: {figure} [{word}]"


class Clock:
    """Wall-clock seconds since it was made, against a limit."""

    def __init__(self, limit_s: float = float("inf")) -> None:
        self._started, self.limit_s = time.monotonic(), limit_s

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def left(self) -> float:
        return self.limit_s - self.seconds
