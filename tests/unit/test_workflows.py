"""Workflows, cloud task and container files run commands that exist, with options that exist, in a sound order."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from evo import __version__
from evo.cli.app import parser

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
CLOUD = ROOT / "deploy" / "nightly.sky.yaml"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
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
    yield from (("Dockerfile", words) for instruction, words in dockerfile() if instruction == "RUN")
    yield ".devcontainer", devcontainer()["postCreateCommand"]


def dockerfile() -> list[tuple[str, str]]:
    """Its instructions and their words."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(first, rest) for first, _, rest in (line.partition(" ") for line in lines)]


def devcontainer() -> dict[str, Any]:
    found = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def commands(program: str) -> list[list[str]]:
    """Every command line of the files that begins with a program, as words."""
    lines = [line.strip() for _, script in scripts() for line in script.replace("\\\n", " ").splitlines()]
    return [words for line in lines if (words := shlex.split(line))[:1] == [program]]


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))
    asked = {word for words in commands("make") for word in words[1:] if "=" not in word}
    assert {"ready", "check", "redteam", "coverage", "package", "test-full", "mutation", "dist"} <= asked <= targets
    declared = set(re.findall(r"\S+", re.findall(r"\.PHONY:((?:.*\\\n)*.*)", MAKEFILE)[0].replace("\\", "")))
    assert declared == targets


def test_every_variable_that_make_is_given_is_one_of_the_makefile() -> None:
    known = set(re.findall(r"^(\w+) \?=", MAKEFILE, re.MULTILINE))
    given = {word.partition("=")[0] for words in commands("make") for word in words[1:] if "=" in word}
    assert {"EXTRAS", "PIP_ARGS"} <= given <= known


def test_the_makefile_and_the_container_install_extras_that_exist() -> None:
    (toolkit,) = re.findall(r"^CUDA \?= (\w+)$", MAKEFILE, re.MULTILINE)
    (extras,) = re.findall(r"^EXTRAS \?= (\S+)$", MAKEFILE, re.MULTILINE)
    assert set(extras.replace("$(CUDA)", toolkit).split(",")) <= set(EXTRAS)
    defaults = dict(words.split("=", 1) for instruction, words in dockerfile() if instruction == "ARG")
    assert set(defaults) == {"CUDA", "PIP_ARGS"}
    assert defaults["CUDA"] in EXTRAS


def test_the_container_begins_with_an_image_and_ends_in_the_command() -> None:
    parts = dockerfile()
    assert [parts[0][0], parts[-1]] == ["FROM", ("ENTRYPOINT", '["evo"]')]
    image = re.fullmatch(r"python:(\d+)\.(\d+)-slim", parts[0][1])
    assert image is not None
    assert (int(image[1]), int(image[2])) >= (3, 11)
    copied = next(number for number, (instruction, _) in enumerate(parts) if instruction == "COPY")
    made = next(number for number, (_, words) in enumerate(parts) if words.startswith("make "))
    assert copied < made
    assert {".git", ".venv"} <= set((ROOT / ".dockerignore").read_text(encoding="utf-8").split())


def test_every_action_is_pinned_by_commit_with_its_version_beside() -> None:
    pinned: dict[str, set[str]] = {}
    for path in (*sorted(WORKFLOWS.glob("*.yml")), ACTION, EXAMPLE):
        for line in re.findall(r"uses: (?!OWNER/).*", path.read_text(encoding="utf-8")):
            found = re.fullmatch(r"uses: ([\w.-]+/[\w.-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)", line)
            assert found is not None, f"{path.name}: {line}"
            pinned.setdefault(found[1], set()).add(f"{found[2]} {found[3]}")
    assert pinned
    assert not [action for action, commits in pinned.items() if len(commits) > 1]


def test_every_evo_command_takes_the_options_it_is_given() -> None:
    group: Any = parser()
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
    ran = [step["run"] for step in steps("ci.yml") if "run" in step]
    assert ran == ["make check", "make coverage", "make redteam", "make package"]


def test_coverage_has_a_floor() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["coverage"]
    assert settings["run"]["branch"] is True
    assert settings["report"]["fail_under"] >= 80
    assert "--cov" in MAKEFILE.partition("\ncoverage:")[2].partition("\n\n")[0]


def test_every_day_runs_the_long_suites_in_one_piece_and_the_mutation_tests() -> None:
    workflow = loaded(WORKFLOWS / "daily.yml")
    assert "schedule" in workflow[True]
    assert workflow["permissions"] == {"contents": "read"}
    assert [step["run"] for step in steps("daily.yml") if "run" in step] == ["make test-full", "make mutation"]


def test_a_tag_publishes_what_was_built_and_tried_and_only_that_job_may() -> None:
    workflow = loaded(WORKFLOWS / "release.yml")
    assert set(workflow[True]) == {"push"}
    assert set(workflow[True]["push"]) == {"tags"}
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert workflow["permissions"] == {"contents": "read"}
    assert "permissions" not in build
    assert (publish["needs"], publish["environment"], publish["permissions"]) == (
        "build",
        "pypi",
        {"id-token": "write"},
    )
    ran = [step["run"] for step in build["steps"] if "run" in step]
    assert ran[1:] == ["make package", "make dist"]
    up = next(step["with"] for step in build["steps"] if "upload-artifact" in step.get("uses", ""))
    down = next(step["with"] for step in publish["steps"] if "download-artifact" in step["uses"])
    assert (up["name"], up["path"]) == (down["name"], down["path"]) == ("dist", "dist/")
    assert "pypi-publish" in publish["steps"][-1]["uses"]


@pytest.mark.parametrize(("tag", "code"), [("v{}", 0), ("v{}.1", 1), ("{}", 1)])
def test_a_tag_that_is_not_the_version_stops_the_release(tag: str, code: int) -> None:
    (check,) = [step["run"] for step in steps("release.yml") if "GITHUB_REF_NAME" in step.get("run", "")]
    env = {**os.environ, "GITHUB_REF_NAME": tag.format(__version__)}
    assert subprocess.run(["bash", "-eo", "pipefail", "-c", check], cwd=ROOT, env=env, check=False).returncode == code


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
    assert left == [".gitignore", "junit.xml", "nightly.json", "report.html", "summary.md"]
    assert ElementTree.parse(work / "nightly" / "junit.xml").getroot().get("errors") == "0"
    assert (tmp_path / "job.md").read_text() == (work / "nightly" / "summary.md").read_text()
    assert re.search(r"Nightly run: [12] kept", (tmp_path / "asked").read_text())
    branches = subprocess.run(["git", "branch", "--list"], cwd=origin, check=True, capture_output=True, text=True)
    assert "evo/nightly-1-1" in branches.stdout
    shutil.rmtree(work)


# --- for a repository of the user's own

ACTION = ROOT / ".github" / "actions" / "nightly" / "action.yml"
EXAMPLE = ROOT / "deploy" / "evo-nightly.yml"


def test_the_action_installs_this_checkout_and_gives_evo_options_that_exist() -> None:
    action = loaded(ACTION)
    given = {step.get("name"): step for step in action["runs"]["steps"]}
    installs = given["Install evo"]
    assert (ACTION.parent / "../../.." / "pyproject.toml").resolve() == ROOT / "pyproject.toml"
    assert installs["env"]["EVO"] == "${{ github.action_path }}/../../.."
    assert action["inputs"]["extra"]["default"] in EXTRAS
    group: Any = parser()
    for step in action["runs"]["steps"]:
        for name in re.findall(r"\$\{\{ inputs\.([\w-]+)", json.dumps(step)):
            assert name in action["inputs"]
        for line in step.get("run", "").splitlines():
            words = line.split()
            if words[:1] == ["evo"]:
                known = {option for parameter in group.commands[words[1]].params for option in parameter.opts}
                assert {word for word in words if word.startswith("--")} <= known | {"--root"}


def test_what_the_example_workflow_gives_the_action_takes() -> None:
    workflow = loaded(EXAMPLE)
    (job,) = workflow["jobs"].values()
    (used,) = [step for step in job["steps"] if "/.github/actions/" in step.get("uses", "")]
    assert (ROOT / used["uses"].partition("@")[0].removeprefix("OWNER/evo/") / "action.yml") == ACTION
    assert set(used["with"]) <= set(loaded(ACTION)["inputs"])
    assert {"contents", "pull-requests"} <= set(workflow["permissions"])


@pytest.mark.parametrize("code", [0, 1])
def test_a_night_of_the_action_ends_with_evos_code_after_its_report_and_pull_request(tmp_path: Path, code: int) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    told = tmp_path / "told"
    for name, script in (
        ("evo", f"echo evo $* >> {told}; mkdir -p nightly; echo night > nightly/summary.md; "
                f"git commit -q --allow-empty -m kept -m 'Evo-Trial: 1'; exit {code}"),
        ("gh", f"echo gh $* >> {told}"),
    ):  # fmt: skip
        (folder / name).write_text(f"#!/bin/bash\n{script}\n")
        (folder / name).chmod(0o755)
    work, remote = tmp_path / "work", tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", remote], check=True)
    subprocess.run(["git", "clone", "-q", remote, work], check=True, stderr=subprocess.DEVNULL)
    identity = {f"GIT_{who}_{what}": "night@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **identity, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    commit = ["git", "commit", "-q", "--allow-empty", "-m", "mine"]
    subprocess.run(commit, cwd=work, env=env, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=work, capture_output=True, text=True, check=True).stdout
    output = tmp_path / "output"
    env |= {"GITHUB_OUTPUT": str(output), "GITHUB_SHA": head.strip(), "GITHUB_REF_NAME": "main", "BRANCH": "evo/night"}
    env |= {"ROOT": ".", "DEVICE": "sim:l4", "BUDGET": "1m", "ARGUMENTS": "softmax --no-redteam"}
    ran = {}
    for step in loaded(ACTION)["runs"]["steps"]:
        if "run" in step and step["name"] != "Install evo":
            for line in output.read_text().splitlines() if output.exists() else ():
                env |= {"CODE": line.partition("=")[2]} if line.startswith("exit-code=") else {}
            script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            ran[step["name"]] = subprocess.run(script, cwd=work, env=env, check=False, capture_output=True).returncode
    assert ran.pop("The night's verdict") == code
    if code == 0:
        assert set(ran.values()) == {0}
    words = told.read_text()
    assert "nightly --root . --device sim:l4 --budget 1m --branch evo/night --out nightly softmax --no-redteam" in words
    assert ("gh pr create --base main --head evo/night" in words) == (ran["Propose what was kept"] == 0)
