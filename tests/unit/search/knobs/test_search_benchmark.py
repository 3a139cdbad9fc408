"""The script that compares searches, and the made-up spaces it adds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[4]
sys.path.insert(0, str(ROOT / "benchmarks"))

import search  # noqa: E402
from held_out_spaces import HELD_OUT  # noqa: E402
from plain_gp import PlainGp  # noqa: E402
from synthetic_spaces import SYNTHETIC  # noqa: E402


def test_a_ratio_to_the_reference_is_a_geometric_mean() -> None:
    found = search.ratio_interval([np.array([0.1, 0.1]), np.array([0.4, 0.4])], [(0.2, 0.0), (0.2, 0.0)])
    assert found == pytest.approx((1.0, 1.0, 1.0))


def test_the_script_compares_with_the_recorded_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "figures.json"
    words = ["--seeds", "3", "--strategies", "random,genetic", "--only", "convolution_A4000", "--json", str(kept)]
    assert search.main(words) == 0
    shown = capsys.readouterr().out
    assert "recorded" in shown
    figures = json.loads(kept.read_text())
    losses = figures["losses"]["convolution_A4000"]
    assert {name: len(found) for name, found in losses.items()} == {"random": 3, "genetic": 3}
    reference = figures["reference"]["losses"]["convolution_A4000"]["loss"]
    ratio, low, high = figures["ratios"]["random"]
    assert ratio == pytest.approx(np.mean(losses["random"]) / reference)
    assert low < ratio < high


@pytest.mark.parametrize("name", ["convolution1", "rough1", "transposition1", *HELD_OUT])
def test_a_made_up_space_is_a_function_of_its_seed(name: str) -> None:
    made = {**SYNTHETIC, **HELD_OUT}[name]
    first, again = made(), made()
    assert np.array_equal(first.times, again.times, equal_nan=True)
    assert first.space.legal is not None
    assert len(np.unique(first.space.keys(first.space.legal))) == first.space.count
    assert np.nanmin(first.times) > 0


def test_the_plain_process_asks_each_point_once() -> None:
    measured = SYNTHETIC["convolution1"]()
    searcher, asked = PlainGp(measured.space, seed=0), set()
    for _ in range(24):
        point = searcher.ask()
        assert point is not None
        asked.add(point)
        searcher.tell(point, measured.cost(point))
    assert len(asked) == 24
