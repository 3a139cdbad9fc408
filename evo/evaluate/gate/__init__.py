"""Correctness before speed: what a variant passes before anything is timed.

Order is cost: `rules` reads the text and `ptx` what the compiler made of it; `cases` runs every check case, as drawn
and under other distributions, with two poisons and the memory checks of simulator and GPU; `compare` holds the numbers
to the float64 reference; `sanitize` asks the GPU's own checkers before a first keep, `timed` looks at the timed
sizes again where times are modelled, and `widely` at all of their numbers. `hunt` looks for sizes at which a variant
is wrong beside those that its task lists. `selftest` refuses a task for
which all that would let a lazy kernel pass.
"""

from __future__ import annotations

from evo.evaluate.gate.at_timed_sizes import HIDDEN, TimedSizes, timed_sizes
from evo.evaluate.gate.beyond_sizes import wrong_beyond
from evo.evaluate.gate.compare import compare, terms_of
from evo.evaluate.gate.corner_launches import at_corners
from evo.evaluate.gate.far_sizes import far_cases, far_sizes
from evo.evaluate.gate.hunt import (
    QUICK,
    THOROUGH,
    all_distributions,
    hunt,
    large_cases,
    patterns,
    steered_thoroughly,
    unlike_machines,
)
from evo.evaluate.gate.kept_laws import lawful, laws_of
from evo.evaluate.gate.looked import Looked, UnmetOutcome
from evo.evaluate.gate.mismatches import first_difference
from evo.evaluate.gate.mixed_cases import drawn_mixtures, mixed
from evo.evaluate.gate.other_architectures import compiled_elsewhere
from evo.evaluate.gate.own_kernel import is_original
from evo.evaluate.gate.ptx_rules import ptx_problem
from evo.evaluate.gate.pursued_comparisons import pursued
from evo.evaluate.gate.run_cases import GateDevices, exercised, fault_reason, run_gate
from evo.evaluate.gate.sanitize import Sanitized, sanitize
from evo.evaluate.gate.scaled_cases import widest_cases
from evo.evaluate.gate.source_rules import StaticProblem, static_problem
from evo.evaluate.gate.steered_cases import unmet_outcomes
from evo.evaluate.gate.task_selftest import check_task
from evo.evaluate.gate.threshold_cases import cost_of, usual_limits

__all__ = [
    "HIDDEN", "QUICK", "THOROUGH", "GateDevices", "Looked", "Sanitized", "StaticProblem", "TimedSizes", "UnmetOutcome",
    "all_distributions", "at_corners", "check_task", "compare", "compiled_elsewhere", "cost_of", "drawn_mixtures",
    "exercised", "far_cases", "far_sizes", "fault_reason", "first_difference", "hunt", "is_original", "large_cases",
    "lawful", "laws_of", "mixed", "patterns", "ptx_problem", "pursued", "run_gate", "sanitize", "static_problem",
    "steered_thoroughly", "terms_of", "timed_sizes", "unlike_machines", "unmet_outcomes", "usual_limits",
    "widest_cases", "wrong_beyond",
]  # fmt: skip
