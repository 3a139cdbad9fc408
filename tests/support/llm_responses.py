"""The Responses API, as the test server speaks it: one object, and the events of a stream."""

from __future__ import annotations

import json
from typing import Any


def response(
    text: str,
    *,
    thought: str = "",
    refusal: str = "",
    call: str = "",
    status: str = "completed",
    reason: str | None = None,
    usage: tuple[int, int] | None = (100, 20),
    reasoning: int = 0,
    error: dict[str, str] | None = None,
) -> dict[str, Any]:
    """A whole response; reason: why it is incomplete. usage: tokens read and written, `reasoning` of them thought."""
    output: list[dict[str, Any]] = []
    if thought:
        output.append({"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": thought}]})
    parts = [{"type": "output_text", "text": text, "annotations": []}] if text else []
    parts += [{"type": "refusal", "refusal": refusal}] if refusal else []
    if parts:
        output.append({"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": parts})
    if call:
        output.append({"type": "function_call", "id": "f", "call_id": "c", "name": "edit", "arguments": call})
    counts = None
    if usage is not None:
        counts = {
            "input_tokens": usage[0],
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage[1],
            "output_tokens_details": {"reasoning_tokens": reasoning},
            "total_tokens": sum(usage),
        }
    return {
        "id": "resp",
        "object": "response",
        "created_at": 0,
        "model": "test",
        "status": status,
        "incomplete_details": {"reason": reason} if reason else None,
        "error": error,
        "output": output,
        "usage": counts,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
    }


def events(whole: dict[str, Any], *, cut: bool = False, silent: bool = False) -> list[dict[str, Any]]:
    """The events that bring a whole response. cut: without an end. silent: only the first and the last one."""
    found: list[dict[str, Any]] = [{"type": "response.created", "response": {**whole, "output": [], "usage": None}}]
    for at, item in enumerate(whole["output"] if not silent else ()):
        place = {"output_index": at, "item_id": item["id"], "content_index": 0}
        if item["type"] == "reasoning":
            for part in item["summary"]:
                found.append({"type": "response.reasoning_summary_text.delta", "delta": part["text"], **place})
        elif item["type"] == "function_call":
            found.append({"type": "response.function_call_arguments.delta", "delta": item["arguments"], **place})
        for part in item.get("content", ()):
            kind = "response.refusal.delta" if part["type"] == "refusal" else "response.output_text.delta"
            said = part.get("refusal") or part.get("text")
            pieces = [said[start : start + 40] for start in range(0, len(said), 40)]
            found += [{"type": kind, "delta": piece, **place} for piece in pieces]
    if not cut:
        ends = {"completed": "response.completed", "incomplete": "response.incomplete", "failed": "response.failed"}
        found.append({"type": ends[whole["status"]], "response": whole})
    return [{**event, "sequence_number": number} for number, event in enumerate(found)]


def stream(whole: dict[str, Any], **words: bool) -> bytes:
    """The body of a streamed answer."""
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events(whole, **words)]
    return "".join(lines).encode()
