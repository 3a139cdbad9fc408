"""A variant's source as a heat map: shares, folded lines, and outcomes that were not seen."""

from __future__ import annotations

import re
from pathlib import Path

from tiny import SLOW, new_repository

from evo.cli.pages import count_lines
from evo.cli.pages.heat_map import heat_html
from evo.spec.task import load_task

NEVER = SLOW.replace("y[i] = 2.0f * x[i];", "if (n > 0) y[i] = 2.0f * x[i]; else y[i] = 0.0f;")


def test_counters_and_coverage_stand_at_their_lines(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "repository")
    padded = NEVER.replace('extern "C"', "// nothing\n" * 20 + 'extern "C"')
    heat = count_lines(load_task(root, "scale"), padded, variant="abc", chip="l4", arch="sm_89", limit_s=60)
    assert heat.problem == ""
    text = heat_html(heat)
    numbers = [int(number) for number in re.findall(r'<tr[^>]*><td class="n">(\d+)</td>', text)]
    hot = max(heat.lines, key=lambda line: line.share).line
    assert hot in numbers
    assert numbers == sorted(numbers)
    assert len(numbers) < padded.count("\n")  # comments far from code are folded
    assert "lines without instructions" in text
    assert 'class="bar"' in text
    (row,) = re.findall(rf'<td class="n">{hot}</td>.*?</tr>', text)
    assert "%" in row
    coverage = heat.coverage
    assert coverage is not None
    missed = {point.source_line for point in coverage.points if point.reached and point.unexercised} - {None}
    for line in missed:
        (row,) = re.findall(rf'<td class="n">{line}</td>.*?</tr>', text)
        assert 'class="never"' in row
    assert text.count('class="never"') == len(missed)
    assert missed


def test_words_of_the_source_are_never_markup(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "repository")
    hostile = SLOW.replace("    const int first", "    // <script>alert(1)</script>\n    const int first")
    heat = count_lines(load_task(root, "scale"), hostile, variant="<u>", chip="l4", arch="sm_89", limit_s=60)
    text = heat_html(heat)
    assert "<script" not in text
    assert "<u>" not in text
    assert "alert(1)" in text
