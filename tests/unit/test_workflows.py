"""The workflows and the cloud task run commands that exist, with options that exist, in an order that works."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer
import yaml

from evo.cli.app import app

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
CLOUD = ROOT / "deploy" / "nightly.sky.yaml"
ZONES = ["southamerica-east1-c", "us-west1-b", "us-east4-a", "europe-west4-a"]


def loaded(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in loaded(WORKFLOWS / name)["jobs"].values() for step in job["steps"]]


def scripts() -> Iterator[tuple[str, str]]:
    for path in sorted(WORKFLOWS.glob("*.yml")):
        yield from ((path.name, str(step["run"])) for step in steps(path.name) if "run" in step)
    cloud = loaded(CLOUD)
    yield from ((CLOUD.name, str(cloud[part])) for part in ("setup", "run"))


def commands(program: str) -> list[list[str]]:
    """Every command line of the files that begins with a program, as words."""
    lines = [line.strip() for _, script in scripts() for line in script.replace("\\\n", " ").splitlines()]
    return [words for line in lines if (words := shlex.split(line))[:1] == [program]]


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    asked = {word for words in commands("make") for word in words[1:] if "=" not in word}
    assert {"ready", "check", "redteam"} <= asked <= targets


def test_every_evo_command_takes_the_options_it_is_given() -> None:
    group: Any = typer.main.get_command(app)
    asked = commands(".venv/bin/evo")
    assert {words[1] for words in asked} == {"doctor", "nightly"}
    for words in asked:
        known = {option for parameter in group.commands[words[1]].params for option in parameter.opts}
        given = {word.partition("=")[0] for word in words[2:] if word.startswith("--")}
        assert given <= known, f"{' '.join(words)}: {sorted(given - known)}"


def test_the_night_runs_on_an_l4_alone_and_leaves_what_it_found() -> None:
    workflow = loaded(WORKFLOWS / "nightly.yml")
    (job,) = workflow["jobs"].values()
    assert {"self-hosted", "l4"} <= set(job["runs-on"])
    assert workflow["concurrency"] == {"group": "evo-nightly", "cancel-in-progress": False}
    assert workflow["permissions"] == {"contents": "write", "pull-requests": "write"}
    assert "schedule" in workflow[True]  # YAML 1.1 reads `on` as a truth
    uses = {str(step.get("uses", "")).partition("@")[0]: step for step in job["steps"]}
    assert uses["actions/checkout"]["with"]["fetch-depth"] == 0  # a bisection needs the history
    kept = uses["actions/upload-artifact"]
    proposed = next(step for step in job["steps"] if "gh pr create" in step.get("run", ""))
    for step in (kept, proposed):  # a night that lost a champion is the one that has to be told of
        assert step["if"] == "${{ !cancelled() }}"
    night = next(step["run"] for step in job["steps"] if "evo nightly" in step.get("run", ""))
    assert shlex.split(night)[shlex.split(night).index("--out") + 1] == kept["with"]["path"].rstrip("/")


def test_every_push_runs_the_cpu_suite() -> None:
    workflow = loaded(WORKFLOWS / "ci.yml")
    assert set(workflow[True]) == {"push", "pull_request"}
    assert {job["runs-on"] for job in workflow["jobs"].values()} == {"ubuntu-latest"}
    assert [step["run"] for step in steps("ci.yml") if "run" in step] == ["make check", "make redteam"]


def test_the_cloud_runs_the_same_night_in_the_first_zone_that_has_an_l4() -> None:
    cloud = loaded(CLOUD)
    assert cloud["resources"]["accelerators"] == "L4:1"
    assert [place["infra"].rpartition("/")[2] for place in cloud["resources"]["ordered"]] == ZONES
    in_ci = [step["run"] for step in steps("nightly.yml") if str(step.get("run", "")).startswith(".venv/bin/evo")]
    assert cloud["run"].splitlines() == in_ci
    used = set(re.findall(r"\$([A-Z_]+)", cloud["run"]))
    assert used <= set(cloud["envs"])


@pytest.mark.long
def test_the_steps_of_the_night_run_in_order_without_a_gpu(tmp_path: Path) -> None:
    scripts_folder = Path(sys.executable).parent
    if not (scripts_folder / "evo").exists():
        pytest.skip("evo is not installed as a command beside this Python")
    origin, work, tools = (tmp_path / name for name in ("origin.git", "work", "tools"))
    subprocess.run(["git", "clone", "--quiet", "--bare", ROOT, origin], check=True)
    subprocess.run(["git", "clone", "--quiet", origin, work], check=True)
    (work / ".venv").mkdir()
    (work / ".venv" / "bin").symlink_to(scripts_folder)
    (work / ".venv" / ".ready").touch()  # installed already: this very environment
    tools.mkdir()
    (tools / "gh").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/asked\n')
    (tools / "gh").chmod(0o755)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=work, check=True, capture_output=True, text=True)
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "PATH": f"{tools}:{os.environ['PATH']}",
        "DEVICE": "sim:l4",
        "BUDGET": "60s",
        "BRANCH": "evo/nightly-1-1",
        "ARGUMENTS": "--only unwritten --iterations 1 softmax",
        "GITHUB_SHA": head.stdout.strip(),
        "GITHUB_REF_NAME": "main",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "job.md"),
    }
    for step in steps("nightly.yml"):
        if "run" in step:
            done = subprocess.run(
                ["bash", "-eo", "pipefail", "-c", step["run"]],
                cwd=work,
                env=env,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{step['name']}: {done.stdout}\n{done.stderr}"
    left = sorted(path.name for path in (work / "nightly").iterdir())
    assert left == ["junit.xml", "nightly.json", "report.html", "summary.md"]
    assert ElementTree.parse(work / "nightly" / "junit.xml").getroot().get("errors") == "0"
    assert (tmp_path / "job.md").read_text() == (work / "nightly" / "summary.md").read_text()
    assert re.search(r"Night shift: [12] kept or put back", (tmp_path / "asked").read_text())
    branches = subprocess.run(["git", "branch", "--list"], cwd=origin, check=True, capture_output=True, text=True)
    assert "evo/nightly-1-1" in branches.stdout
    shutil.rmtree(work)
