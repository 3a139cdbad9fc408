"""Correctness before speed: what a variant passes before anything is timed.

Order is cost: `rules` reads the text; `cases` runs every check case under the simulator's and the GPU's memory checks
with two poisons; `compare` holds the numbers to the float64 reference.
"""

from __future__ import annotations

from evo.gate.cases import Places, fault_reason, fault_status, run_gate
from evo.gate.compare import compare, first_difference
from evo.gate.rules import StaticProblem, static_problem

__all__ = [
    "Places",
    "StaticProblem",
    "compare",
    "fault_reason",
    "fault_status",
    "first_difference",
    "run_gate",
    "static_problem",
]
