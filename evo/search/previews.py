"""Proposals drawn, compiled and looked at ahead while verdicts are waited for; no proposal changes."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

from evo.evaluate.code_ahead import CORES_TO_SPARE
from evo.search.proposer import Proposer
from evo.spec.variant import parse_variant


class Previews:
    """One preview at a time, in a thread. is_wanted: whether candidates are under way on this process's own GPU."""

    def __init__(self, proposer: Proposer, *, is_wanted: bool) -> None:
        has_cores = (os.cpu_count() or 1) >= CORES_TO_SPARE
        self._proposer = proposer
        self._threads = ThreadPoolExecutor(1, "evo-preview") if is_wanted and has_cores else None
        self._latest: Future[None] | None = None
        self._number = 0
        self._is_closed, self._dropped = False, set[str]()
        if self._threads is not None:
            proposer.soon = self._of_texts

    def of_next(self, text: str, number: int) -> None:
        """Preview trial `number` as an edit of this text, unless another preview is under way."""
        self._number = number
        if self._latest is None or self._latest.done():
            self.of_promising(text)

    def of_promising(self, text: str) -> None:
        """Preview the next trial for the case that this text becomes the champion."""
        if self._threads is not None:
            self._latest = self._threads.submit(self._proposer.preview, parse_variant(text), self._number)

    def look_ahead(self, text: str) -> None:
        """Look at what the next trial would change of this text, for the same case."""
        if self._threads is not None:
            with contextlib.suppress(CancelledError):
                self._proposer.look_ahead(parse_variant(text), self._number, functools.partial(self._go_on, text))

    def _go_on(self, text: str, _: str) -> None:
        if self._is_closed or text in self._dropped:
            raise CancelledError

    def drop(self, text: str) -> None:
        """It is not kept: looks at what would come after it end."""
        self._dropped.add(text)

    def _of_texts(self, texts: Sequence[str]) -> None:
        if self._threads is not None and texts:
            self._threads.submit(self._proposer.compile_ahead, texts)

    def close(self) -> None:
        """What is under way ends unheard."""
        self._is_closed = True
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
