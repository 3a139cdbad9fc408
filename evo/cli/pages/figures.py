"""What the drawings share: sizes, the SVG element, scales, legends, and labels that do not collide.

A page has each drawing twice, for wide and for narrow screens, so that letters are never scaled out of reading size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from evo.cli.pages.highlight import clean

COLOURS = 6  # classes c0 to c5, one per case, then again
_LETTER = 0.56  # the mean width of a letter, as a share of the font's size


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A drawing's size in pixels: its plot and the room around it. What is below the plot grows as it needs."""

    name: str
    width: int
    plot: int  # the plot's height
    left: int
    right: int
    top: int
    font: float

    @property
    def margin(self) -> int:
        """Where legends and headings begin."""
        return min(self.left, 20)

    @property
    def x1(self) -> int:
        return self.width - self.right

    @property
    def y1(self) -> int:
        return self.top + self.plot

    def text_width(self, text: str) -> float:
        return len(text) * self.font * _LETTER


WIDE = Size(name="wide", width=1120, plot=330, left=64, right=24, top=34, font=13)
NARROW = Size(name="narrow", width=360, plot=250, left=46, right=14, top=34, font=12)
SIZES = (WIDE, NARROW)


def drawing(body: str, size: Size, height: float, *, name: str, title: str, description: str) -> str:
    """An SVG element with its text alternative. name: an id that nothing else on the page has."""
    name = f"{name}-{size.name}"
    return (
        f'<svg class="{size.name}" viewBox="0 0 {size.width} {height:g}" role="img" '
        f'aria-labelledby="{name}-t {name}-d"><title id="{name}-t">{clean(title)}</title>'
        f'<desc id="{name}-d">{clean(description)}</desc>{body}</svg>'
    )


# --- labels ---------------------------------------------------------------------------------------------------------


Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(slots=True)
class Labels:
    """Places labels in a frame so that none covers a mark or another label; a label without room is left out."""

    frame: Box
    taken: list[Box] = field(default_factory=list)

    def block(self, left: float, top: float, right: float, bottom: float) -> None:
        self.taken.append((min(left, right), min(top, bottom), max(left, right), max(top, bottom)))

    def place(self, width: float, height: float, corners: Iterable[tuple[float, float]]) -> tuple[float, float] | None:
        """The first of the upper left corners at which the label fits, which is then taken."""
        for x, y in corners:
            box = (x, y, x + width, y + height)
            inside = self.frame[0] <= x and self.frame[1] <= y and box[2] <= self.frame[2] and box[3] <= self.frame[3]
            if inside and not any(_overlap(box, other) for other in self.taken):
                self.taken.append(box)
                return x, y
        return None


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


# --- legends --------------------------------------------------------------------------------------------------------


def mark(shape: str, x: float, y: float, style: str, reach: float = 5) -> str:
    """A mark around a point. shape: dot, ring, square, box, diamond, cross, line, dashes or whisker."""
    r = reach
    if shape in ("dot", "ring"):
        hollow = " hollow" if shape == "ring" else ""
        return f'<circle class="{style}{hollow}" cx="{x:.1f}" cy="{y:.1f}" r="{r:g}"/>'
    if shape in ("square", "box"):
        hollow = " hollow" if shape == "box" else ""
        side = f'width="{2 * r:g}" height="{2 * r:g}"'
        return f'<rect class="{style}{hollow}" x="{x - r:.1f}" y="{y - r:.1f}" {side}/>'
    if shape == "diamond":
        return f'<path class="{style} hollow" d="M{x:.1f} {y - r - 1:.1f}l{r + 1:g} {r + 1:g}l{-r - 1:g} {r + 1:g}l{-r - 1:g} {-r - 1:g}z"/>'  # noqa: E501
    if shape == "cross":
        return f'<path class="{style}" d="M{x - r:.1f} {y - r:.1f}l{2 * r:g} {2 * r:g}m0 {-2 * r:g}l{-2 * r:g} {2 * r:g}"/>'  # noqa: E501
    if shape == "whisker":
        return f'<path class="{style}" d="M{x - 3:.1f} {y - r:.1f}h6m-3 0v{2 * r:g}m-3 0h6"/>'
    dash = " dash" if shape == "dashes" else ""
    return f'<path class="{style}{dash}" d="M{x - 9:.1f} {y:.1f}h18"/>'


def legend(entries: Sequence[tuple[str, str, str]], size: Size, top: float) -> tuple[str, float]:
    """Marks with their meaning, in as many rows as they need, and where they end. entries: (shape, style, words)."""
    left = float(size.margin)
    parts, x, y = [], left, top
    for shape, style, words in entries:
        half = 9 if shape in ("line", "dashes") else 5
        width = 2 * half + 6 + size.text_width(words)
        if x > left and x + width > size.width:
            x, y = left, y + size.font + 8
        parts.append(mark(shape, x + half, y, style))
        parts.append(f'<text x="{x + 2 * half + 6:.1f}" y="{y + size.font * 0.35:.1f}">{clean(words)}</text>')
        x += width + 16
    return f'<g class="key">{"".join(parts)}</g>', y + size.font


# --- scales ---------------------------------------------------------------------------------------------------------


class TimeScale:
    """Times to pixels, upwards: logarithmic if they span more than a factor of four."""

    def __init__(self, values: Sequence[float], size: Size) -> None:
        low, high = min(values), max(values)
        self.size = size
        self.log = high > 4 * low
        if self.log:
            self.low, self.high = low / 1.25, high * 1.15
            self.ticks = list(log_ticks(self.low, self.high))
        else:
            room = (high - low) * 0.12 or high * 0.05
            self.low, self.high = max(low - room, 0.0), high + room
            step = nice((self.high - self.low) / 5)
            first = math.ceil(self.low / step)
            self.ticks = [step * k for k in range(first, math.floor(self.high / step) + 1)]

    def y(self, value: float) -> float:
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.size.y1 - share * (self.size.y1 - self.size.top)


def log_ticks(low: float, high: float) -> Iterator[float]:
    """1, 2 and 5 times powers of ten; powers alone over more than two decades."""
    wide = high / low > 200
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        for digit in (1,) if wide else (1, 2, 5):
            if low <= (value := digit * 10.0**power) <= high:
                yield value


def nice(step: float) -> float:
    """The next round number: 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step)) if step > 0 else 1.0
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= step)


def whole_ticks(count: int, most: int) -> list[int]:
    """Round numbers from 1 to `count`, at most about `most` of them."""
    step = max(1, round(nice(count / most)))
    return sorted({1, *range(step, count + 1, step)}) if step > 1 else list(range(1, count + 1))
