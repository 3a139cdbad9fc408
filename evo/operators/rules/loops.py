"""Counted loops as rules look at them: with the statement, what stands beside it, and the place in front."""

from __future__ import annotations

from collections.abc import Iterator

from evo.cuda.source import Loop, Statement
from evo.operators.rules.scene import Scene


def counted_loops(scene: Scene) -> Iterator[tuple[Loop, Statement, tuple[Statement, ...]]]:
    """Counted loops that start a line, with their statement and the statements beside it."""
    for function in scene.source.functions:
        tops = scene.source.statements(function)
        beside = {s.span: tops for s in tops}
        for outer in (inner for top in tops for inner in top.all()):
            beside |= {s.span: outer.body for s in outer.body} | {s.span: outer.alternative for s in outer.alternative}
        known = {s.span: s for top in tops for s in top.all()}
        for loop in scene.source.loops:
            statement = known.get(loop.span)
            if loop.function == function.name and statement is not None and statement.is_counted:
                yield loop, statement, beside[loop.span]


def above(scene: Scene, loop: Loop) -> int:
    """The first byte of the loop's pragma, or of its line; of the loop itself if it starts within a line."""
    found = scene.source.above(loop.span)
    return found if found is not None else loop.span.start


def loop_words(scene: Scene, loop: Loop) -> str:
    """`loop over i (line 12)`."""
    return f"loop over {loop.variable} (line {scene.source.line(loop.span.start)})"
