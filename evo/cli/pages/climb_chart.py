"""The climb as a drawing: time by trial, the champion's line, and the change that each keep brought.

Shape says what colour says: filled circle kept, hollow circle not kept, cross not timed, square start.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from evo.cli.pages.climb_speedup import climb_speedup, segments
from evo.cli.pages.figures import Labels, Size, TimeScale, drawing, legend, mark, whole_ticks
from evo.cli.pages.highlight import clean
from evo.cli.pages.report_model import Climb, ClimbPoint
from evo.results.wording import clipped, microseconds, plural


def climb_words(climb: Climb) -> str:
    """The climb in a sentence: the drawing's text alternative."""
    timed = [point for point in climb.points if point.us is not None]
    tried = [point for point in climb.points if point.kind != "start"]
    words = f"{plural(len(tried), 'trial')}, {sum(p.kept for p in tried)} kept"
    if not timed:
        return f"{words}, none of them timed."
    kept = [point for point in timed if point.kept]
    last = (kept or timed)[-1]
    first = next(point for point in segments(climb)[-1] + timed if point in (kept or timed))  # of the latest champions
    assert first.us is not None
    assert last.us is not None
    words += f". Case {climb.case}: {climb.timing} {microseconds(first.us)} µs at trial {first.index}"
    return f"{words}, {microseconds(last.us)} µs at trial {last.index}." if last is not first else f"{words}."


def climb_svg(climb: Climb, name: str, size: Size) -> str:
    """Time by trial, with intervals if there are any; trials without a time along the bottom."""
    title = f"Climb of {climb.title}"
    plot = _Plot(climb, size)
    body = "".join(plot.parts())
    key, end = legend(plot.meanings(), size, plot.below + 34)
    return drawing(body + key, size, end, name=name, title=title, description=climb_words(climb))


class _Plot:
    def __init__(self, climb: Climb, size: Size) -> None:
        self.climb, self.size = climb, size
        self.timed = [point for point in climb.points if point.us is not None]
        values = [value for p in self.timed for value in (p.us, p.low, p.high) if value is not None]
        self.scale = TimeScale(values, size) if values else None
        self.below = size.y1 + (34 if len(self.timed) < len(climb.points) else 20)  # where the axis has its figures
        self.step = (size.x1 - size.left - 28) / max(len(climb.points) - 1, 1)

    def x(self, point: ClimbPoint) -> float:
        return self.size.left + 14 + (point.index - 1) * self.step

    def y(self, point: ClimbPoint) -> float:
        assert self.scale is not None
        assert point.us is not None
        return self.scale.y(point.us)

    def parts(self) -> Iterator[str]:
        size, scale = self.size, self.scale
        labels = Labels((size.left, size.top - 8, size.width - 4, size.y1 - 2))
        words = f"µs {self.climb.timing}, case {self.climb.case}"
        if scale is not None:
            yield from self._grid(scale)
            for points in segments(self.climb):
                yield from self._champions(points, labels)
            for point in sorted(self.timed, key=lambda point: point.kept):  # kept trials on top
                labels.block(self.x(point) - 6, self.y(point) - 6, self.x(point) + 6, self.y(point) + 6)
                yield self._mark(point, scale)
            yield from self._names(labels)
            words += ", logarithmic" if scale.log else ""
        yield from self._untimed()
        yield f'<path class="axis" d="M{size.left} {size.y1}H{size.x1}"/>'
        for index in whole_ticks(len(self.climb.points), 14 if size.width > 600 else 6):
            at = size.left + 14 + (index - 1) * self.step
            yield f'<text class="mid" x="{at:.1f}" y="{self.below}">{index}</text>'
        yield f'<text class="end" x="{size.x1}" y="{self.below + 16}">trial</text>'
        yield f'<text x="{size.margin}" y="14">{clean(words)}</text>'

    def _grid(self, scale: TimeScale) -> Iterator[str]:
        for tick in scale.ticks:
            at = scale.y(tick)
            yield f'<path class="grid" d="M{self.size.left} {at:.1f}H{self.size.x1}"/>'
            yield f'<text class="end" x="{self.size.left - 8}" y="{at + 4:.1f}">{tick:,.6g}</text>'

    def _champions(self, points: Sequence[ClimbPoint], labels: Labels) -> Iterator[str]:
        """The champion's time from one start to the trial before the next."""
        best = [(self.x(p), self.y(p)) for p in points if p.kept and p.us is not None]
        if not best:
            return
        last = points[-1] is self.climb.points[-1]
        end = self.size.x1 if last else self.x(points[-1])
        path = f"M{best[0][0]:.1f} {best[0][1]:.1f}" + "".join(f"H{at:.1f}V{y:.1f}" for at, y in best[1:])
        yield f'<path class="area" d="{path}H{end:.1f}V{self.size.y1}H{best[0][0]:.1f}z"/>'
        yield f'<path class="best" d="{path}H{end:.1f}"/>'
        corners = [*best, (end, best[-1][1])]
        for (x0, y0), (x1, y1) in itertools.pairwise(corners):
            labels.block(x0, y0 - 2, x1, y0 + 2)
            labels.block(x1 - 2, y0, x1 + 2, y1)

    def _mark(self, point: ClimbPoint, scale: TimeScale) -> str:
        assert point.us is not None
        at, y, kind = self.x(point), self.y(point), "kept" if point.kept else "not"
        words = f"trial {point.index}: {microseconds(point.us)} µs {self.climb.timing}, {point.verdict}"
        bar = ""
        if point.low is not None and point.high is not None:
            words += f", 95 % interval {microseconds(point.low)} to {microseconds(point.high)} µs"
            low, high = scale.y(point.low), scale.y(point.high)
            bar = f'<path class="bar {kind}" d="M{at - 3:.1f} {high:.1f}h6m-3 0V{low:.1f}m-3 0h6"/>'
        label = clean(f"{words}: {clipped(point.summary, 60)}")
        shape = "square" if point.kind == "start" else "dot"
        return f"<g><title>{label}</title>{bar}{mark(shape, at, y, kind, 5 if point.kept else 3.5)}</g>"

    def _untimed(self) -> Iterator[str]:
        for point in self.climb.points:
            if point.us is None:
                words = f"trial {point.index}: {point.status}, not timed: {clipped(point.summary, 60)}"
                cross = mark("cross", self.x(point), self.size.y1 + 12, "cross", 3.5)
                yield f"<g><title>{clean(words)}</title>{cross}</g>"

    def _names(self, labels: Labels) -> Iterator[str]:
        """The champion's time, then the start's, then what each keep changed, as far as there is room."""
        kept = [point for point in self.timed if point.kept]
        since = climb_speedup(self.climb)
        if since is not None and kept:
            words = f"{microseconds(since.now_us)} µs, {since.ratio_words}" if since.ratio != 1 else ""
            yield self._label(kept[-1], words, labels, "strong")
        most = min(64, max(34, 120 // max(len(kept), 1))) if self.size.width > 600 else 20
        for point in reversed(kept):
            yield self._label(point, clipped(point.summary, most), labels, "")

    def _label(self, point: ClimbPoint, words: str, labels: Labels, style: str) -> str:
        if not words:
            return ""
        x, y, font = self.x(point), self.y(point), self.size.font
        width, height = self.size.text_width(words) * (1.1 if style else 1), font + 2
        above, below = y - height - 5, y + 7
        left = self.size.x1 - width
        corners = [(x + 9, above), (x + 9, below), (x - width - 9, below), (x - width - 9, above)]
        if style:  # the champion's line leads from its mark to the right edge
            corners += [(left, above), (left, below), (left, above - height), (left, below + height)]
        found = labels.place(width, height, corners)
        if found is None:
            return ""
        return f'<text class="{style or "ink"}" x="{found[0]:.1f}" y="{found[1] + font:.1f}">{clean(words)}</text>'

    def meanings(self) -> list[tuple[str, str, str]]:
        points = self.climb.points
        there = [
            (any(p.kept and p.kind != "start" for p in points), ("dot", "kept", "kept")),
            (any(p.kept and p.kind == "start" for p in points), ("square", "kept", "start")),
            (any(not p.kept and p.us is not None for p in points), ("dot", "not", "not kept")),
            (any(p.us is None for p in points), ("cross", "cross", "not timed")),
            (any(p.kept and p.us is not None for p in points), ("line", "best", "champion")),
            (any(p.low is not None for p in points), ("whisker", "bar kept", "95 % interval")),
        ]
        return [meaning for shown, meaning in there if shown]
