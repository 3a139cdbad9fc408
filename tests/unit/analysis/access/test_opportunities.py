"""What is worth a look in a kernel, and what is not: told by facts, not by words."""

from __future__ import annotations

from pathlib import Path

import pytest

from evo.analysis.access import LaunchAnalysis, analyse, opportunities_of
from evo.operators import RULES
from evo.spec.chips import chip
from evo.spec.task import read_task
from evo.spec.variant import parse_variant

TASKS = Path(__file__).parents[3] / "data" / "rules"


def launch(rule: str, *changes: tuple[str, str]) -> LaunchAnalysis:
    """The example of a rule after some replacements."""
    text = next(each for each in RULES if each.name == rule).examples[0].before
    for written, otherwise in changes:
        assert written in text
        text = text.replace(written, otherwise)
    task = read_task(TASKS / rule)
    (found,) = analyse(parse_variant(text), task, task.case(task.headline), chip("l4"))
    return found


def names(analysis: LaunchAnalysis) -> list[str]:
    return [found.name for found in opportunities_of(analysis)]


def test_a_walk_of_one_thread_is_seen() -> None:
    analysis = launch("lone_walks")
    (found,) = [each for each in opportunities_of(analysis) if each.name == "warp_reduction"]
    assert found.facts == {"loop": "i", "turns": 255}
    assert not any(guard.reaches_border for guard in analysis.legality.guards)  # one thread of every block


def test_a_walk_of_all_threads_is_none() -> None:
    assert "warp_reduction" not in names(launch("lone_walks", ("if (tid == 0)", "if (tid >= 0)")))


@pytest.mark.parametrize(
    ("second", "remedy"),
    [
        ("for (int i = 0; i < K; ++i) u += a[row * K + i] * a[row * K + i];", "keep_on_chip"),  # norms have no mean
        ("for (int i = 0; i < K; ++i) u += (a[row * K + i] - tmp) * (a[row * K + i] - tmp);", "one_pass_statistics"),
    ],
)
def test_only_what_is_taken_about_a_mean_is_one_pass_statistics(second: str, remedy: str) -> None:
    first = "for (int i = 0; i < K; ++i) tmp += a[row * K + i]"
    whole = (f"{first} * b[col * K + i];", f"{first};\n        float u = 0.0f;\n        {second}")
    found = names(launch("tile_product", whole, ("tmp + bias[col]", "tmp + u + bias[col] + b[col]")))
    assert {"keep_on_chip", "one_pass_statistics"} & set(found) == {remedy}


def test_what_all_lanes_read_at_once_needs_no_tile() -> None:
    """`bias[col]` is asked for by 16 threads of a block, once in 2,048 reads of the factors."""
    staged = [f.facts["array"] for f in opportunities_of(launch("tile_product")) if f.name == "stage_in_shared"]
    assert staged == ["a", "b"]


@pytest.mark.parametrize(("place", "touched"), [("c", 1024), ("c / 3", 342), ("(c & 7) * 131", 8), ("c * 64", 1024)])
def test_the_elements_that_a_block_touches_are_counted_near_and_far(place: str, touched: int) -> None:
    analysis = launch("lone_walks", ("x[row * C + c]", f"x[{place}]"))
    block = analysis.traffic.arrays["x"].block
    assert block is not None
    assert block.is_exact
    assert block.elements == touched
