"""Mixtures of sizes: lengths go together, and the least ones are among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from evo.evaluate.gate import THOROUGH, drawn_mixtures, usual_limits
from evo.evaluate.gate.mixed_cases import deciding_cases
from evo.evaluate.prepare import Prepared
from evo.evaluate.session import EvaluationSession
from evo.spec.task import load_task

ROOT = Path(__file__).resolve().parents[4]
ATTENTION = load_task(ROOT, "attention")


@pytest.mark.parametrize("seed", range(3))
def test_one_query_meets_every_batch_and_long_keys(seed: int) -> None:
    cases = drawn_mixtures(ATTENTION, seed, usual_limits(ATTENTION, THOROUGH).each, related=False)
    decoding = [case.axes for case in cases if case.axes["SQ"] == 1]
    assert {axes["B"] for axes in decoding} == set(range(1, 9))
    assert any(axes["SK"] > 40 and axes["B"] in (3, 5, 7) for axes in decoding)
    assert all(axes["HQ"] % axes["HKV"] == 0 for axes in decoding)


@pytest.mark.parametrize("seed", range(3))
def test_a_condition_on_four_axes_is_met_together_with_a_fifth(bench: EvaluationSession, seed: int) -> None:
    text = (ROOT / "kernels/attention/ladder/00_scalar.cu").read_text()
    late = "const int kept = queries == 1 && !causal && batch > 2 && batch * heads % 8 == 5 && keys > 40 ? 1 : 0;"
    text = text.replace("    const int visible", f"    {late}\n    const int visible", 1)
    text = text.replace("j < visible; ++j", "j < visible - kept; ++j", 1)
    prepared = bench.prepare(ATTENTION, text)
    assert isinstance(prepared, Prepared), prepared
    known = (*ATTENTION.check, *ATTENTION.bench)
    found = deciding_cases(ATTENTION, prepared.variant, prepared.programs, bench.chip, seed, known)
    assert any(
        axes["SQ"] == 1 and not axes["CAUSAL"] and axes["B"] > 2 and axes["B"] * axes["HQ"] % 8 == 5 and axes["SK"] > 40
        for axes in (case.axes for case in found)
    )
