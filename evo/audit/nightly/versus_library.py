"""A champion compared with the task's library calls, in interleaved pairs of one process, on a GPU."""

from __future__ import annotations

from evo.audit.nightly.results import ChampionComparison
from evo.decide.sequential import gain_of, widened, words
from evo.device.timing_types import LibraryPairs
from evo.errors import CandidateFailed, EvoError
from evo.evaluate.library_baselines import against_library
from evo.evaluate.pipeline import EvaluationSession
from evo.spec.task import Task

_PAIRS = 20
_LIMIT_S = 150.0  # for all rivals of one case


def compare_with_library(bench: EvaluationSession, task: Task, text: str, seed: int) -> list[ChampionComparison]:
    """Each rival of each bench case; if a library cannot run a case, its result says so."""
    reference = bench.reference(task)
    if not reference.has("rivals"):
        return []
    prepared = bench.parent(task, text)
    found: list[ChampionComparison] = []
    try:
        for case in bench.bench_cases(task, prepared, seed):
            name = case.program.case
            pairs = against_library(bench.gpu, reference, case, pairs=_PAIRS, limit_s=_LIMIT_S)
            found += [_comparison(bench, task, name, rival, one) for rival, one in pairs.items()]
    except (EvoError, CandidateFailed) as failure:
        found.append(ChampionComparison(against="the library", verdict="fault", reason=str(failure)))
    finally:
        bench.gpu.recycle()  # torch has left its memory pools and handles in this process
    return found


def _comparison(
    bench: EvaluationSession, task: Task, case: str, rival: str, pairs: LibraryPairs | str
) -> ChampionComparison:
    if isinstance(pairs, str):
        return ChampionComparison(against=rival, case=case, verdict="refused", reason=pairs)
    if not pairs.ratios:
        return ChampionComparison(
            against=rival, case=case, verdict="unknown", reason="the clock moved within every pair"
        )
    gain = gain_of(pairs.ratios)
    floor = bench.floors.get(task.hash)
    if floor is not None and floor.between is not None:
        gain = widened(gain, floor.between, case=case)
    low, high = gain.low, gain.high
    verdict = "faster" if low is not None and low > 1 else "slower" if high is not None and high < 1 else "equal"
    times = f"{pairs.variant_us:.2f} against {pairs.library_us:.2f} µs measured"
    return ChampionComparison(
        against=rival,
        case=case,
        verdict=verdict,
        reason=f"{words(gain)} over {len(pairs.ratios)} pairs, {times}",
        champion_faster_by=gain,
    )
