"""The attacks that evo ships against itself, those of a user, and the naive harness that accepts them.

Every attack must win against `NaiveHarness` and lose against
`evaluate`. The catalogue is in docs/redteam.md.
"""

from __future__ import annotations

from evo.audit.redteam.attack import load_attacks, own_attacks, read_expected, task_folder
from evo.audit.redteam.campaign import default_lanes, judges, run_all, run_procedures
from evo.audit.redteam.naive_harness import NaiveHarness
from evo.audit.redteam.procedures import PROCEDURES, chosen, run_procedure
from evo.audit.redteam.run_attack import FAULT, Judgement, Outcome, facts_of, finding_of, planted_file, run_attack

__all__ = [
    "FAULT", "PROCEDURES", "Judgement", "NaiveHarness", "Outcome",
    "chosen", "default_lanes", "facts_of", "finding_of", "judges", "load_attacks", "own_attacks",
    "planted_file", "read_expected", "run_all", "run_attack", "run_procedure", "run_procedures", "task_folder",
]  # fmt: skip
