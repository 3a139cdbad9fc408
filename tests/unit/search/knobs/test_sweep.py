"""Sweeps of a kernel file's knobs, with a stand-in for the GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import FAST

from evo.device import DeviceName
from evo.errors import UsageError
from evo.evaluate.session import EvaluationSession
from evo.results import Status
from evo.search.knobs.strategies import strategy
from evo.search.knobs.sweep import Sweep, space_of
from evo.spec.chips import chip
from evo.spec.task import Task
from evo.spec.variant import parse_variant


def test_every_combination_is_measured_in_order_and_an_interrupted_sweep_goes_on(
    scale: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3] / "support"))
    text = FAST.replace("THREADS in 32, 64, 128", "THREADS in 32, 64, 128, 48").replace(
        "2.0f", "(THREADS % 32 ? 3.0f : 2.0f)"
    )
    kept = tmp_path / "scale_T4.json.gz"
    with EvaluationSession(DeviceName("gpu", "0"), arch="native", opener="stand_in_gpu:StandInGpu") as bench:
        sweep = Sweep(scale, parse_variant(text), scale.case("ragged"), bench)
        space = sweep.space()
        first = list(sweep.run(space, strategy("all", space), 2, 0, {}))
        sweep.write(kept, first)
        known = sweep.known(kept)
        assert list(known.values()) == first
        looked = []
        monkeypatch.setattr(Sweep, "_screened", _counting(Sweep._screened, looked))
        whole = list(sweep.run(space, strategy("all", space), 9, 0, known))
        asked = list(sweep.run(space, strategy("evo", space, seed=1), 9, 0, known))
    assert [trial.values["THREADS"] for trial in whole] == [32, 64, 128, 48]
    assert [trial.status for trial in whole] == [Status.MEASURED] * 3 + [Status.WRONG]
    assert whole[:2] == first
    assert looked[0] == 2
    assert {trial.values["THREADS"] for trial in asked} == {32, 64, 128, 48}
    assert whole[3].time_us is None
    assert sweep.results(whole)[3]["invalidity"] == "correctness"


def _counting(looks, counts):  # type: ignore[no-untyped-def]
    def counted(self, space, points, seed):  # type: ignore[no-untyped-def]
        points = list(points)
        counts.append(len(points))
        return looks(self, space, points, seed)

    return counted


def test_combinations_that_cannot_be_launched_are_no_part_of_the_space(scale: Task) -> None:
    def of(text: str) -> set[object]:
        space = space_of(parse_variant(text), scale, scale.case("small"), chip("l4"))
        assert space.legal is not None
        return {space.values(point)[0] for point in space.legal}

    text = FAST.replace("THREADS in 32, 64, 128", "THREADS in 32, 128, 2048")
    assert of(text) == {32, 128}  # no block has 2048 threads
    assert of(text.replace("// evo: launch", "// evo: require THREADS % 64 == 0\n// evo: launch")) == {128}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("in 32, 64, 128", "in 128", "no knob"),
        ("in 32, 64, 128", "in 2048, 4096, 128\n// evo: require THREADS > 128", "no combination"),
    ],
)
def test_a_file_without_choices_is_refused(scale: Task, old: str, new: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        space_of(parse_variant(FAST.replace(old, new)), scale, scale.case("small"), chip("l4"))
