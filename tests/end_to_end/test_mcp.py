"""`evo mcp` as an agent sees it: through the SDK's own client over stdio, against a repository with one small task."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mcp_agents
import pytest
from llm_server import block
from mcp_agents import ask
from refusals import refused
from run_killer import CHAMPION, problems
from tiny import FAST, WRONG, environment, git, new_repository, write_task

from evo.device import parse_device
from evo.errors import UsageError
from evo.records.trials import load_records

if TYPE_CHECKING:
    from mcp import Client

Call = Callable[..., Awaitable[dict[str, Any]]]
TOOLS = ["tasks", "task", "limits", "champion", "insights", "leaderboard", "profile", "try", "result", "cancel"]


def session(root: Path, agent: Callable[[Call], Awaitable[None]], *words: str) -> None:
    async def talk(client: Client) -> None:
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        await agent(functools.partial(ask, client))

    mcp_agents.session(root, talk, *words)


def test_an_agent_evolves_a_kernel_under_the_same_gate(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")

    async def agent(call: Call) -> None:
        assert await call("tasks") == {"tasks": ["scale"], "device": "sim:l4", "arch": "sm_89", "may_commit": True}
        task = await call("task", task="scale")
        assert "rtol: 1e-6" in task["task_yaml"]
        assert [rung["file"] for rung in task["ladder"]] == ["00_slow.cu", "10_fast.cu"]
        assert (await call("limits", task="scale"))["cases"][0]["limiter_cold"] == "dram_cold"
        first = await call("champion", task="scale")
        assert (first["is_champion"], first["file"]) == (False, "00_slow.cu")

        for words, name, arguments in (
            ("not a task", "champion", {"task": "../../etc/passwd"}),
            ("no task 'none'", "task", {"task": "none"}),
            ("either edits or text", "try", {"task": "scale"}),
            ("does not stand", "try", {"task": "scale", "edits": block("not there", "x")}),
            ("at most", "try", {"task": "scale", "text": "x" * 300_000}),
        ):
            assert words in (await call(name, **arguments))["error"]
        other = await call("try", task="scale", text=FAST.replace("task   scale", "task   other"))
        assert (other["status"], other["stage"]) == ("refused", "rules")
        hostile = await call("try", task="scale", text='#include "/etc/passwd"\n' + FAST)
        assert hostile["status"] in ("refused", "uncompiled")

        wrong = await call("try", task="scale", text=WRONG)
        assert (wrong["status"], wrong["committed"]) == ("wrong", False)
        assert "allclose" in wrong["reason"]
        assert git(root, "status", "--porcelain") == ""  # trying writes nothing

        kept = await call("try", task="scale", text=FAST, commit=True, summary="one each; rm -rf /")
        assert (kept["status"], kept["decision"], kept["committed"]) == ("correct", "keep", True)
        now = await call("champion", task="scale")
        assert (now["source"], now["is_champion"], now["variant"]) == (FAST, True, kept["variant"])
        knob = await call("try", task="scale", edits=block("#define THREADS 128", "#define THREADS 64"))
        assert knob["change"]["kind"] == "knob"
        assert knob["decision"]["verdict"] == "revert"
        assert knob["parent"] == kept["variant"]
        two = FAST.replace("#define THREADS 128", "#define THREADS 64").replace("2.0f * x[i]", "x[i] * 2.0f")
        refused = await call("try", task="scale", text=two)
        assert (refused["status"], refused["stage"]) == ("refused", "change")
        assert (await call("insights", task="scale"))["insights"][0]["kept"] == 1
        assert (await call("leaderboard"))["entries"][0]["variant"] == kept["variant"]

    session(root, agent, "--commit")
    assert (root / CHAMPION).read_text() == FAST
    records = load_records(root, settled=True)
    assert [(record.operator, record.kept) for record in records] == [("start", True), ("patch", True)]
    assert problems(root, records) == []
    assert git(root, "status", "--porcelain") == ""


def test_a_server_commits_only_where_it_was_started_to(tmp_path: Path) -> None:
    from evo.cli.mcp_server import McpTools, ServerOptions

    write_task(tmp_path)
    tools = McpTools(ServerOptions(root=tmp_path, device=parse_device("sim:l4"), arch="sm_89"))
    with refused(UsageError, "server-without-commit") as caught:
        tools.try_change("scale", text=FAST, commit=True)
    assert "--commit" in caught.value.hint
    assert tools.tasks()["may_commit"] is False


@pytest.mark.long
@pytest.mark.parametrize("after_s", [0.05, 0.3, 0.8])
def test_a_killed_server_loses_nothing(tmp_path: Path, after_s: float) -> None:
    root = new_repository(tmp_path / "mine")
    pid = tmp_path / "pid"
    start = f"echo $$ > {pid}; exec {sys.executable} -m evo mcp --device sim:l4 --commit"

    async def killed() -> None:
        from mcp import Client, StdioServerParameters

        parameters = StdioServerParameters(command="sh", args=["-c", start], cwd=str(root), env=environment())
        async with Client(parameters) as client:
            arguments = {"task": "scale", "text": FAST, "commit": True}
            trying = asyncio.create_task(client.call_tool("try", arguments))
            await asyncio.sleep(after_s)
            os.kill(int(pid.read_text()), signal.SIGKILL)
            await asyncio.wait_for(asyncio.gather(trying, return_exceptions=True), timeout=20)

    with contextlib.suppress(Exception):  # the client's own way of saying that its server is gone
        asyncio.run(killed())

    async def agent(call: Call) -> None:
        kept = await call("try", task="scale", text=FAST, commit=True)
        again = await call("champion", task="scale")
        assert kept.get("committed") or (again["is_champion"] and again["source"] == FAST)
        knob = await call("try", task="scale", edits=block("#define THREADS 128", "#define THREADS 64"))
        assert knob["decision"]["verdict"] == "revert"

    session(root, agent, "--commit")
    assert (root / CHAMPION).read_text() == FAST
    records = load_records(root, settled=True)
    assert problems(root, records) == []
    assert [record.kept for record in records].count(True) >= 2
    assert git(root, "status", "--porcelain") == ""
