"""One configuration for all cases of a task: those legal in every case, ordered by the score's weighting."""

from __future__ import annotations

import math

from evo.analysis.tiles.choose import derive
from evo.errors import TaskInvalid
from evo.spec.chips import Chip
from evo.spec.task import Task


def over_cases(task: Task, chip: Chip) -> tuple[dict[str, int], ...]:
    """Tiles that are legal at every scored case, the best first by the weighted geometric mean of modelled times.

    Empty if the task declares no choices, or nothing is legal everywhere.
    """
    if task.choices is None:
        return ()
    total: dict[tuple[int, ...], float] = {}
    seen: dict[tuple[int, ...], int] = {}
    tiles: dict[tuple[int, ...], dict[str, int]] = {}
    weights = {name: weight for name, weight in task.score.items() if weight > 0}
    for name, weight in weights.items():
        try:
            found = derive(task, chip, task.case(name))
        except TaskInvalid:
            return ()
        for one in found.candidates:
            key = tuple(one.tile.values())
            tiles[key] = one.tile
            seen[key] = seen.get(key, 0) + 1
            total[key] = total.get(key, 0.0) + weight * math.log(max(one.modelled_us, 1e-6))
    everywhere = [key for key, count in seen.items() if count == len(weights)]
    return tuple(tiles[key] for key in sorted(everywhere, key=lambda key: (total[key], key)))
