"""Unified diffs that rebuild a text byte for byte, or fail.

Lines end at `\\n` only, so that carriage returns and exotic separators are part of a line. The header carries a hash of
both texts: a variant's id leaves comments out, so two texts may share an id, and a diff fits only one of them.
"""

from __future__ import annotations

import difflib
import hashlib
import re

_NO_NEWLINE = "\\ No newline at end of file"
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@$")
_HEADER = re.compile(r"^--- parent ([0-9a-f]{16})\n\+\+\+ variant ([0-9a-f]{16})\n")


class DiffMismatch(ValueError):
    """A diff that does not fit the text it is applied to, or is not a diff."""


def text_hash(text: str) -> str:
    """Sixteen hex digits over the exact bytes of a text."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def make_diff(parent: str, text: str) -> str:
    """The unified diff from one text to another, from which `apply_diff` rebuilds the second byte for byte."""
    old, new = _lines(parent), _lines(text)
    out = [f"--- parent {text_hash(parent)}\n", f"+++ variant {text_hash(text)}\n"]
    for line in list(difflib.unified_diff(old, new))[2:]:
        out.append(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}\n")
    return "".join(out)


def parent_hash(diff: str) -> str:
    """The hash of the text that a diff applies to. Raises DiffMismatch if there is no header."""
    match = _HEADER.match(diff)
    if match is None:
        raise DiffMismatch("no `--- parent HASH` / `+++ variant HASH` header")
    return match[1]


def apply_diff(parent: str, diff: str) -> str:
    """The text that `make_diff` described. Raises DiffMismatch for anything that does not fit exactly."""
    header = _HEADER.match(diff)
    if header is None:
        raise DiffMismatch("no `--- parent HASH` / `+++ variant HASH` header")
    if text_hash(parent) != header[1]:
        raise DiffMismatch(f"made for a parent with hash {header[1]}, not {text_hash(parent)}")
    text = _Patch(_lines(parent), diff[header.end() :]).apply()
    if text_hash(text) != header[2]:
        raise DiffMismatch(f"the result has hash {text_hash(text)}, not {header[2]}")
    return text


def _lines(text: str) -> list[str]:
    """Split after each `\\n`; unlike str.splitlines, at nothing else."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


class _Patch:
    """One pass over the hunks of a diff."""

    def __init__(self, old: list[str], body: str) -> None:
        if body and not body.endswith("\n"):
            raise DiffMismatch("the diff is cut short")
        self.old, self.body = old, body.split("\n")[:-1]
        self.at = 0  # next line of the diff
        self.taken = 0  # lines of the old text that are dealt with
        self.new: list[str] = []

    def apply(self) -> str:
        while self.at < len(self.body):
            self._hunk()
        self.new += self.old[self.taken :]
        if any(not line.endswith("\n") for line in self.new[:-1]):
            raise DiffMismatch("a line without a newline in the middle of the result")
        return "".join(self.new)

    def _hunk(self) -> None:
        match = _HUNK.match(self.body[self.at])
        if match is None:
            raise DiffMismatch(f"diff line {self.at + 3}: expected `@@ -a,b +c,d @@`")
        self.at += 1
        old_count, new_count = (int(count) if count is not None else 1 for count in (match[2], match[4]))
        start = int(match[1]) - (1 if old_count else 0)  # an empty range names the line before it
        if not self.taken <= start <= len(self.old):
            raise DiffMismatch(f"diff line {self.at + 2}: hunk starts out of order or past the end")
        self.new += self.old[self.taken : start]
        self.taken = start
        old_end, new_end = start + old_count, len(self.new) + new_count
        while self.taken < old_end or len(self.new) < new_end:
            self._line()
        if self.taken != old_end or len(self.new) != new_end:
            raise DiffMismatch(f"diff line {self.at + 2}: hunk has other line counts than it says")

    def _line(self) -> None:
        if self.at >= len(self.body):
            raise DiffMismatch("the diff is cut short")
        raw = self.body[self.at]
        self.at += 1
        mark, line = raw[:1], raw[1:] + "\n"
        if self.at < len(self.body) and self.body[self.at] == _NO_NEWLINE:
            line = raw[1:]
            self.at += 1
        if mark not in (" ", "-", "+"):
            raise DiffMismatch(f"diff line {self.at + 2}: starts with {mark!r}")
        if mark in (" ", "-"):
            if self.taken >= len(self.old) or self.old[self.taken] != line:
                raise DiffMismatch(f"diff line {self.at + 2}: does not match line {self.taken + 1} of the parent")
            self.taken += 1
        if mark in (" ", "+"):
            self.new.append(line)
