"""What a server's answer says: text, thoughts, finish and counts, in the spellings of the servers that there are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_TEXTS = ("text", "content")
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")


def field_of(part: Any, name: str) -> Any:
    """A field of an object of the client, or of plain JSON; None if it has none."""
    return part.get(name) if isinstance(part, Mapping) else getattr(part, name, None)


def text_of(content: Any) -> str:
    """Content as text: a string, or a list of parts of which those that are thoughts are left out."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return ""
    said = []
    for part in content:
        if isinstance(part, str):
            said.append(part)
        elif field_of(part, "type") in (None, "text", "output_text"):
            said += [text for name in _TEXTS if isinstance(text := field_of(part, name), str)][:1]
    return "".join(said)


def thought_of(message: Any) -> str:
    """What a message thinks aloud beside its content."""
    found = [text for name in _THOUGHTS if isinstance(text := field_of(message, name), str)][:1]
    content = field_of(message, "content")
    for part in content if isinstance(content, list | tuple) else ():
        if field_of(part, "type") in ("thinking", "reasoning"):
            inner = field_of(part, "thinking")
            found.append(text_of(inner) if inner is not None else text_of([part]))
    return "".join(found)


def refusal_of(message: Any) -> str:
    found = field_of(message, "refusal")
    return found if isinstance(found, str) else ""


def called(message: Any) -> str:
    """The arguments of tool calls: a model that answers so may have put its edits there."""
    calls = field_of(message, "tool_calls")
    texts = []
    for call in calls if isinstance(calls, list | tuple) else ():
        arguments = field_of(field_of(call, "function"), "arguments")
        texts.append(arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else "")
    return "".join(texts)


def counts_of(usage: Any) -> tuple[int | None, int | None]:
    """Tokens read and written, with all reasoning: some servers count it in, some apart, some in the total alone."""
    prompt = _first(usage, "prompt_tokens", "input_tokens")
    written = _first(usage, "completion_tokens", "output_tokens")
    total = whole_number(field_of(usage, "total_tokens"))
    thought = reasoning_of(usage)
    if written is not None and thought is not None and thought > written:
        written += thought  # counted apart
    if prompt is not None and total is not None and total > prompt:
        written = max(written or 0, total - prompt)
    return prompt, written


def reasoning_of(usage: Any) -> int | None:
    """Tokens of reasoning as the server reports them; None if it reports none."""
    details = field_of(usage, "completion_tokens_details") or field_of(usage, "output_tokens_details")
    thought = whole_number(field_of(details, "reasoning_tokens")) if details is not None else None
    return thought if thought is not None else whole_number(field_of(usage, "reasoning_tokens"))


def whole_number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _first(usage: Any, *names: str) -> int | None:
    return next((count for name in names if (count := whole_number(field_of(usage, name))) is not None), None)
