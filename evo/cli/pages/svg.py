"""Drawings as SVG, by hand: the climb, the line of descent, the roofline. Colours are classes that follow the page.

Shape says what colour says: filled circle kept, hollow circle not kept, cross not timed, square start, diamond rival.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from evo.analysis.roofline import CaseLimits
from evo.cli.pages.highlight import clean
from evo.cli.pages.model import Climb, ClimbPoint, Line
from evo.cli.pages.roofline_plot import Roofline
from evo.results.wording import clipped, gain_words, microseconds, plural

WIDTH = 720
COLOURS = 6  # classes c0 to c5, one per case, then again
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 22, 20, 58
_HEIGHT = 340
_ROW = 26
_MOST_DOTS = 24

STYLE = """
svg{--ink:#1c2430;--soft:#5b6675;--grid:#dfe4ea;--paper:#ffffff;--kept:#0b6e4f;--not:#a8480f;--line:#0b6e4f;
--c0:#0b5fa5;--c1:#a8480f;--c2:#3d7a2a;--c3:#7a3d8f;--c4:#7d6200;--c5:#555f6b;font-family:system-ui,sans-serif}
@media(prefers-color-scheme:dark){svg{--ink:#e8ecf1;--soft:#a9b4c2;--grid:#313a46;--paper:#14181e;--kept:#5fd3a5;
--not:#f2a270;--line:#5fd3a5;--c0:#7cb9f2;--c1:#f2a270;--c2:#93d17f;--c3:#d3a3e6;--c4:#e0c65c;--c5:#b4bdc8}}
"""
SHAPES = """
svg text{fill:var(--soft);font-size:12px}svg .ink{fill:var(--ink)}svg .grid{stroke:var(--grid)}
svg .axis{stroke:var(--soft)}svg .end{text-anchor:end}svg .mid{text-anchor:middle}svg .best{fill:none;
stroke:var(--line);stroke-width:1.5}svg .kept{fill:var(--kept);stroke:var(--kept)}
svg .not{fill:var(--paper);stroke:var(--not);
stroke-width:1.5}svg .bar{stroke-width:1.2;fill:none}svg .bar.kept{stroke:var(--kept)}svg .bar.not{stroke:var(--not)}
svg .cross{stroke:var(--not);stroke-width:1.5;fill:none}svg .roof{stroke:var(--ink);stroke-width:1.5}
svg .slope{stroke:var(--soft);stroke-width:1.5}svg .dash{stroke-dasharray:6 4}svg .hollow{fill:var(--paper)!important}
svg .c0{stroke:var(--c0);fill:var(--c0)}svg .c1{stroke:var(--c1);fill:var(--c1)}svg .c2{stroke:var(--c2);fill:var(--c2)}
svg .c3{stroke:var(--c3);fill:var(--c3)}svg .c4{stroke:var(--c4);fill:var(--c4)}svg .c5{stroke:var(--c5);fill:var(--c5)}
"""


def drawing(body: str, height: float, *, name: str, title: str, description: str) -> str:
    """An SVG element for a page, with its text alternative. name: an id that nothing else on the page has."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{clean(title)}</title><desc id="{name}-d">{clean(description)}</desc>{body}</svg>'
    )


# --- the climb ------------------------------------------------------------------------------------------------------


class _Scale:
    """Times to pixels, upwards: logarithmic if they span more than a factor of four."""

    def __init__(self, values: Sequence[float]) -> None:
        low, high = min(values), max(values)
        self.log = high > 4 * low
        if self.log:
            self.low, self.high = low / 1.15, high * 1.15
            self.ticks = list(_log_ticks(self.low, self.high))
        else:
            room = (high - low) * 0.08 or high * 0.05
            self.low, self.high = max(low - room, 0.0), high + room
            step = _nice((self.high - self.low) / 5)
            first = math.ceil(self.low / step)
            self.ticks = [step * k for k in range(first, math.floor(self.high / step) + 1)]

    def y(self, value: float) -> float:
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _log_ticks(low: float, high: float) -> Iterator[float]:
    wide = high / low > 200
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        for digit in (1,) if wide else (1, 2, 5):
            if low <= (value := digit * 10.0**power) <= high:
                yield value


def _nice(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step)) if step > 0 else 1.0
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= step)


def climb_words(climb: Climb) -> str:
    """The climb in a sentence: the drawing's text alternative."""
    timed = [point for point in climb.points if point.us is not None]
    kept = [point for point in timed if point.kept]
    words = f"{plural(len(climb.points), 'trial')}, {sum(p.kept for p in climb.points)} kept"
    if not timed:
        return f"{words}, none of them timed."
    first = kept[0] if kept else timed[0]
    last = kept[-1] if kept else timed[-1]
    assert first.us is not None
    assert last.us is not None
    words += f". Case {climb.case}: {climb.timing} {microseconds(first.us)} µs at trial {first.index}"
    return f"{words}, {microseconds(last.us)} µs at trial {last.index}."


def climb_svg(climb: Climb, name: str) -> str:
    """Time by trial: kept and not kept, with intervals if there are any; trials without a time along the bottom."""
    timed = [point for point in climb.points if point.us is not None]
    values = [value for p in timed for value in (p.us, p.low, p.high) if value is not None]
    parts: list[str] = []
    bottom, right = _HEIGHT - _BOTTOM, WIDTH - _RIGHT
    step = (right - _LEFT - 20) / max(len(climb.points) - 1, 1)

    def x(index: int) -> float:
        return _LEFT + 10 + (index - 1) * step

    if values:
        scale = _Scale(values)
        for tick in scale.ticks:
            at = scale.y(tick)
            parts.append(f'<path class="grid" d="M{_LEFT} {at:.1f}H{right}"/>')
            parts.append(f'<text class="end" x="{_LEFT - 6}" y="{at + 4:.1f}">{tick:,.6g}</text>')
        best = [(x(p.index), scale.y(p.us)) for p in timed if p.kept and p.us is not None]
        if best:
            path = f"M{best[0][0]:.1f} {best[0][1]:.1f}" + "".join(f"H{at:.1f}V{y:.1f}" for at, y in best[1:])
            parts.append(f'<path class="best" d="{path}H{right}"/>')
        for point in sorted(timed, key=lambda point: point.kept):  # kept trials on top
            parts.append(_mark(point, x(point.index), scale, climb))
    for point in climb.points:
        if point.us is None:
            at, y = x(point.index), bottom + 12
            label = clean(f"trial {point.index}: {point.status}, not timed: {clipped(point.summary, 60)}")
            cross = f"M{at - 3:.1f} {y - 3}l6 6m0-6l-6 6"
            parts.append(f'<g><title>{label}</title><path class="cross" d="{cross}"/></g>')
    parts.append(f'<path class="axis" d="M{_LEFT} {bottom}H{right}"/>')
    for index in _whole_ticks(len(climb.points)):
        parts.append(f'<text class="mid" x="{x(index):.1f}" y="{bottom + 34}">{index}</text>')
    parts.append(f'<text class="end" x="{right}" y="{bottom + 52}">trial</text>')
    scale_words = " (logarithmic)" if values and scale.log else ""
    parts.append(f'<text x="4" y="12">{climb.timing} µs, case {clean(climb.case)}{scale_words}</text>')
    title = f"Climb of {climb.title}"
    return drawing("".join(parts), _HEIGHT, name=name, title=title, description=climb_words(climb))


def _mark(point: ClimbPoint, at: float, scale: _Scale, climb: Climb) -> str:
    assert point.us is not None
    y, kind = scale.y(point.us), "kept" if point.kept else "not"
    words = f"trial {point.index}: {microseconds(point.us)} µs {climb.timing}, {point.verdict}"
    bar = ""
    if point.low is not None and point.high is not None:
        words += f", 95 % interval {microseconds(point.low)} to {microseconds(point.high)} µs"
        low, high = scale.y(point.low), scale.y(point.high)
        bar = f'<path class="bar {kind}" d="M{at - 3:.1f} {high:.1f}h6m-3 0V{low:.1f}m-3 0h6"/>'
    label = clean(f"{words}: {clipped(point.summary, 60)}")
    if point.kind == "start":
        shape = f'<rect class="{kind}" x="{at - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'
    else:
        shape = f'<circle class="{kind}" cx="{at:.1f}" cy="{y:.1f}" r="{4 if point.kept else 3}"/>'
    return f"<g><title>{label}</title>{bar}{shape}</g>"


def _whole_ticks(count: int) -> list[int]:
    step = max(1, round(_nice(count / 8)))
    return sorted({1, *range(step, count + 1, step)}) if step > 1 else list(range(1, count + 1))


# --- descent --------------------------------------------------------------------------------------------------------


def descent_svg(line: Line, name: str) -> str:
    """The kept chain downwards, and to the right of each variant its children that were not kept."""
    parts: list[str] = []
    height = _ROW * len(line.steps) + 12
    for index, step in enumerate(line.steps):
        y = 14 + _ROW * index
        if index:
            parts.append(f'<path class="best" d="M16 {y - _ROW}V{y}"/>')
        record = step.record
        parts.append(f'<circle class="kept" cx="16" cy="{y}" r="6"/>')
        effect = f"{record.gain.ratio:.2f}x" if record.gain is not None else record.kind
        parts.append(f'<text class="ink" x="32" y="{y + 4}">{clean(record.variant)}</text>')
        parts.append(f'<text class="end" x="190" y="{y + 4}">{clean(effect)}</text>')
        parts.append(f'<text x="204" y="{y + 4}">{clean(clipped(record.summary, 34))}</text>')
        for dot, tried in enumerate(step.tried[:_MOST_DOTS]):
            at = 440 + 10 * dot
            label = clean(f"{tried.variant}: {tried.status.value}, {clipped(tried.summary, 60)}")
            if tried.bench:
                shape = f'<circle class="not" cx="{at}" cy="{y}" r="3"/>'
            else:
                shape = f'<path class="cross" d="M{at - 3} {y - 3}l6 6m0-6l-6 6"/>'
            parts.append(f"<g><title>{label}</title>{shape}</g>")
        if len(step.tried) > _MOST_DOTS:
            parts.append(f'<text x="{440 + 10 * _MOST_DOTS}" y="{y + 4}">+{len(step.tried) - _MOST_DOTS}</text>')
    tried_all = sum(len(step.tried) for step in line.steps)
    words = f"{plural(len(line.steps), 'kept variant')} from start to champion; {tried_all} others tried on the way: "
    words += "; ".join(f"{s.record.variant} {gain_words(s.record.gain) or s.record.kind}" for s in line.steps[:40])
    return drawing("".join(parts), height, name=name, title=f"Descent of {line.title}", description=words)


# --- the roofline ---------------------------------------------------------------------------------------------------


class _Axes:
    """From FLOP/byte and FLOP/s to pixels, both logarithmic."""

    def __init__(self, low: tuple[float, float], high: tuple[float, float]) -> None:
        self.x0, self.y0 = (math.floor(math.log10(value)) for value in low)
        self.x1, self.y1 = (math.ceil(math.log10(value)) for value in high)

    def x(self, intensity: float) -> float:
        share = (math.log10(intensity) - self.x0) / max(self.x1 - self.x0, 1)
        return _LEFT + min(max(share, 0.0), 1.0) * (WIDTH - _LEFT - _RIGHT)

    def y(self, rate: float) -> float:
        share = (math.log10(rate) - self.y0) / max(self.y1 - self.y0, 1)
        return _HEIGHT - 44 - min(max(share, 0.0), 1.0) * (_HEIGHT - 44 - 24)


_LABELS, _LABEL = (0.12, 0.3, 0.45), 90.0  # where along a slope its words may begin, away from the marks; their length
_ROOM = 1.5  # between the left edge and the first case, whose marks stand beside one another


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


def roofline_svg(roof: Roofline, name: str) -> str:
    """Throughput over arithmetic intensity. Hollow: the limit of a case; circle champion, diamond rival."""
    cases = drawn_cases(roof)
    rates = [flop / one.us * 1e6 for case, flop, _ in cases for one in roof.of_case(case.name)]
    intensities = [intensity for _, _, intensity in cases]
    top = max(peak for _, peak in roof.roofs)
    low_x = min(*(intensity / _ROOM for intensity in intensities), 1.0)
    high_x = max(*intensities, 1000.0)
    low_y = min([rate * low_x for _, rate, _ in roof.slopes[:1]] + rates + [top / 1000])
    axes = _Axes((low_x, low_y), (high_x, max(top, *rates, 0.0) * 1.01))
    parts = [*_frame(axes)]
    for what, peak in roof.roofs:
        y = axes.y(peak)
        parts.append(f'<path class="roof" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>')
        label = f"{what} {peak / 1e12:.4g} TFLOP/s"
        parts.append(f'<text class="end ink" x="{WIDTH - _RIGHT - 4}" y="{y - 5:.1f}">{label}</text>')
    for what, rate, estimate in roof.slopes:
        parts += _slope(axes, what, rate, top, estimate, below=what == "DRAM", marks=[axes.x(i) for i in intensities])
    for number, (case, flop, _) in enumerate(cases):
        colour, at = f"c{number % COLOURS}", _beside([axes.x(i) for i in intensities], number)
        for floor, note in ((case.floor_us, "warm"), (case.floor_cold_us, "cold")):
            if floor > 0:
                y = axes.y(flop / floor * 1e6)
                label = clean(f"{case.name}: floor {note} {microseconds(floor)} µs")
                parts.append(
                    f'<g><title>{label}</title><circle class="{colour} hollow" cx="{at:.1f}" cy="{y:.1f}" r="5"/></g>'
                )
        for one in roof.of_case(case.name):
            y = axes.y(flop / one.us * 1e6)
            label = clean(f"{case.name}: {one.role} {one.what}, {microseconds(one.us)} µs {roof.timing}")
            shape = f'<circle class="{colour}" cx="{at:.1f}" cy="{y:.1f}" r="5"/>'
            if one.role == "rival":
                shape = f'<path class="{colour} hollow" d="M{at:.1f} {y - 6:.1f}l6 6l-6 6l-6-6z"/>'
            parts.append(f"<g><title>{label}</title>{shape}</g>")
    words = "; ".join(
        f"{case.name} {intensity:.4g} FLOP/byte, floor {microseconds(case.floor_us)} µs"
        + "".join(f", {one.role} {microseconds(one.us)} µs" for one in roof.of_case(case.name))
        for case, _, intensity in cases
    )
    return drawing("".join(parts), _HEIGHT, name=name, title=f"Roofline of {roof.title}", description=words)


def _beside(places: Sequence[float], number: int) -> float:
    """The position of a case; cases with nearly equal intensities are placed side by side."""
    here = places[number]
    near = [at for at, place in enumerate(places) if abs(place - here) < 6]
    return here + 13 * (near.index(number) - (len(near) - 1) / 2)


def _frame(axes: _Axes) -> Iterator[str]:
    bottom, right = _HEIGHT - 44, WIDTH - _RIGHT
    for power in range(axes.x0, axes.x1 + 1):
        at = axes.x(10.0**power)
        yield f'<path class="grid" d="M{at:.1f} 24V{bottom}"/>'
        yield f'<text class="mid" x="{at:.1f}" y="{bottom + 18}">{10.0**power:g}</text>'
    for power in range(axes.y0, axes.y1 + 1):
        at = axes.y(10.0**power)
        yield f'<path class="grid" d="M{_LEFT} {at:.1f}H{right}"/>'
        yield f'<text class="end" x="{_LEFT - 6}" y="{at + 4:.1f}">{10.0 ** (power - 12):g}</text>'
    yield f'<text class="end" x="{right}" y="{bottom + 36}">FLOP per compulsory byte</text>'
    yield '<text x="4" y="12">TFLOP/s</text>'


def _slope(
    axes: _Axes, what: str, rate: float, top: float, estimate: bool, *, below: bool, marks: Sequence[float]
) -> Iterator[str]:
    # A slope is cut at the frame; clamping would bend it.
    start = max(10.0**axes.x0, 10.0**axes.y0 / rate)
    end = min(top / rate, 10.0**axes.x1)
    x1, y1, x2, y2 = axes.x(start), axes.y(rate * start), axes.x(end), axes.y(rate * end)
    yield f'<path class="slope{" dash" if estimate else ""}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'
    angle = -math.degrees(math.atan2(y1 - y2, x2 - x1))
    label = f"{what} {rate / 1e9:,.0f} GB/s{' (estimate)' if estimate else ''}"
    share = max(_LABELS, key=lambda one: min(abs(x1 + (x2 - x1) * one + _LABEL / 2 - mark) for mark in marks))
    at = (x1 + (x2 - x1) * share, y1 + (y2 - y1) * share + (18 if below else -8))
    yield f'<text transform="translate({at[0]:.1f} {at[1]:.1f}) rotate({angle:.1f})">{label}</text>'
