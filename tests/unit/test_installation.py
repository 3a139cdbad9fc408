"""Another project is called `evo` on the package index, and installs into the same folder: evo notices and says so."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = {
    "__init__.py": "",
    "errors.py": "",
    "cli/__init__.py": "def main():\n    print('started')\n    return 0\n",
}
THEIRS = {
    "__init__.py": "raise SystemExit('theirs was imported')\n",
    "cli/__init__.py": "",
    "cli/evo_main.py": "",
    "core/__init__.py": "",
    "core/trajectory.py": "",
    "main_ape.py": "",
    "tools/__init__.py": "",
    "tools/file_interface.py": "",
}


def installed(site: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (site / "evo" / name).parent.mkdir(parents=True, exist_ok=True)
        (site / "evo" / name).write_text(text)


def uninstalled(site: Path, files: dict[str, str]) -> None:
    for name in files:
        (site / "evo" / name).unlink(missing_ok=True)


def started(site: Path) -> subprocess.CompletedProcess[str]:
    shutil.copy(ROOT / "evo_kernels.py", site)
    code = f"import sys; sys.path.insert(0, {str(site)!r}); import evo_kernels; sys.exit(evo_kernels.main())"
    return subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)


def test_alone_it_starts(tmp_path: Path) -> None:
    installed(tmp_path, OURS)
    done = started(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "started\n", "")


@pytest.mark.parametrize("order", [(OURS, THEIRS), (THEIRS, OURS), (THEIRS,)], ids=["later", "before", "only"])
def test_beside_the_other_project_it_refuses_to_start(tmp_path: Path, order: tuple[dict[str, str], ...]) -> None:
    for files in order:
        installed(tmp_path, files)
    refused(tmp_path)


def test_after_the_other_project_is_uninstalled_it_asks_for_what_that_took_along(tmp_path: Path) -> None:
    installed(tmp_path, OURS)
    installed(tmp_path, THEIRS)
    uninstalled(tmp_path, THEIRS)
    refused(tmp_path)
    uninstalled(tmp_path, OURS)
    installed(tmp_path, OURS)
    assert started(tmp_path).returncode == 0


def test_without_the_package_it_says_so(tmp_path: Path) -> None:
    code = "import sys, evo_kernels; sys.meta_path.clear(); sys.path.clear(); sys.exit(evo_kernels.main())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 5, done.stderr


def refused(site: Path) -> None:
    done = started(site)
    assert (done.returncode, done.stdout) == (5, "")
    problem, hint = done.stderr.splitlines()
    assert problem.startswith(f"error: {site / 'evo'} ")
    assert hint.startswith("hint: pip uninstall -y evo evo-kernels")


def test_both_commands_begin_where_the_package_is_looked_at_first() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert scripts == {"evo": "evo_kernels:main", "evo-kernels": "evo_kernels:main"}


def test_every_file_that_is_looked_for_is_in_the_package() -> None:
    import evo_kernels

    assert evo_kernels.installation_problem() is None
    found = subprocess.run([sys.executable, "-m", "evo", "--version"], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("evo ")
