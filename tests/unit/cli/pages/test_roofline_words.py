"""The words of a roofline stand where nothing else does."""

from __future__ import annotations

import math
import re

import pytest

from evo.analysis.roofline import CaseLimits
from evo.cli.pages.figures import SIZES, Size
from evo.cli.pages.roofline_chart import roofline_svg
from evo.cli.pages.roofline_plot import RooflineDot, roofline
from evo.spec.chips import chip


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size.name))
@pytest.mark.parametrize("intensity", [0.24, 1.0, 8.0, 60.0])
def test_words_along_a_lower_slope_cross_no_roof(size: Size, intensity: float) -> None:
    flop = 2_000_000
    case = CaseLimits(
        name="main",
        flop=flop,
        bytes_compulsory=int(flop / intensity),
        intensity_flop_per_byte=intensity,
        floors_us={},
        estimated=(),
        limiter="fp32",
        limiter_cold="dram",
        floor_us=1.0,
        floor_cold_us=28.0,
    )
    dot = RooflineDot(case="main", what="champion", role="champion", modelled_us=5.0)
    text = roofline_svg(roofline("sum", chip("l4"), "modelled", [case], [dot]), "plot", size)
    roofs = [float(y) for y in re.findall(r'class="roof" d="M[\d.]+ ([\d.]+)H', text)]
    words = re.findall(r"translate\(([\d.]+) ([\d.]+)\) rotate\((-?[\d.]+)\)\">([^<]*)", text)
    assert (len(roofs), len(words)) == (2, 2)
    for _, bottom, angle, word in words:
        if word.startswith("L2"):  # the roofs begin to the right of it
            continue
        top = float(bottom) - size.text_width(word) * math.sin(math.radians(-float(angle)))
        assert not any(top < y < float(bottom) for y in roofs), word
