"""Where the commands `evo` and `evo-kernels` begin: a module whose name no other distribution has.

The package index has another project under the name `evo` (evaluation of trajectories). It installs its files into the
same folder as this one and overwrites `evo/__init__.py` and `evo/cli/__init__.py`, or is overwritten by them; to
uninstall it removes them. So what the folder holds is looked at before anything in it is imported.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

_OURS = ("__init__.py", "cli/__init__.py", "errors.py")
_THEIRS = ("main_ape.py", "core/trajectory.py", "tools/file_interface.py", "cli/evo_main.py")
_REINSTALL = "pip uninstall -y evo evo-kernels, then install evo-kernels again; the two need an environment each"
_EXIT_CODE = 5  # as evo.errors.HarnessFault, which may not be importable here


def main() -> int:
    """Run one command and return its exit code; 5 if the installed package is not, or not wholly, this project's."""
    if problem := installation_problem():
        sys.stderr.write(f"error: {problem}\nhint: {_REINSTALL}\n")
        return _EXIT_CODE
    from evo.cli import main as command

    return command()


def installation_problem() -> str | None:
    """What is wrong with the package `evo` that Python would import; None if it is this project's alone."""
    found = find_spec("evo")
    folders = [] if found is None else list(found.submodule_search_locations or ())
    if not folders:
        return "the package `evo` is not installed, only its command"
    folder = Path(folders[0])
    if theirs := [name for name in _THEIRS if (folder / name).exists()]:
        return f"{folder} holds files of another project that is named `evo` too, {theirs[0]} for one"
    if missing := [name for name in _OURS if not (folder / name).is_file()]:
        return f"{folder} lacks {missing[0]}: uninstalling another project that is named `evo` too removes it"
    return None


if __name__ == "__main__":
    sys.exit(main())
