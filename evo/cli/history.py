"""Commands that read what there is and what has happened: operators."""

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
        if doc.before or doc.after:
            _example(doc.before, "-", "red")
            _example(doc.after, "+", "green")
    return 0


def _wrapped(sentence: str) -> None:
    import textwrap

    out(textwrap.fill(sentence, width=columns(sys.stdout) or 100, initial_indent="  ", subsequent_indent="  "))


def _example(text: str, mark: str, colour: str) -> None:
    for line in text.strip("\n").splitlines():
        out(paint(f"    {mark} {line}", colour))
