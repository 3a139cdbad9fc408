"""`evo mcp` with work that takes its time: progress, a first answer in time, cancellation, reads meanwhile, records."""

from __future__ import annotations

import asyncio
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from llm_server import block
from mcp_agents import ask, session
from tiny import FAST, SLOW, git, new_repository

from evo.cli.mcp_jobs import Cancelled, Jobs, McpJob
from evo.errors import UsageError
from evo.records.trials import load_records
from evo.spec.variant import read_variant

if TYPE_CHECKING:
    from mcp import Client

ADD = block("2.0f * x[i]", "x[i] + x[i]")


def test_tools_say_what_they_take_and_refuse_what_they_do_not(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")

    async def agent(client: Client) -> None:
        assert client.server_info.version == version("evo-kernels")
        for tool in (await client.list_tools()).tools:
            assert tool.description
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint == (tool.name not in ("try", "cancel"))
            assert tool.input_schema["additionalProperties"] is False
            assert all(field.get("description") for field in tool.input_schema["properties"].values()), tool.name
        assert "error" in await ask(client, "champion", task="scale", chip="h100")
        assert "no job" in (await ask(client, "result", job="job-99"))["error"]
        grammar = (await client.read_resource("evo://grammar")).contents[0]
        assert "// evo: launch" in getattr(grammar, "text", "")
        found = await ask(client, "profile", task="scale", text=SLOW)
        assert found["kernels"][0]["name"] == "scale"
        assert "for (int i = first" in found["lines"][0]["source"]
        assert "no case" in (await ask(client, "profile", task="scale", case="none"))["error"]

    session(root, agent)


def test_a_long_try_tells_its_stage_answers_in_time_and_lets_others_read(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")

    async def agent(client: Client) -> None:
        stages: list[str] = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            stages.append(message or "")

        begun = time.monotonic()
        words = {"task": "scale", "text": FAST, "wait_s": 0.0}
        first = await client.call_tool("try", words, progress_callback=progress)
        running = dict(first.structured_content or {})
        assert running["status"] == "running"
        assert time.monotonic() - begun < 20
        assert (await ask(client, "champion", task="scale"))["is_champion"] is False  # read while it runs
        result = await client.call_tool("result", {"job": running["job"], "wait_s": 120.0}, progress_callback=progress)
        done = dict(result.structured_content or {})
        assert done["status"] == "correct"
        assert list(done).index("reason") < list(done).index("cases")
        assert stages
        ended = await ask(client, "try", task="scale", edits=ADD.replace("x[i] + x[i]", "x[i] * 2.0f"), wait_s=0.0)
        if ended["status"] == "running":
            assert (await ask(client, "cancel", job=ended["job"]))["status"] == "cancelled"
            assert "cancelled" in (await ask(client, "result", job=ended["job"], wait_s=60.0))["error"]
        assert (await ask(client, "try", task="scale", text=FAST, wait_s=120.0))["status"] == "correct"

    session(root, agent)
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.long
def test_what_was_tried_is_answered_from_the_record_and_a_commit_keeps_its_reason(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")

    async def agent(client: Client) -> None:
        words = {"summary": "one element a thread", "reason": "neighbours read neighbours", "risk": "more blocks"}
        kept = await ask(client, "try", task="scale", text=FAST, commit=True, wait_s=120.0, **words)
        assert kept["committed"] is True
        same = await ask(client, "try", task="scale", text=FAST + "// nothing new\n")
        assert (same["status"], same["committed"]) == ("unchanged", False)
        other = block("i < n", "i <= n - 1")
        tried = await ask(client, "try", task="scale", edits=ADD, commit=True, wait_s=120.0, reason="adds are free")
        again = await ask(client, "try", task="scale", edits=ADD, wait_s=120.0)
        if tried["status"] == "correct" and not tried["committed"]:
            assert again["from_record"] is True
            assert again["trial"] == load_records(root, "scale")[-1].trial
        before = len(load_records(root, "scale"))
        two = FAST.replace("define THREADS 128", "define THREADS 64").replace("2.0f * x[i]", "x[i] + x[i]")
        refused = await ask(client, "try", task="scale", text=two, commit=True)
        assert (refused["status"], refused["committed"]) == ("refused", False)
        assert len(load_records(root, "scale")) == before  # a refusal needs no trial
        rewritten = await ask(client, "try", task="scale", text=two, rewrite=True, wait_s=120.0)
        assert rewritten["status"] == "correct"
        assert other

    session(root, agent, "--commit")
    reasons = [record.reason for record in load_records(root, "scale")]
    assert "neighbours read neighbours" in reasons
    assert git(root, "status", "--porcelain") == ""


def slow_repository(root: Path) -> Path:
    """The task with cases so large that a try takes its time."""
    new_repository(root)
    described = root / "kernels" / "scale" / "task.yaml"
    cases = "".join(f"  case{number}: {{N: {262144 + number}}}\n" for number in range(4))
    described.write_text(described.read_text().replace("  small: {N: 131072}\n", cases))
    git(root, "commit", "--all", "--quiet", "--message", "larger cases")
    return root


@pytest.mark.long
@pytest.mark.parametrize("by", ["tool", "client"])
def test_a_cancelled_try_stops_and_nothing_is_kept(tmp_path: Path, by: str) -> None:
    root = slow_repository(tmp_path / "mine")
    before = git(root, "rev-parse", "HEAD")

    async def agent(client: Client) -> None:
        words = {"task": "scale", "text": FAST, "commit": True}
        begun = time.monotonic()
        if by == "tool":
            running = await ask(client, "try", **words, wait_s=0.5)
            assert running["status"] == "running"
            shown = await ask(client, "champion", task="scale")  # a read is answered meanwhile
            assert shown["variant"] == read_variant(root / "kernels" / "scale" / "ladder" / "00_slow.cu").id
            assert (await ask(client, "cancel", job=running["job"]))["status"] == "cancelled"
        else:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.call_tool("try", words), timeout=0.5)
        ended = await ask(client, "result", job="job-1", wait_s=60.0)
        stopped_s = time.monotonic() - begun
        assert "cancelled" in ended["error"]
        assert load_records(root, "scale") == []
        begun = time.monotonic()
        whole = await ask(client, "try", **words, wait_s=200.0)
        assert (whole["status"], whole["committed"]) == ("correct", True)  # the device is free, the ledger is whole
        assert stopped_s < 20  # a try of a minute, on a busy machine

    session(root, agent, "--commit")
    assert git(root, "status", "--porcelain") == ""
    assert git(root, "rev-list", "--count", f"{before}..HEAD").strip() not in ("", "0")
    assert {record.run for record in load_records(root, "scale")} == {load_records(root, "scale")[0].run}


@pytest.mark.long
def test_the_prompt_shows_the_champion_and_the_grammar(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")

    async def agent(client: Client) -> None:
        (listed,) = (await client.list_prompts()).prompts
        assert (listed.name, [argument.name for argument in listed.arguments or ()]) == ("improve", ["task"])
        await ask(client, "try", task="scale", text=FAST, commit=True, wait_s=120.0)
        found = await client.get_prompt("improve", {"task": "scale"})
        text = "".join(getattr(message.content, "text", "") for message in found.messages)
        assert FAST.strip() in text
        assert "// evo: launch scale" in text
        assert "BEGIN times" in text
        assert "limited by" in text
        with pytest.raises(Exception, match="not a task"):
            await client.get_prompt("improve", {"task": "../etc"})

    session(root, agent, "--commit")


def test_a_job_ends_at_the_first_stage_after_its_cancellation() -> None:
    jobs = Jobs()

    def work(job: McpJob) -> dict[str, Any]:
        while True:
            job.see("working")
            time.sleep(0.01)

    job = jobs.start(work)
    assert not job.wait(0.05)
    job.cancel()
    assert job.wait(5)
    with pytest.raises(UsageError, match="cancelled"):
        job.answer()
    assert jobs.find(job.name) is job
    failed = jobs.start(lambda _: 1 / 0)  # type: ignore[arg-type, return-value]
    assert failed.wait(5)
    with pytest.raises(ZeroDivisionError):
        failed.answer()
    with pytest.raises(Cancelled):
        raise Cancelled
