"""The roofline of a task on a chip as an SVG: throughput over arithmetic intensity, both logarithmic. No library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evo.hardware import Chip
    from evo.roofline import CaseLimits

_WIDTH, _HEIGHT = 900, 560
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 230, 50, 60
_COLOURS = ("#0b6e99", "#b5420d", "#3d7a2a", "#7a3d8f", "#8a6d00", "#555555")


class _Axes:
    """From FLOP/byte and FLOP/s to pixels."""

    def __init__(self, low: tuple[float, float], high: tuple[float, float]) -> None:
        self.x0, self.y0 = (math.floor(math.log10(value)) for value in low)
        self.x1, self.y1 = (math.ceil(math.log10(value)) for value in high)

    def x(self, intensity: float) -> float:
        share = (math.log10(intensity) - self.x0) / max(self.x1 - self.x0, 1)
        return _LEFT + min(max(share, 0.0), 1.0) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, rate: float) -> float:
        share = (math.log10(rate) - self.y0) / max(self.y1 - self.y0, 1)
        return _HEIGHT - _BOTTOM - min(max(share, 0.0), 1.0) * (_HEIGHT - _TOP - _BOTTOM)


def roofline_svg(
    task: str, chip: Chip, cases: Sequence[CaseLimits], measured: Mapping[str, Sequence[tuple[str, float]]]
) -> str:
    """The drawing. Hollow: what the roofs allow at each case's compulsory intensity; filled: what was measured."""
    shown = [case for case in cases if case.flop > 0 and case.intensity > 0]
    roofs = [
        (name, peak)
        for name, peak in (("tensor", chip.peak_tensor_flop_per_s), ("fp32", chip.peak_fp32_flop_per_s))
        if peak
    ]
    slopes = [
        (name, rate, "stroke-dasharray='6 4'" if field in chip.estimates else "")
        for name, rate, field in (
            ("DRAM", chip.rate("dram_bytes_per_s"), "dram_bytes_per_s"),
            ("L2", chip.l2_bytes_per_s, "l2_bytes_per_clock"),
        )
        if rate
    ]
    top = max((peak for _, peak in roofs), default=1e12)
    intensities = [case.intensity for case in shown] or [1.0]
    rates = [case.flop / us * 1e6 for case in shown for _, us in measured.get(case.name, ())]
    low_x, high_x = min(*intensities, 1.0), max(*intensities, 1000.0)
    low_y = min([slope[1] * low_x for slope in slopes[:1]] + rates + [top / 1000])
    axes = _Axes((low_x, low_y), (high_x, top * 1.01))
    parts = [*_frame(task, chip, axes)]
    for name, peak in roofs:
        parts.append(_line(axes, (10.0**axes.x0, peak), (10.0**axes.x1, peak), "#333", ""))
        parts.append(_text(_WIDTH - _RIGHT + 8, axes.y(peak) + 4, f"{name} {peak / 1e12:.4g} TFLOP/s"))
    for name, rate, dashes in slopes:
        end = top / rate
        parts.append(_line(axes, (10.0**axes.x0, rate * 10.0**axes.x0), (end, top), "#999", dashes))
        start = max(10.0**axes.x0, 10.0**axes.y0 / rate)
        label = f"{name} {rate / 1e9:,.0f} GB/s{' (estimate)' if dashes else ''}"
        parts.append(_text(axes.x(start * 1.6), axes.y(rate * start * 1.6) - 6, label))
    parts += _points(axes, shown, measured)
    return "\n".join([*parts, "</svg>", ""])


def _frame(task: str, chip: Chip, axes: _Axes) -> list[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{_HEIGHT}' "
        f"viewBox='0 0 {_WIDTH} {_HEIGHT}' font-family='sans-serif' font-size='12'>",
        f"<rect width='{_WIDTH}' height='{_HEIGHT}' fill='white'/>",
        f"<text x='{_LEFT}' y='26' font-size='16'>{escape(task)} on {escape(chip.name)}</text>",
        f"<rect x='{_LEFT}' y='{_TOP}' width='{right - _LEFT}' height='{bottom - _TOP}' fill='none' stroke='#bbb'/>",
        _text((_LEFT + right) / 2 - 60, _HEIGHT - 18, "FLOP per compulsory byte"),
        f"<text transform='translate(22 {(bottom + _TOP) / 2 + 30}) rotate(-90)'>TFLOP/s</text>",
    ]
    for power in range(axes.x0, axes.x1 + 1):
        at = axes.x(10.0**power)
        parts.append(f"<line x1='{at:.1f}' y1='{_TOP}' x2='{at:.1f}' y2='{bottom}' stroke='#eee'/>")
        parts.append(_text(at - 8, bottom + 18, f"{10.0**power:g}"))
    for power in range(axes.y0, axes.y1 + 1):
        at = axes.y(10.0**power)
        parts.append(f"<line x1='{_LEFT}' y1='{at:.1f}' x2='{right}' y2='{at:.1f}' stroke='#eee'/>")
        parts.append(_text(_LEFT - 46, at + 4, f"{10.0 ** (power - 12):g}"))
    return parts


def _points(axes: _Axes, shown: Sequence[CaseLimits], measured: Mapping[str, Sequence[tuple[str, float]]]) -> list[str]:
    parts = []
    for number, case in enumerate(shown):
        colour = _COLOURS[number % len(_COLOURS)]
        at = axes.x(case.intensity)
        for floor_us, note in ((case.floor_us, "warm"), (case.floor_cold_us, "cold")):
            if floor_us > 0:
                rate = case.flop / floor_us * 1e6
                title = f"{case.name}: floor {note} {floor_us:.2f} us"
                parts.append(_circle(at, axes.y(rate), colour, "white", title))
        for what, us in measured.get(case.name, ()):
            title = f"{case.name}: {what} {us:.2f} us measured"
            parts.append(_circle(at, axes.y(case.flop / us * 1e6), colour, colour, title))
        entry = _TOP + 120 + 18 * number
        parts.append(_circle(_WIDTH - _RIGHT + 16, entry - 4, colour, colour, case.name))
        parts.append(_text(_WIDTH - _RIGHT + 28, entry, f"{case.name}: {case.intensity:.4g} FLOP/B"))
    return parts


def _line(axes: _Axes, start: tuple[float, float], end: tuple[float, float], colour: str, more: str) -> str:
    # A slope that leaves the frame is cut where it does, or clamping would bend it.
    low = 10.0**axes.y0
    if start[1] < low and end[1] > start[1]:
        start = (start[0] * low / start[1], low)
    x1, y1, x2, y2 = axes.x(start[0]), axes.y(start[1]), axes.x(end[0]), axes.y(end[1])
    return (
        f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{colour}' stroke-width='1.5' {more}/>"
    )


def _circle(x: float, y: float, stroke: str, fill: str, title: str) -> str:
    return (
        f"<circle cx='{x:.1f}' cy='{y:.1f}' r='5' fill='{fill}' stroke='{stroke}' stroke-width='1.5'>"
        f"<title>{escape(title)}</title></circle>"
    )


def _text(x: float, y: float, text: str) -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}'>{escape(text)}</text>"
