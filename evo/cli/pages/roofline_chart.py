"""The roofline as a drawing: throughput over arithmetic intensity, with limits, champions and library calls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from evo.analysis.roofline import CaseLimits
from evo.cli.pages.figures import COLOURS, Labels, Size, drawing, legend, log_ticks, mark
from evo.cli.pages.highlight import clean
from evo.cli.pages.roofline_plot import Roofline
from evo.results.wording import clipped, microseconds

_LABELS = (
    0.04,
    0.12,
    0.2,
    0.3,
    0.38,
    0.45,
    0.52,
    0.6,
    0.68,
)  # where along a slope its words may begin, away from the marks
_ROOM = 1.5  # between the frame and the first and last case, whose marks stand beside one another
_BOLD = 1.08  # wider than other words
_BESIDE = 13  # pixels between cases of one intensity


def drawable(roof: Roofline) -> bool:
    """Whether there is anything to draw: a case with arithmetic, and a roof or slope."""
    return bool(roof.roofs and drawn_cases(roof))


def drawn_cases(roof: Roofline) -> list[tuple[CaseLimits, float, float]]:
    """The cases that have a place over arithmetic intensity, with FLOP and FLOP/byte."""
    return [
        (case, case.flop, case.intensity_flop_per_byte)
        for case in roof.cases
        if case.flop and case.intensity_flop_per_byte
    ]


def roofline_svg(roof: Roofline, name: str, size: Size) -> str:
    """Throughput over arithmetic intensity. Hollow: limits and library calls; filled: the champion."""
    words = "; ".join(
        f"{case.name} {intensity:.4g} FLOP/byte, floor {microseconds(case.floor_us)} µs"
        + "".join(f", {one.role} {microseconds(one.us)} µs" for one in roof.of_case(case.name))
        for case, _, intensity in drawn_cases(roof)
    )
    plot = _Plot(roof, size)
    body = "".join(plot.parts())
    key, end = legend(plot.meanings(), size, size.y1 + 56)
    return drawing(body + key, size, end, name=name, title=f"Roofline of {roof.title}", description=words)


class _Axes:
    """From FLOP/byte and FLOP/s to pixels, both logarithmic."""

    def __init__(self, low: tuple[float, float], high: tuple[float, float], size: Size) -> None:
        self.size = size
        self.x0, self.x1 = math.log10(low[0]), math.log10(high[0])
        self.y0, self.y1 = math.log10(low[1]), math.log10(high[1])

    def x(self, intensity: float) -> float:
        share = (math.log10(intensity) - self.x0) / (self.x1 - self.x0)
        return self.size.left + min(max(share, 0.0), 1.0) * (self.size.x1 - self.size.left)

    def y(self, rate: float) -> float:
        share = (math.log10(rate) - self.y0) / (self.y1 - self.y0)
        return self.size.y1 - min(max(share, 0.0), 1.0) * (self.size.y1 - self.size.top)


class _Plot:
    def __init__(self, roof: Roofline, size: Size) -> None:
        self.roof, self.size = roof, size
        self.cases = drawn_cases(roof)
        rates = [flop / one.us * 1e6 for case, flop, _ in self.cases for one in roof.of_case(case.name)]
        floors = [flop / case.floor_cold_us * 1e6 for case, flop, _ in self.cases if case.floor_cold_us > 0]
        intensities = [intensity for _, _, intensity in self.cases]
        self.top = max(peak for _, peak in roof.roofs)
        ridges = [self.top / rate for _, rate, _ in roof.slopes]
        # Wide enough for the marks and for where each slope meets the roof.
        low_x = min(*(intensity / _ROOM for intensity in intensities), *(ridge / 12 for ridge in ridges), 1e9)
        high_x = max(*(intensity * _ROOM for intensity in intensities), *(ridge * 3 for ridge in ridges))
        low_y = min([*rates, *floors, *(peak for _, peak in roof.roofs), self.top / 20]) / 2
        self.axes = _Axes((low_x, low_y), (high_x, max([self.top, *rates]) * 1.6), size)
        self.places = [self._beside([self.axes.x(i) for i in intensities], at) for at in range(len(intensities))]

    def _beside(self, places: Sequence[float], number: int) -> float:
        """The position of a case; cases with nearly equal intensities are placed side by side within the frame."""
        here = places[number]
        near = [at for at, place in enumerate(places) if abs(place - here) < 6]
        wide = _BESIDE * (len(near) - 1)
        first = max(min(here - wide / 2, self.size.x1 - 8 - wide), self.size.left + 8)
        return first + _BESIDE * near.index(number)

    def parts(self) -> Iterator[str]:
        size = self.size
        labels = Labels((size.left, size.top, size.x1, size.y1))
        yield from self._frame()
        for number in range(len(self.cases)):
            for y in self._heights(number):
                labels.block(self.places[number] - 7, y - 7, self.places[number] + 7, y + 7)
        slopes = [self._slope(what, rate, rough, what == "DRAM", labels) for what, rate, rough in self.roof.slopes]
        yield from (part for slope in [list(one) for one in slopes] for part in slope)
        for what, peak in self.roof.roofs:
            yield from self._roof(what, peak, labels)
        for number, (case, flop, _) in enumerate(self.cases):
            yield from self._case(number, case, flop, labels)
        yield from self._names(labels)

    def _heights(self, number: int) -> list[float]:
        """Where the marks of a case are."""
        case, flop, _ = self.cases[number]
        times = [floor for floor in (case.floor_cold_us, case.floor_us) if floor > 0]
        return [self.axes.y(flop / us * 1e6) for us in (*times, *(one.us for one in self.roof.of_case(case.name)))]

    def _roof(self, what: str, peak: float, labels: Labels) -> Iterator[str]:
        size, y = self.size, self.axes.y(peak)
        start = min((peak / rate for _, rate, _ in self.roof.slopes), default=0.0)
        left = self.axes.x(start) if start else size.left
        yield f'<path class="roof" d="M{left:.1f} {y:.1f}H{size.x1}"/>'
        labels.block(left, y - 1, size.x1, y + 1)
        label = f"{what} {peak / 1e12:.4g} TFLOP/s"
        wide, high = size.text_width(label), size.font + 2
        right = size.x1 - wide
        corners = [(x, top) for x in (right, (left + right) / 2, left + 8) for top in (y - high - 4, y + 4)]
        corners.append((left - wide - 8, y - high / 2))  # before it begins, above the slopes
        found = labels.place(wide, high, corners)
        x, top = found if found is not None else corners[0]
        labels.block(x, top, x + wide, top + high)
        yield f'<text class="ink" x="{x:.1f}" y="{top + size.font:.1f}">{label}</text>'

    def _frame(self) -> Iterator[str]:
        size, axes = self.size, self.axes
        for tick in log_ticks(10.0**axes.x0, 10.0**axes.x1):
            at = axes.x(tick)
            yield f'<path class="grid" d="M{at:.1f} {size.top}V{size.y1}"/>'
            yield f'<text class="mid" x="{at:.1f}" y="{size.y1 + 18}">{tick:g}</text>'
        for tick in log_ticks(10.0 ** (axes.y0 - 12), 10.0 ** (axes.y1 - 12)):
            at = axes.y(tick * 1e12)
            yield f'<path class="grid" d="M{size.left} {at:.1f}H{size.x1}"/>'
            yield f'<text class="end" x="{size.left - 8}" y="{at + 4:.1f}">{tick:g}</text>'
        yield f'<path class="axis" d="M{size.left} {size.y1}H{size.x1}"/>'
        yield f'<text class="end" x="{size.x1}" y="{size.y1 + 36}">FLOP per compulsory byte</text>'
        timing = f", times {self.roof.timing}" if self.roof.taken else ""
        yield f'<text x="{size.margin}" y="14">TFLOP/s{timing}</text>'

    def _slope(self, what: str, rate: float, estimate: bool, below: bool, labels: Labels) -> Iterator[str]:
        # A slope is cut at the frame; clamping would bend it.
        axes, size = self.axes, self.size
        start = max(10.0**axes.x0, 10.0**axes.y0 / rate)
        end = min(self.top / rate, 10.0**axes.x1)
        if start >= end:
            return
        x1, y1, x2, y2 = axes.x(start), axes.y(rate * start), axes.x(end), axes.y(rate * end)
        yield f'<path class="slope{" dash" if estimate else ""}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'
        for at in range(12):  # names of cases stay off the slope
            x, y = x1 + (x2 - x1) * at / 12, y1 + (y2 - y1) * at / 12
            labels.block(x, y, x + (x2 - x1) / 12, y + (y2 - y1) / 12)
        angle = -math.degrees(math.atan2(y1 - y2, x2 - x1))
        told = estimate and size.width > 600  # the legend says it too
        label = f"{what} {rate / 1e9:,.0f} GB/s{' (estimate)' if told else ''}"
        long = size.text_width(label) * math.cos(math.radians(angle))
        room = x2 - 2 * size.font  # the roof's own words are at its end
        fits = [one for one in _LABELS if x1 + (x2 - x1) * one + long < room] or [_LABELS[0]]
        dx, dy = (size.font * 1.25, size.font * 1.0) if below else (-4.0, -7.0)
        rises = (y1 - y2) / (x2 - x1) * long
        if below:  # the roofs begin where the upper slope meets them
            fits = [one for one in fits if not self._at_a_roof(y1 - (y1 - y2) * one + dy, rises)] or fits
        share = max(fits, key=lambda one: min(self._clear(x1 + (x2 - x1) * one, long, mark) for mark in self.places))
        x, y = x1 + (x2 - x1) * share, y1 + (y2 - y1) * share
        labels.block(x, y - long * abs(math.tan(math.radians(angle))), x + long, y + dy)
        yield f'<text transform="translate({x + dx:.1f} {y + dy:.1f}) rotate({angle:.1f})">{label}</text>'

    def _at_a_roof(self, bottom: float, rises: float) -> bool:
        """Whether words that rise from here would meet a roof."""
        return any(bottom - rises - self.size.font < self.axes.y(peak) < bottom for _, peak in self.roof.roofs)

    @staticmethod
    def _clear(start: float, long: float, place: float) -> float:
        """How far a mark is from words that begin at `start`; negative within them."""
        return max(start - place, place - start - long)

    def _case(self, number: int, case: CaseLimits, flop: float, labels: Labels) -> Iterator[str]:
        colour, at = f"c{number % COLOURS}", self.places[number]
        heights: list[float] = []
        marks: list[str] = []
        for floor, note, shape in ((case.floor_cold_us, "cold", "box"), (case.floor_us, "warm", "ring")):
            if floor > 0:
                y = self.axes.y(flop / floor * 1e6)
                words = f"{case.name}: floor {note} {microseconds(floor)} µs"
                marks.append(f"<g><title>{clean(words)}</title>{mark(shape, at, y, colour, 4.5)}</g>")
                heights.append(y)
        for one in self.roof.of_case(case.name):
            y = self.axes.y(flop / one.us * 1e6)
            words = f"{case.name}: {one.role} {one.what}, {microseconds(one.us)} µs {self.roof.timing}"
            shape = "diamond" if one.role == "rival" else "dot"
            marks.append(f"<g><title>{clean(words)}</title>{mark(shape, at, y, colour, 5)}</g>")
            heights.append(y)
        if len(heights) > 1:
            labels.block(at - 1, min(heights), at + 1, max(heights))
            yield f'<path class="drop {colour}" d="M{at:.1f} {min(heights):.1f}V{max(heights):.1f}"/>'
        yield from marks

    def _names(self, labels: Labels) -> Iterator[str]:
        """Each champion's case and time beside its mark, as far as there is room; the legend has every case."""
        size = self.size
        for number, (case, flop, _) in enumerate(self.cases):
            champions = [one for one in self.roof.of_case(case.name) if one.role == "champion"]
            if not champions:
                continue
            best = min(champions, key=lambda one: one.us)
            share = f", {best_share:.0%} of the limit" if 0 < (best_share := case.floor_us / best.us) <= 1 else ""
            at, y = self.places[number], self.axes.y(flop / best.us * 1e6)
            for words in (f"{case.name} {microseconds(best.us)} µs{share}", f"{case.name} {microseconds(best.us)} µs"):
                wide, high = size.text_width(words) * _BOLD, size.font + 2
                corners = [(at + 10, y - high / 2), (at - 10 - wide, y - high / 2)]
                corners += [(x, y + high * d) for x in (at + 10, at - 10 - wide) for d in (0.7, 1.8, 2.9, -1.8, -2.9)]
                if (found := labels.place(wide, high, corners)) is not None:
                    colour = f"c{number % COLOURS}"
                    at_y = found[1] + size.font
                    yield f'<text class="{colour}" x="{found[0]:.1f}" y="{at_y:.1f}">{clean(words)}</text>'
                    break

    def meanings(self) -> list[tuple[str, str, str]]:
        found = [("ring", "grey", "limit, inputs in L2"), ("box", "grey", "limit, inputs in DRAM")]
        roles = {one.role for one in self.roof.taken}
        if "champion" in roles:
            found.append(("dot", "grey", f"champion, {self.roof.timing}"))
        if "rival" in roles:
            found.append(("diamond", "grey", f"library, {self.roof.timing}"))
        if any(estimate for _, _, estimate in self.roof.slopes):
            found.append(("dashes", "slope", "estimate that binds nothing"))
        for number, (case, _, _) in enumerate(self.cases):
            found.append(("dot", f"c{number % COLOURS}", clipped(case.name, 24)))
        return found
