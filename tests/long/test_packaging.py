"""The distribution as a stranger gets it: built from a clean copy, installed into an empty environment, used there.

Needs a package index.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from importlib.metadata import distributions
from pathlib import Path

import pytest
from tiny import environment

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
OWN = {"evo-kernels", "pip", "setuptools", "wheel"}


def ran(*command: object, cwd: Path) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment({"NO_COLOR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONNOUSERSITE": "1"}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def tracked(folder: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Wheel and sdist; the wheel is built from the unpacked sdist, so that one that lacks files shows."""
    copy = tmp_path_factory.mktemp("source")
    for name in tracked("."):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    ran("make", "dist", f"PYTHON={sys.executable}", cwd=copy)  # checks the metadata too
    (wheel,), (sdist,) = (copy / "dist").glob("*.whl"), (copy / "dist").glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of an empty environment with the wheel, dependencies at the versions that are used here."""
    room = tmp_path_factory.mktemp("clean")
    pins = sorted(f"{d.name}=={d.version}" for d in distributions() if d.name and d.name.lower() not in OWN)
    (room / "constraints.txt").write_text("\n".join(dict.fromkeys(pins)) + "\n")
    ran(sys.executable, "-m", "venv", room / "venv", cwd=room)
    scripts = room / "venv" / "bin"
    pip = (scripts / "python", "-m", "pip", "install", "--quiet", "--constraint", room / "constraints.txt")
    ran(*pip, f"{built[0]}[sim]", "mypy", cwd=room)
    return scripts


@pytest.fixture(scope="module")
def repository(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository that has been through `evo init`, far from any checkout."""
    root = tmp_path_factory.mktemp("mine")
    ran("git", "init", "--quiet", root, cwd=root)
    ran(installed / "evo", "init", cwd=root)
    return root


def test_the_wheel_holds_what_it_needs_and_no_more(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        names = set(wheel.namelist())
        about = message_from_bytes(wheel.read(next(name for name in names if name.endswith("/METADATA"))))
    kernels = {name.removeprefix("evo/shipped/") for name in names if name.startswith("evo/shipped/")}
    wanted = {name.removeprefix("kernels/") for name in tracked("kernels") if "/champions/" not in name}
    assert kernels >= wanted
    assert not any("champions/" in name or "__pycache__" in name for name in names)
    attacks = {name for name in tracked("evo/audit/redteam/attacks") if name.endswith(".cu")}
    assert attacks
    assert attacks <= names
    assert "evo/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    tops = {"evo", "evo_kernels.py", f"evo_kernels-{about['Version']}.dist-info"}
    assert {name.split("/")[0] for name in names} == tops
    assert about["License-Expression"] == "Apache-2.0"
    assert about["Requires-Python"] == ">=3.11"
    assert about["Description-Content-Type"] == "text/markdown"


def test_the_source_distribution_can_be_worked_on(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "Makefile"} <= names
    assert {"tests/test_architecture.py", "docs/tutorial.md", "kernels/softmax/task.yaml", "pyproject.toml"} <= names
    assert not [name for name in names if re.search(r"__pycache__|\.pyc$|\.venv|\.git/", name)]


def test_the_installed_command_works(installed: Path, repository: Path) -> None:
    evo = installed / "evo"
    assert ran(evo, "--version", cwd=repository).startswith("evo ")
    assert ran(installed / "evo-kernels", "--version", cwd=repository) == ran(evo, "--version", cwd=repository)
    ran(installed / "python", "-m", "pip", "check", cwd=repository)
    checked = ran(evo, "check", "kernels/rmsnorm/ladder/10_block.cu", "--device", "sim:l4", cwd=repository)
    assert "correct" in checked
    assert "lost" in ran(evo, "redteam", "--device", "sim:l4", "--only", "unwritten", cwd=repository)
    assert ran(evo, "doctor", cwd=repository)
    assert str(ROOT) not in ran(installed / "python", "-c", "import evo; print(evo.__file__)", cwd=repository)


def test_a_program_against_the_installed_package_type_checks_and_runs(installed: Path, repository: Path) -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"<!-- run: python -->\n```python\n(.*?)```", page, re.DOTALL)
    (repository / "program.py").write_text(program, encoding="utf-8")
    assert "Success" in ran(installed / "mypy", "--strict", "program.py", cwd=repository)
    (repository / "wrong.py").write_text("from evo.spec.variant import variant_id\n\nnumber: int = variant_id('')\n")
    mypy = [installed / "mypy", "--strict", "wrong.py"]
    refused = subprocess.run(mypy, cwd=repository, capture_output=True, text=True, check=False)
    assert 'expression has type "str", variable has type "int"' in refused.stdout
    printed = ran(installed / "python", "program.py", cwd=repository)
    assert "correct" in printed.splitlines()[0]
    assert "modelled, limited" in printed


@pytest.mark.parametrize("other_first", [True, False])
def test_beside_the_other_distribution_of_the_name_it_refuses_to_start(
    built: tuple[Path, Path], tmp_path: Path, other_first: bool
) -> None:
    """The package index's `evo` itself, without what it depends on; it installs into the same folder."""
    ran(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    scripts = tmp_path / "venv" / "bin"
    both = ["evo", str(built[0])]
    for distribution in both if other_first else reversed(both):
        ran(scripts / "python", "-m", "pip", "install", "--quiet", "--no-deps", distribution, cwd=tmp_path)
    refused = [scripts / "evo-kernels", "--version"]
    done = subprocess.run(refused, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (5, "", 2)
    assert "pip uninstall -y evo evo-kernels" in done.stderr
    ran(scripts / "python", "-m", "pip", "uninstall", "--quiet", "--yes", "evo", cwd=tmp_path)
    done = subprocess.run(refused, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 5
