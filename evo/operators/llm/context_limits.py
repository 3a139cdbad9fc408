"""Whether a server read the whole prompt. Some, Ollama among them, cut a prompt to their context without a word.

Only the count of prompt tokens tells. A token of source or prose stands for three to five bytes, seldom for more than
six; and a longer prompt cannot have fewer tokens.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

_BYTES_PER_TOKEN = 8.0  # more than any prompt of evo has
_LONGER = 1.1  # times the bytes of another prompt: then it has more tokens
_LIKELY = 3  # bytes per token, to say how much context a prompt needs
_REPLY = 8192  # tokens that a reply needs beside


def was_cut(prompt: str, tokens: int) -> bool:
    """Whether a prompt has more text than that many tokens can stand for."""
    return len(prompt.encode("utf-8", "replace")) > _BYTES_PER_TOKEN * max(tokens, 1)


class ContextWatch:
    """Compares prompts with the tokens that the server counted, and says once that it cuts them. Thread-safe."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._lock = threading.Lock()
        self._seen: list[tuple[int, int]] = []  # bytes and tokens of prompts
        self._is_told = False

    def see(self, prompt: str, tokens: int | None) -> None:
        """One prompt, and the tokens that the server counted."""
        if not tokens:
            return
        size = len(prompt.encode("utf-8", "replace"))
        with self._lock:
            if self._is_told:
                return
            shrunk = any(size > _LONGER * other and tokens <= count for other, count in self._seen)
            self._seen.append((size, tokens))
            self._is_told = shrunk or was_cut(prompt, tokens)
            is_cut = self._is_told
        if is_cut:
            needed = size // _LIKELY + _REPLY
            self._note(
                f"the server counted {tokens:,} tokens in a prompt of {size:,} bytes, so it has cut it to its context;"
                f" give it one of {needed:,} tokens or more (Ollama: num_ctx or OLLAMA_CONTEXT_LENGTH)"
            )
