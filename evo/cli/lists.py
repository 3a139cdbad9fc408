"""Commands that list what there is: operators, insights, the leaderboard."""

from __future__ import annotations

import sys
from dataclasses import asdict

from evo.cli.options import AsJson
from evo.cli.terminal import columns, out, out_json, paint


def operators(json: AsJson = False) -> int:
    """List where changes come from. Each operator and rule with what it does and an example."""
    from evo.mutate import operator_docs

    docs = operator_docs()
    if json:
        out_json([asdict(doc) for doc in docs])
        return 0
    for doc in docs:
        out(paint(doc.name, "bold"))
        _wrapped(doc.sentence)
        _example(doc.before, doc.after)
    return 0


def _wrapped(sentence: str) -> None:
    import textwrap

    out(textwrap.fill(sentence, width=columns(sys.stdout) or 100, initial_indent="  ", subsequent_indent="  "))


def _example(before: str, after: str) -> None:
    """The lines that an edit takes away and adds, with what stays between them."""
    import difflib

    colours = {"-": ("red",), "+": ("green",), " ": ("dim",)}
    for line in difflib.ndiff(before.strip("\n").splitlines(), after.strip("\n").splitlines()):
        if line[0] in colours:
            out(paint(f"    {line.rstrip()}", *colours[line[0]]))
