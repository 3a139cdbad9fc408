"""The `evo` command. The only room that knows the terminal; it parses, calls one function, and prints.

Importing this loads nothing but the standard library: commands import what they need when they run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_OPENING = ("iterate", "check", "bench")  # commands that open a device of this machine


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see `evo.errors` for what each code says)."""
    from evo.cli.failures import interruptible
    from evo.spec.process_settings import collect_seldom, limit_algebra, open_standard_files

    open_standard_files()
    collect_seldom()  # before the commands are imported, which makes many objects too
    limit_algebra(os.environ)  # before NumPy is imported
    words = list(sys.argv[1:] if arguments is None else arguments)
    with interruptible():
        if words and words[0] in _OPENING:
            from evo.evaluate.begun import begin_for

            begin_for(words[1:])
        from evo.cli.app import run

        return run(words)
